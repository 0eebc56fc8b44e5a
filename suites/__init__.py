"""The suites, the workloads and the runner. See ARCHITECTURE.md."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.suite import Suite

#: In order of importance: if the time budget is too small, the last suites are left out first. Each suite is the folder
#: of that name.
SUITES = (
    "control",  # one peer as if it were two, which shows the differences due to the machine alone; takes seconds
    "throughput",  # calls in one process
    "sequences",  # sampling sequences of consecutive steps
    "apex",  # explorers and a learner, with a real environment
    "solve_time",  # training runs with that buffer, until their task is solved
    "paired_training",  # other libraries' training runs, with their own buffer and with ours
    "sharing",  # the cost of a buffer that processes share
    "integrity",  # whether shared buffers return what was stored
    "conformance",  # whether a peer does what it promises
    "latency",  # the slowest calls
    "startup",  # from import to the first batch
    "memory",  # bytes per transition
    "counts",  # instructions, memory accesses and system calls per call, for the gate
    "hosts",  # rows on different hosts from the learner's
)


def suite_named(name: str) -> Suite:
    """Return the suite of this name. Imports its `spec` module, and no peer."""
    return importlib.import_module(f"suites.{name}.spec").SUITE
