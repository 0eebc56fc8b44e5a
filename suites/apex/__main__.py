import sys

from suites.apex.measure import main

sys.exit(main())
