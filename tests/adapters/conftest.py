"""Fixtures of the adapters' tests: fields like those of workloads, and a check that nothing is left behind."""

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
from adapters.contract import RowFields
from adapters.registry import PEERS, SEQUENCES, SHARED, adapter_class, peer_class

#: Shapes and dtypes of rows as in three workloads: small vectors, float actions, and stacks of frames.
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

#: Fields of which each is a single number.
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
    """Parametrize by peer: the default peers, or those named by --peer, as far as they support what the test needs."""
    named = metafunc.config.getoption("--peer", None)  # None if pytest was not started in this folder
    peers = named or list(PEERS)

    def prioritized(names: Collection[str]) -> list[str]:
        return [name for name in names if peer_class(name).contract.priorities.value]

    here = named or [*PEERS, *SHARED]
    flexible = [name for name in here if adapter_class(name).contract.fields.value is not RowFields.FIXED]
    asked = set(metafunc.fixturenames)
    for argument, names in {"peer": peers, "sequence_peer": named or list(SEQUENCES)}.items():
        if {argument, "prioritized"} <= asked:
            both = [(name, False) for name in names] + [(name, True) for name in prioritized(names)]
            ids = [f"{name}-{'prioritized' if has_priorities else 'uniform'}" for name, has_priorities in both]
            metafunc.parametrize((argument, "prioritized"), both, ids=ids)
            asked.remove(argument)
    some = {
        "peer": peers,
        "prioritized_peer": prioritized(peers),
        "compressing_peer": [name for name in peers if adapter_class(name).contract.compression.value],
        "flexible_peer": flexible,
        "flexible_prioritized_peer": prioritized(flexible),
        "fixed_peer": [name for name in here if name not in flexible],
    }
    for argument in asked & set(some):
        metafunc.parametrize(argument, some[argument])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, instead of skipping, a test that no peer can run."""
    empty = [item for item in items if "NOTSET" in item.name]
    if empty:
        config.hook.pytest_deselected(items=empty)
        items[:] = [item for item in items if item not in empty]


def make(name: str, spec: Spec) -> Adapter:
    """Return the adapter. Skip the test only if the peer is not available on this platform."""
    cls = adapter_class(name)
    try:
        cls.version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return cls(spec)


def child_processes() -> set[int]:
    """Return the ids of all descendants of this process, zombies included."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


def pythons_own() -> set[int]:
    """Return the ids of multiprocessing's forkserver and resource tracker, which run as long as this process."""
    found = set()
    for process in psutil.Process().children():
        try:
            command = " ".join(process.cmdline())
        except psutil.NoSuchProcess:  # it has ended, or is a zombie
            continue
        if "multiprocessing.forkserver" in command or "multiprocessing.resource_tracker" in command:
            found.add(process.pid)
    return found


def segments() -> set[str]:
    """Return the names of all shared segments except shards: another process takes over a shard that a test kills."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("cpprb_impl-shard-")}


def without_strangers(names: set[str]) -> set[str]:
    """Return those segments that no other process, such as another worker of these tests, has mapped."""
    nodes = {str(entry.inode()): entry.name for entry in os.scandir("/dev/shm") if entry.name in names}
    if not nodes:
        return set()
    ours = {os.getpid(), *child_processes()}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text() if int(maps.parent.name) not in ours else ""
        except OSError:
            continue
        for line in text.splitlines():
            if "/dev/shm/" in line:  # by inode number: a semaphore's file had another name when it was mapped
                nodes.pop(line.split(maxsplit=5)[4], None)
    return set(nodes.values())


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that the test leaves no child process and no shared segment behind."""
    resource_tracker.ensure_running()  # Python's own child process, which runs until this process ends
    with suppress(ImportError):
        importlib.import_module("tqdm").tqdm.get_lock()  # creates a semaphore that stays; torch.compile uses it
    processes_before, segments_before = child_processes(), segments()
    yield
    deadline = time.monotonic() + 10  # a child may take a moment to exit
    while time.monotonic() < deadline:
        processes = child_processes() - processes_before
        if processes:
            processes -= pythons_own()
        left = without_strangers(segments() - segments_before)
        if not processes and not left:
            return
        gc.collect()  # only now, since with TensorFlow imported it takes longer than most of these tests
        time.sleep(0.05)
    assert not processes, f"processes left: {processes}"
    assert not left, f"segments left: {left}"
