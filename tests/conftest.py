"""For all tests."""

import os

# Ray's workers have almost the lowest priority there is. On a machine that is busy with other things they get no turn.
os.environ.setdefault("RAY_worker_niceness", "0")

# In a worker of pytest-xdist, pytest-benchmark switches timing off, and so it would in the launches of the tests.
os.environ.pop("PYTEST_XDIST_WORKER", None)
