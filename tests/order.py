"""The order of the tests in the workers of pytest-xdist: the units that take longest come first.

A unit is usually a file. A test function that takes long is a separate unit, and so are tests that share a server or
a library that takes seconds to import. A worker takes the next unit when it has nearly finished one. The order keeps
long units from starting at the end.

    make durations    # runs the quick tests, and records how long each unit takes in tests/durations.json
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("durations.json")
#: Files whose tests share a server, a browser or a run: file -> unit
SHARED = {
    "tests/adapters/peers/test_reverb.py": "reverb",
    "tests/reports/test_site.py": "a browser",
    "tests/suites/test_run.py": "a run of faulty peers",
}
#: The tests of each such peer, with its variants, are one unit.
LIBRARY = re.compile(r"^tests/adapters\b.*[\[-](reverb|rllib)[\[\]-]")
LONG = 2.0  # a function whose tests take at least this many seconds is a separate unit


def split(test: str) -> tuple[str, str, str]:
    """Return the file, the function and, if it has one, the group of a test."""
    function = test.partition("[")[0]
    file = function.partition("::")[0]
    library = LIBRARY.match(test)
    return file, function, SHARED.get(file) or (library[1] if library else "")


def units(seconds_of: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each unit, given those of each test."""
    functions: dict[tuple[str, str, str], float] = defaultdict(float)
    for test, seconds in seconds_of.items():
        functions[split(test)] += seconds
    found: dict[str, float] = defaultdict(float)
    for (file, function, group), seconds in functions.items():
        found[group or (function if seconds >= LONG else file)] += seconds
    return {name: round(seconds, 1) for name, seconds in sorted(found.items())}


class Units:
    """The recorded units."""

    def __init__(self, record: Path = RECORD) -> None:
        self.seconds: dict[str, float] = json.loads(record.read_text()) if record.exists() else {}

    def of(self, test: str) -> str:
        file, function, group = split(test)
        return group or (function if function in self.seconds else file)

    def rank(self, test: str) -> tuple[float, str]:
        """Return a sort key for tests: tests of a unit are consecutive, and units without a record come last."""
        unit = self.of(test)
        return -self.seconds.get(unit, 0.0), unit


class Durations:
    """A plugin that sums the times of tests, including fixtures, and writes those of the units."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK:  # other runs may lack the times of some tests
            RECORD.write_text(json.dumps(units(self.seconds), indent=1) + "\n")
