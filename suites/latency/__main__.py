import sys

from suites.latency.measure import main

sys.exit(main())
