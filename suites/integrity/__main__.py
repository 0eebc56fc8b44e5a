import sys

from suites.integrity.measure import main

sys.exit(main())
