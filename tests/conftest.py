"""For all tests."""

import faulthandler
import functools
import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests import order, time_limits

# Users have not set it. Without bytecode, pytest rewrites all tests in each worker, and each process that a test starts
# compiles our modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Ray's workers have almost the lowest priority there is. On a machine that is busy with other things they get no turn.
os.environ.setdefault("RAY_worker_niceness", "0")

# In a worker of pytest-xdist, pytest-benchmark switches timing off, and so it would in the launches of the tests.
if os.environ.pop("PYTEST_XDIST_WORKER", None):
    import pytest_timeout

    # A worker's terminal is /dev/null: a test that took too long would end the worker without a word.
    pytest_timeout.dump_stacks = lambda _terminal: faulthandler.dump_traceback()


watch = time_limits.Watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.json (see tests/order.py)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(order.Durations())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Exempt the half a million objects of modules and tests from each later search for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        recorded = order.Units()
        items.sort(key=lambda item: recorded.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)  # of pytest-timeout
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    if settings.method != "thread":
        return None
    import pytest_timeout

    watch.start(settings.timeout, functools.partial(pytest_timeout.timeout_timer, item, settings))
    item.cancel_timeout = watch.cancel  # pytest-timeout calls it
    return True


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.scheduler import LongestFirst

    return LongestFirst(config, log)
