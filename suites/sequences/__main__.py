import sys

from suites.sequences.measure import main

sys.exit(main())
