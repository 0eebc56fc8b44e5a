import sys

from suites.startup.measure import main

sys.exit(main())
