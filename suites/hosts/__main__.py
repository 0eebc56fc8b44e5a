import sys

from suites.hosts.measure import main

sys.exit(main())
