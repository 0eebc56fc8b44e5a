"""The throughput suite under pytest-benchmark, for its tables, its options and its JSON.

    python -m pytest suites/throughput [--peer NAME] [--workload NAME] [--capacity ROWS] [--benchmark-json=FILE]

A round in pytest-benchmark's own table consists of many calls. The figure for one call is in the JSON's extra_info.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from suites.runner.results import failure
from suites.runner.timing import Stopwatch
from suites.throughput.buffers import Buffers
from suites.throughput.measure import BENCHMARKS
from suites.throughput.spec import SUITE
from suites.throughput.tasks import SizedBenchmark


class BenchmarkStopwatch(Stopwatch):
    """Lets pytest-benchmark time the rounds."""

    def __init__(self, benchmark, seconds: float) -> None:
        super().__init__(seconds)
        self.benchmark = benchmark

    def per_call(self, run: Callable[[int], object]) -> float:
        return math.nan if self.benchmark.disabled else super().per_call(run)

    def per_round(self, run: Callable[[], object], rounds: int) -> float:
        self.benchmark.pedantic(run, rounds=rounds)
        return math.nan if self.benchmark.disabled else self.benchmark.stats.stats.median


def test_throughput(benchmark, pytestconfig: pytest.Config, task: SizedBenchmark, buffers: Buffers) -> None:
    watch = BenchmarkStopwatch(benchmark, pytestconfig.getoption("--seconds"))
    try:
        value = BENCHMARKS[task.benchmark](buffers, dict(task.sizes), watch)
    except Exception as error:
        if failure(error)[0] == "skipped":
            pytest.skip(str(error))
        raise
    if not benchmark.disabled:
        benchmark.extra_info.update(value=value, unit=SUITE.benchmarks[task.benchmark].unit)
