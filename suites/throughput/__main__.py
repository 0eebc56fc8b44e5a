import sys

from suites.throughput.measure import main

sys.exit(main())
