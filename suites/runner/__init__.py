"""The code that all suites share: launches, the plan of a run, its progress and its results."""
