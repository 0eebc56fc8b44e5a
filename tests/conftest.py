"""Configuration of all tests."""

import faulthandler
import functools
import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests import order, time_limits

# Users do not set this variable. With it, pytest rewrites all tests in each worker, and each process that a test starts
# compiles our modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Ray gives its workers almost the lowest priority. On a busy machine they would get no processor time.
os.environ.setdefault("RAY_worker_niceness", "0")

# pytest-benchmark disables timing in workers of pytest-xdist, and would do so in the launches of the tests.
if os.environ.pop("PYTEST_XDIST_WORKER", None):
    import pytest_timeout

    # The terminal of a worker is /dev/null, so a test that took too long would end the worker without a message.
    pytest_timeout.dump_stacks = lambda _terminal: faulthandler.dump_traceback()


watch = time_limits.Watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.json (see tests/order.py)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(order.Durations())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Exempt the half a million objects of modules and tests from later garbage collections."""
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


@pytest.hookimpl(optionalhook=True)  # a hook of pytest-timeout
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    if settings.method != "thread":
        return None
    import pytest_timeout

    watch.start(settings.timeout, functools.partial(pytest_timeout.timeout_timer, item, settings))
    item.cancel_timeout = watch.cancel  # the attribute that pytest-timeout calls
    return True


@pytest.hookimpl(optionalhook=True)  # a hook of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    if config.getvalue("dist") != "loadscope":
        return None
    from tests.scheduler import LongestFirst

    return LongestFirst(config, log)
