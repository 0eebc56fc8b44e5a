"""What all suites share: process runs, the plan of a run, its progress and its results."""
