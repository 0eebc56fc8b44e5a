import sys

from suites.counts.measure import main

sys.exit(main())
