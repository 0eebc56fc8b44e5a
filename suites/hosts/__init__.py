"""The hosts suite: a learner and explorers on different hosts from the rows. See `spec.py`."""
