"""What every suite needs to be run: process runs, the plan of a run, its progress and its results."""
