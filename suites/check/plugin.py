"""A pytest fixture that checks a buffer: `pytest_plugins = ["suites.check.plugin"]` in a project's conftest.py, then

def test_replay(check_buffer):
    check_buffer(MyBuffer)
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from suites.check import check, output
from suites.check.run import Report


@pytest.fixture
def check_buffer() -> Callable[..., Report]:
    """Return a function that takes the arguments of `suites.check.check`, and fails the test if it finds a fault."""

    def checked(buffer: type | str, **more: Any) -> Report:
        report = check(buffer, **more)
        if not report:
            text = io.StringIO()
            output.table(report, text)
            pytest.fail(text.getvalue(), pytrace=False)
        return report

    return checked
