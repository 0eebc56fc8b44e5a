import sys

from suites.control.measure import main

sys.exit(main())
