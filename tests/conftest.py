"""For all tests."""

import faulthandler
import os

# Ray's workers have almost the lowest priority there is. On a machine that is busy with other things they get no turn.
os.environ.setdefault("RAY_worker_niceness", "0")

# In a worker of pytest-xdist, pytest-benchmark switches timing off, and so it would in the launches of the tests.
if os.environ.pop("PYTEST_XDIST_WORKER", None):
    import pytest_timeout

    # A worker's terminal is /dev/null: a test that took too long would end the worker without a word.
    pytest_timeout.dump_stacks = lambda _terminal: faulthandler.dump_traceback()
