"""Options and fixtures of the throughput benchmarks under pytest-benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from adapters import registry
from suites import workloads
from suites.throughput.buffers import Buffers
from suites.throughput.tasks import BENCHMARKS, USUAL, SizedBenchmark

KNOWN = {"peer": registry.alone(), "workload": workloads.NAMES}
USUAL_NAMES = {"peer": registry.PEERS, "workload": workloads.NAMES}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("replaybench")
    for kind, known in KNOWN.items():
        group.addoption(f"--{kind}", action="append", metavar="NAME", help=f"only this {kind}: {', '.join(known)}")
    group.addoption("--capacity", type=int, metavar="ROWS", help="of the buffer (default: the recording's)")
    group.addoption(
        "--task",
        action="append",
        default=[],
        metavar="BENCHMARK:NAME=NUMBER,...",
        help="sizes of a benchmark, such as learner_step:adds=4,batch=32; may be given more than once (default: the "
        "usual sizes of each benchmark)",
    )
    group.addoption("--seconds", type=float, default=0.25, help="time spent on each figure (default: %(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    for kind, known in KNOWN.items():
        for name in config.getoption(f"--{kind}") or ():
            if name not in known:
                raise pytest.UsageError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    try:
        _tasks(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config = metafunc.config
    chosen = _tasks(config)
    named = {task.benchmark for task in chosen}
    tasks = [*chosen, *(task for task in USUAL if task.benchmark not in named)]
    metafunc.parametrize("task", sorted(tasks, key=lambda task: list(BENCHMARKS).index(task.benchmark)), ids=_id)
    for kind, usual in USUAL_NAMES.items():
        metafunc.parametrize(kind, config.getoption(f"--{kind}") or list(usual), scope="module")


def _tasks(config: pytest.Config) -> list[SizedBenchmark]:
    return [SizedBenchmark.parse(text) for text in config.getoption("--task")]


def _id(task: SizedBenchmark) -> str:
    return f"{task.benchmark}-{task.sizes_text}"


@pytest.fixture(scope="module")
def buffers(pytestconfig: pytest.Config, peer: str, workload: str) -> Iterator[Buffers]:
    capacity = pytestconfig.getoption("--capacity") or workloads.usual_rows(workload)
    made = Buffers(peer, workload, capacity, fill_seconds=math.inf)
    yield made
    made.close()
