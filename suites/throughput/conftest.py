"""Options and fixtures of the throughput suite, and the cells file that its launches write."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from adapters import registry
from adapters.lifeline import exit_with_parent
from suites import workloads
from suites.runner.results import Result, append_result, failure
from suites.throughput.jobs import THROUGHPUT, Job, Task
from suites.throughput.jobs import USUAL as USUAL_TASKS

KNOWN = {"peer": registry.alone(), "workload": workloads.NAMES}
USUAL_NAMES = {"peer": registry.PEERS, "workload": workloads.NAMES}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("replaybench")
    for kind, known in KNOWN.items():
        group.addoption(f"--{kind}", action="append", metavar="NAME", help=f"only this {kind}: {', '.join(known)}")
    group.addoption(
        "--capacity",
        action="append",
        default=[],
        metavar="[WORKLOAD=]ROWS[:SECONDS]",
        help="of the buffer, and how long filling it may take; may be given more than once (default: the recording's)",
    )
    group.addoption(
        "--task",
        action="append",
        default=[],
        metavar="BENCHMARK:NAME=NUMBER,...",
        help="sizes of a benchmark, such as learner_step:adds=4,batch=32; may be given more than once (default: the "
        "usual sizes of each benchmark)",
    )
    group.addoption("--seconds", type=float, default=0.25, help="time spent on each figure (default: %(default)s)")
    group.addoption("--cells", type=Path, metavar="FILE", help="append one JSON line a cell as it is finished")
    group.addoption(
        "--package-at", metavar="MODULE=DIR", help="refuse to measure unless MODULE is imported from within DIR"
    )


def pytest_configure(config: pytest.Config) -> None:
    for kind, known in KNOWN.items():
        for name in config.getoption(f"--{kind}") or ():
            if name not in known:
                raise pytest.UsageError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    try:
        _tasks(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if config.getoption("--cells"):  # a launch: without its runner, nothing would end it or read its results
        exit_with_parent(os.getppid())
    if wanted := config.getoption("--package-at"):
        module, _, folder = wanted.partition("=")
        found = importlib.import_module(module).__file__
        if not found or not Path(found).resolve().is_relative_to(Path(folder).resolve()):
            raise pytest.UsageError(f"{module} was imported from {found}, not from {folder}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config, benchmark = metafunc.config, metafunc.function.__name__.removeprefix("test_")
    if benchmark not in THROUGHPUT:
        return
    told, usual = ([task for task in some if task.benchmark == benchmark] for some in (_tasks(config), USUAL_TASKS))
    metafunc.parametrize("task", told or usual, ids=lambda task: task.sizes_text)
    chosen = {kind: config.getoption(f"--{kind}") or list(usual) for kind, usual in USUAL_NAMES.items()}
    places = [(workload, rows) for workload in chosen["workload"] for rows in _capacities(config, workload)]
    # As one: pytest would bring together what shares a workload or a capacity, and the runner counts on the order.
    metafunc.parametrize("place", places, ids=[f"{name}-{rows}" for name, rows in places], scope="module")
    metafunc.parametrize("peer", chosen["peer"], scope="module")


def _tasks(config: pytest.Config) -> list[Task]:
    return [Task.parse(text) for text in config.getoption("--task")]


def _capacities(config: pytest.Config, workload: str) -> dict[int, float]:
    """Rows, and the seconds that filling so many may take."""
    found = {}
    for option in config.getoption("--capacity"):
        name, _, place = option.rpartition("=")
        rows, _, seconds = place.partition(":")
        if name in ("", workload):
            found[int(rows)] = float(seconds or "inf")
    return found or {workloads.usual_rows(workload): float("inf")}


@pytest.fixture
def sizes(task: Task) -> dict[str, int]:
    return dict(task.sizes)


@pytest.fixture
def batch(sizes: dict[str, int]) -> int:
    return sizes["batch"]


@pytest.fixture(scope="module")
def workload(place: tuple[str, int]) -> str:
    return place[0]


@pytest.fixture(scope="module")
def capacity(place: tuple[str, int]) -> int:
    return place[1]


@pytest.fixture(scope="module")
def fill_seconds(pytestconfig: pytest.Config, workload: str, capacity: int) -> float:
    return _capacities(pytestconfig, workload)[capacity]


@pytest.fixture(scope="module")
def recording(workload: str) -> workloads.Workload:
    return workloads.load(workload)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Write the cell's line: at the first phase that fails or skips, else after the call."""
    report = yield
    file = item.config.getoption("--cells")
    if file and "peer" in getattr(item, "fixturenames", ()) and (report.when == "call" or not report.passed):
        append_result(file, _result(item, call, report))
    return report


def _result(item: pytest.Item, call: pytest.CallInfo, report: pytest.TestReport) -> Result:
    extra = item.funcargs["benchmark"].extra_info if "benchmark" in item.funcargs else {}
    params = item.callspec.params
    workload, capacity = params["place"]
    outcome, reason = "ok", None
    if call.excinfo is not None:
        # pytest.skip stands for Unavailable: pytest's own report then says "skipped" as well.
        outcome, reason = ("skipped", str(call.excinfo.value)) if report.skipped else failure(call.excinfo.value)
    elif "value" not in extra:
        outcome, reason = "skipped", "timing is switched off"
    return Result(
        benchmark=item.originalname.removeprefix("test_"),
        peer=params["peer"],
        workload=workload,
        params=Job(params["task"], workload, capacity).params,
        outcome=outcome,
        value=extra.get("value"),
        reason=reason,
    )
