"""The buffer over the hosts of a Ray cluster, which here has one host."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray")

from cpprb_impl.hosts.explorer import LocalExplorer  # noqa: E402 (the same)
from cpprb_impl.ray import PrioritizedReplayBuffer  # noqa: E402 (only if there is Ray)

FIELDS = {"id": {"dtype": np.int64}, "obs": {"shape": 3}}
PATIENCE = 60.0


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.fixture
def buffer():
    made = PrioritizedReplayBuffer(10_000, FIELDS)
    yield made
    made.close()


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + count)
    return {"id": ids, "obs": np.stack([ids] * 3, axis=1)}


@ray.remote(num_cpus=0)
def explore(buffer, first: int, count: int) -> str:
    for at in range(first, first + count, 100):
        buffer.add(**rows(at, 100), priorities=np.ones(100))
    buffer.flush()
    return type(buffer._explorer_).__name__


def test_explorers_and_a_learner_in_tasks(buffer):
    assert set(ray.get([explore.remote(buffer, 1000 * n, 1000) for n in range(3)])) == {"LocalExplorer"}

    @ray.remote(num_cpus=0)
    def learn(buffer) -> tuple[int, int]:
        seen = set()
        for _ in range(200):
            batch = buffer.sample(64, beta=0.5)
            assert (batch["obs"] == batch["id"]).all()
            seen |= set(batch["id"].ravel().tolist())
            buffer.update_priorities(batch["indexes"], np.ones(64))
        return buffer.get_stored_size(), len(seen)

    stored, seen = ray.get(learn.remote(buffer))
    assert stored == 3000 and seen > 2900


def test_closing_leaves_nothing():
    buffer = PrioritizedReplayBuffer(1000, FIELDS)
    buffer.add(**rows(0, 10))
    (address,) = buffer._known()()
    segment = Path("/dev/shm", address.segment.lstrip("/"))
    assert segment.exists()
    buffer.close()
    end = time.monotonic() + PATIENCE
    while segment.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not segment.exists()


def test_a_shard_whose_supervisor_dies_comes_back_empty(buffer):
    buffer.add(**rows(0, 500))
    assert buffer.get_stored_size() == 500
    (address,) = buffer._known()()
    old = buffer.sample(8)["indexes"].copy()
    os.kill(supervisor_of(address.segment), signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while [each.number for each in buffer._known()()] in ([], [address.number]):
        assert time.monotonic() < end
        time.sleep(0.05)
    buffer.add(**rows(1000, 50))
    batch = buffer.sample(32)
    assert batch["id"].min() >= 1000 and buffer.get_stored_size() == 50
    buffer.update_priorities(old, np.full(8, 1e9))  # of the lost shard: nothing changes
    assert np.allclose(buffer.sample(32)["weights"], 1.0)


def test_an_explorer_returns_to_the_shard_of_its_host():
    buffer = PrioritizedReplayBuffer(10_000, FIELDS, when_lost="wait")
    try:
        buffer.add(**rows(0, 10))
        (address,) = buffer._known()()
        os.kill(supervisor_of(address.segment), signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while buffer._known()() or isinstance(buffer._explorer, LocalExplorer):
            assert time.monotonic() < end
            time.sleep(0.02)
        buffer.add(**rows(10, 10))
        buffer.flush()  # waits until the shard is back
        buffer.on_episode_end()
        buffer.add(**rows(20, 10))
        assert isinstance(buffer._explorer_, LocalExplorer) and buffer.get_stored_size() == 20
    finally:
        buffer.close()


def supervisor_of(segment: str) -> int:
    """The process that made a segment: its name begins with it."""
    return int(segment.lstrip("/").split("-")[1])


def test_bad_options_are_named():
    with pytest.raises(RuntimeError, match=r"192\.0\.2\.77 is not a node of this Ray cluster"):
        PrioritizedReplayBuffer(10, FIELDS, hosts=["192.0.2.77"])
    with pytest.raises(ValueError, match="when_lost must be 'elsewhere' or 'wait', got 'never'"):
        PrioritizedReplayBuffer(10, FIELDS, when_lost="never")
    with pytest.raises(ValueError, match="size must be at least 1"):
        PrioritizedReplayBuffer(0, FIELDS)
    with pytest.raises(KeyError, match="next_of: there is no field 'observation'"):
        PrioritizedReplayBuffer(10, FIELDS, next_of="observation")


def test_a_copy_of_the_handle_does_not_end_the_shards(buffer):
    copy = pickle.loads(pickle.dumps(buffer))
    copy.add(**rows(0, 10))
    copy.close()
    buffer.add(**rows(10, 10))
    assert buffer.get_stored_size() == 20
