"""The hosts suite: a learner and explorers on other hosts than the rows. See `spec.py`."""
