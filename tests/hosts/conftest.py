from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from types import SimpleNamespace

import numpy as np
import pytest
import zmq

from cpprb_impl.buffers import shared
from cpprb_impl.hosts.explorer import RemoteExplorer
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.learner import Learner
from cpprb_impl.hosts.shard import Shard
from cpprb_impl.layout.layout import Layout

from .forked import Parent
from .sequences import OPTIONS

FIELDS = {"id": {"dtype": np.int64}, "obs": {"shape": 3}, "rew": {}}
ROWS = 3000


def layout_of(size: int, env_dict: Mapping = FIELDS, **options) -> Layout:
    """Return the layout of a shard, from the options of its constructor."""
    return shared.layout_of("MPPrioritizedReplayBuffer", shared.SHARED_PRIORITIZED, size, env_dict, options)[0]


def rows_with(ids: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return rows that certify themselves: every word is computed from the id."""
    return {"id": ids, "obs": np.stack([ids, ids + 1, ids + 2], axis=1), "rew": ids % 97}


def are_whole(batch: Mapping[str, np.ndarray]) -> bool:
    ids = batch["id"].ravel()
    expected = rows_with(ids)
    return all((batch[name].ravel() == expected[name].ravel()).all() for name in FIELDS)


with_and_without_encryption = pytest.mark.parametrize(
    "keys", [False, True], ids=["password", "encrypted"], indirect=True
)


@pytest.fixture(scope="session")
def parent() -> Iterator[Parent]:
    made = Parent()
    yield made
    made.close()


@pytest.fixture
def started_servers() -> None:
    """Start each server as a separate Python, as in real use: for tests in which servers die or start."""


@pytest.fixture(autouse=True)
def forked_servers(request, monkeypatch) -> None:
    """Fork the servers of shards in all tests without `started_servers`."""
    if "started_servers" not in request.fixturenames:
        names = vars(subprocess) | {"Popen": request.getfixturevalue("parent").start}
        monkeypatch.setattr("cpprb_impl.hosts.shard.subprocess", SimpleNamespace(**names))


@pytest.fixture
def keys(request) -> Keys:
    """Return keys with a password only, unless the test is marked otherwise."""
    return Keys.make(encrypt=getattr(request, "param", False))


@pytest.fixture
def exceptions_of_pyzmq(monkeypatch) -> list[str]:
    """Return the names of the exceptions that pyzmq creates from now on."""
    made: list[str] = []

    def init(error: zmq.ZMQError, *args: object, **options: object) -> None:
        made.append(type(error).__name__)
        original(error, *args, **options)

    original = zmq.ZMQError.__init__
    monkeypatch.setattr(zmq.ZMQError, "__init__", init)
    return made


@pytest.fixture
def make_shards(keys) -> Iterator[Callable[..., list[Shard]]]:
    """Make shards on this host."""
    with ExitStack() as stack:

        def make(count: int, **options) -> list[Shard]:
            layout = layout_of(**{"size": ROWS, **options})
            # Each shard has a buffer name of its own, since all are on one host.
            made = [
                Shard(secrets.token_hex(8), number, "127.0.0.1", f"node{number}", layout, keys)
                for number in range(count)
            ]
            for shard in made:
                stack.enter_context(closing(shard))
            return made

        yield make


@pytest.fixture
def learn(keys) -> Iterator[Callable[..., Learner]]:
    """Make a learner of these shards."""
    with ExitStack() as stack:

        def make(shards: list[Shard], **options) -> Learner:
            learner = Learner(
                lambda: [shard.address for shard in shards], keys, **{"prefetch": 2, "deadline": 10.0, **options}
            )
            return stack.enter_context(closing(learner))

        yield make


@pytest.fixture
def explore(keys) -> Iterator:
    with ExitStack() as stack:

        def make(shards, options=OPTIONS, **more) -> RemoteExplorer:
            explorer = RemoteExplorer(
                lambda: [shard.address for shard in shards], keys, layout_of(**options),
                **{"when_lost": "elsewhere", "deadline": 5.0, **more},
            )  # fmt: skip
            return stack.enter_context(closing(explorer))

        yield make
