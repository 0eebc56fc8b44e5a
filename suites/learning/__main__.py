import sys

from suites.learning.measure import main

sys.exit(main())
