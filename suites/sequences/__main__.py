"""Sequences: how many sequences of consecutive steps a buffer returns per second."""

import sys

from suites.sequences.measure import main

sys.exit(main())
