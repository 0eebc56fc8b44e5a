import sys

from suites.conformance.measure import main

sys.exit(main())
