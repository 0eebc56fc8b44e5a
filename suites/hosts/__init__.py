"""The hosts suite: a learner and explorers whose rows are on other hosts. See `spec.py`."""
