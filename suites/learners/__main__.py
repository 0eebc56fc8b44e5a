import sys

from suites.learners.measure import main

sys.exit(main())
