"""Fixtures of the conformance tests: workload-like fields, and a guard that nothing is left behind."""

from __future__ import annotations

import gc
import importlib
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path

import psutil
import pytest

from adapters.base import Adapter, Field, Spec, Unavailable
from adapters.registry import PEERS, SHARED, adapter_class

#: The rows of the three workloads, by shape and dtype.
FIELDS = {
    "CartPole-v1": {
        "obs": Field((4,), "float32"),
        "act": Field((), "int64"),
        "rew": Field((), "float32"),
        "next_obs": Field((4,), "float32"),
        "done": Field((), "bool"),
    },
    "Pendulum-v1": {
        "obs": Field((3,), "float32"),
        "act": Field((1,), "float32"),
        "rew": Field((), "float32"),
        "next_obs": Field((3,), "float32"),
        "done": Field((), "bool"),
    },
    "ALE/Seaquest-v5": {
        "obs": Field((84, 84, 4), "uint8"),
        "act": Field((), "int64"),
        "rew": Field((), "float32"),
        "next_obs": Field((84, 84, 4), "uint8"),
        "done": Field((), "bool"),
    },
}

#: Of an environment whose observation is a number.
NUMBERS = {
    "obs": Field((), "int32"),
    "act": Field((), "int32"),
    "rew": Field((), "float32"),
    "next_obs": Field((), "int32"),
    "done": Field((), "bool"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--peer", action="append", help="conformance of this peer, which can be imported in this environment"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`peer` is each of the default ones, or of those named; and each that can do what is tested."""
    named = metafunc.config.getoption("--peer", None)  # None too where pytest was not told of this folder by name
    peers = named or list(PEERS)

    def can(feature: str, names: Collection[str]) -> list[str]:
        return [name for name in names if getattr(adapter_class(name).features, feature).startswith("yes")]

    able = {feature: can(feature, peers) for feature in ("prioritized", "compression")}
    # Of those that processes share, too: an adapter says of each whether it takes other fields than a step's.
    here = named or [*PEERS, *SHARED]
    flexible = [name for name in here if adapter_class(name).any_fields]
    asked = set(metafunc.fixturenames)
    if {"peer", "prioritized"} <= asked:
        both = [(name, False) for name in peers] + [(name, True) for name in able["prioritized"]]
        ids = [f"{name}-{'prioritized' if prioritized else 'uniform'}" for name, prioritized in both]
        metafunc.parametrize(("peer", "prioritized"), both, ids=ids)
    elif "peer" in asked:
        metafunc.parametrize("peer", peers)
    some = {
        "prioritized_peer": able["prioritized"],
        "compressing_peer": able["compression"],
        "flexible_peer": flexible,
        "flexible_prioritized_peer": can("prioritized", flexible),
        "fixed_peer": [name for name in here if name not in flexible],
    }
    for argument in asked & set(some):
        metafunc.parametrize(argument, some[argument])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test for which no peer is able is not there, rather than skipped."""
    empty = [item for item in items if "NOTSET" in item.name]
    if empty:
        config.hook.pytest_deselected(items=empty)
        items[:] = [item for item in items if item not in empty]


def make(name: str, spec: Spec) -> Adapter:
    """The adapter; the test is skipped only where the platform can't have the peer."""
    cls = adapter_class(name)
    try:
        cls.version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return cls(spec)


def child_processes() -> set[int]:
    """Processes that this one started, or those started, zombies included."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def pythons_own() -> set[int]:
    """Its server of forks, and the process that tracks its resources: once started, they stay as long as this one."""
    found = set()
    for process in psutil.Process().children():
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:  # or a zombie
            continue
        if "multiprocessing.forkserver" in command or "multiprocessing.resource_tracker" in command:
            found.add(process.pid)
    return found


def segments() -> set[str]:
    return set(os.listdir("/dev/shm"))


def without_strangers(names: set[str]) -> set[str]:
    """Those of these segments that no stranger's process (another worker of these tests, say) has mapped."""
    nodes = {str(entry.inode()): entry.name for entry in os.scandir("/dev/shm") if entry.name in names}
    ours = {os.getpid(), *child_processes()}
    for maps in Path("/proc").glob("[0-9]*/maps") if nodes else ():
        try:
            text = maps.read_text() if int(maps.parent.name) not in ours else ""
        except OSError:
            continue
        for line in text.splitlines():
            if "/dev/shm/" in line:  # by number: a semaphore's file had another name when it was mapped
                nodes.pop(line.split(maxsplit=5)[4], None)
    return set(nodes.values())


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test no child process and no shared segment is there that was not there before."""
    resource_tracker.ensure_running()  # Python's own, which stays until this process ends
    with suppress(ImportError):
        importlib.import_module("tqdm").tqdm.get_lock()  # a semaphore for good; torch.compile takes it
    processes_before, segments_before = child_processes(), segments()
    yield
    deadline = time.monotonic() + 60  # a child that was told to end may take a moment
    while time.monotonic() < deadline:
        processes = child_processes() - processes_before - pythons_own()
        left = without_strangers(segments() - segments_before)
        if not processes and not left:
            return
        gc.collect()  # only now: with TensorFlow imported it takes longer than most tests here
        time.sleep(0.05)
    assert not processes, f"processes left: {processes}"
    assert not left, f"segments left: {left}"
