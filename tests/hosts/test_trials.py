"""Some crash trials over hosts; `make crash-hosts` runs many."""

from __future__ import annotations

import subprocess
import sys

import pytest

from suites.lan import why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]


def test_no_acknowledged_row_is_lost_and_no_row_is_torn_or_stored_twice():
    command = [sys.executable, "-m", "tests.hosts.trials", "--trials", "15", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
