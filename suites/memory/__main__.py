import sys

from suites.memory.measure import main

sys.exit(main())
