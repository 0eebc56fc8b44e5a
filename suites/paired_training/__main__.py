import sys

from suites.paired_training.measure import main

sys.exit(main())
