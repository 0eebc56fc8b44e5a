"""Buffers can be arguments of Ray's tasks and actors on one machine, and raise an error on another machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.processes import host

from .jobs import wait_until
from .rows import ENV_DICT, make_rows, numbers_of, stored_numbers, torn_rows

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
BUFFERS = pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])


def start() -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


@pytest.fixture(scope="module")
def drive() -> Iterator[Callable]:
    """Run a function with Ray in another process, since tests that fork this process must not have Ray's threads."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=start) as pool:
        yield lambda function, *args: pool.submit(function, *args).result(timeout=100)
        pool.submit(ray.shutdown).result()


@ray.remote
def add_some(buffer, first: int, rows: int) -> int:
    buffer.add(**make_rows(first, rows))
    return os.getpid()


@ray.remote
def give_back(buffer):
    return buffer


@ray.remote
class Explorer:
    def __init__(self, buffer) -> None:
        self.buffer = buffer

    def explore(self, first: int, rows: int) -> int:
        for at in range(first, first + rows, 5):
            self.buffer.add(**make_rows(at, 5))
        return rows


@ray.remote
class Maker:
    def __init__(self) -> None:
        self.buffer = MPReplayBuffer(100, ENV_DICT)
        self.buffer.add(**make_rows(0, 7))

    def give(self):
        return self.buffer


@ray.remote
class Elsewhere:
    """An actor whose process appears to run on another machine."""

    def __init__(self, boot_id: Path) -> None:
        host.BOOT_ID = boot_id

    def take(self, buffer) -> None:
        pass


def use_in_tasks(kind) -> None:
    buffer = kind(100, ENV_DICT)
    kept = ray.put(buffer)
    processes = ray.get([add_some.remote(given, i * 5, 5) for i, given in enumerate([buffer, kept, buffer, kept])])
    assert os.getpid() not in processes
    assert stored_numbers(buffer) == list(range(20))
    same = ray.get(give_back.remote(buffer))
    assert type(same) is kind and same.segment == buffer.segment and stored_numbers(same) == list(range(20))
    buffer.close()


def learn_beside_actors(kind) -> None:
    explorers, rows = 3, 2000
    buffer = kind(explorers * rows, ENV_DICT)
    actors = [Explorer.remote(buffer) for _ in range(explorers)]
    running = [actor.explore.remote(i * rows, rows) for i, actor in enumerate(actors)]
    wait_until(lambda: buffer.get_stored_size() > 0, seconds=60)
    samples = 0
    while running:
        _, running = ray.wait(running, timeout=0)
        batch = buffer.sample(64)
        assert not torn_rows(batch).any()
        if "indexes" in batch:
            buffer.update_priorities(batch["indexes"], np.random.default_rng(samples).uniform(0.1, 2, 64))
        samples += 1
    assert samples > 10
    assert stored_numbers(buffer) == list(range(explorers * rows))
    buffer.close()


def lose_the_maker() -> None:
    maker = Maker.remote()
    buffer = ray.get(maker.give.remote())
    assert len(numbers_of(buffer.sample(10))) == 10
    ray.kill(maker)
    wait_until(lambda: not (Path("/dev/shm") / buffer.segment.strip("/")).exists())
    assert stored_numbers(buffer) == list(range(7))
    with pytest.raises(ray.exceptions.RayError, match="is gone: its creator has closed it or exited"):
        ray.get(give_back.remote(buffer))


def be_elsewhere(boot_id: Path) -> None:
    buffer = MPReplayBuffer(4, ENV_DICT)
    with pytest.raises(ray.exceptions.RayError, match=r"only be used on the host where it was created: .* created on"):
        ray.get(Elsewhere.remote(boot_id).take.remote(buffer))
    buffer.close()


def go_by_cloudpickle() -> None:
    buffer = MPReplayBuffer(100, ENV_DICT)
    for dumps in (ray.cloudpickle.dumps, pickle.dumps):
        other = pickle.loads(dumps({"shared": buffer}))["shared"]
        other.add(**make_rows(buffer.get_stored_size(), 2))
        other.close()
    assert stored_numbers(buffer) == [0, 1, 2, 3]
    add_one = pickle.loads(ray.cloudpickle.dumps(lambda: buffer.add(**make_rows(4, 1))))
    add_one()
    assert stored_numbers(buffer) == [0, 1, 2, 3, 4]
    buffer.close()


@BUFFERS
def test_tasks_use_a_buffer_passed_as_argument(drive, kind):
    drive(use_in_tasks, kind)


@BUFFERS
def test_a_learner_samples_while_many_actors_add(drive, kind):
    drive(learn_beside_actors, kind)


def test_a_buffer_of_a_killed_actor_remains_usable(drive):
    drive(lose_the_maker)


def test_a_buffer_of_another_machine_is_refused(drive, tmp_path):
    (tmp_path / "boot_id").write_text("another")
    drive(be_elsewhere, tmp_path / "boot_id")


def test_buffers_are_passed_by_cloudpickle(drive):
    drive(go_by_cloudpickle)
