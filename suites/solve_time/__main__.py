import sys

from suites.solve_time.measure import main

sys.exit(main())
