import sys

from suites.sharing.measure import main

sys.exit(main())
