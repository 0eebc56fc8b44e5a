"""Buffers passed to several Ray tasks draw different numbers in each, even within one worker process."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.cpprb_impl.test_random_streams import MEMBERS, SHARED, drawn

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("cluster")


@ray.remote
def draw(name: str, buffer) -> tuple[int, list[tuple]]:
    return os.getpid(), [drawn(name, buffer) for _ in range(2)]


@ray.remote
class Learner:
    def __init__(self, name: str, buffer) -> None:
        self.name, self.buffer = name, buffer

    def draw(self) -> tuple[int, list[tuple]]:
        return os.getpid(), [drawn(self.name, self.buffer)]


@ray.remote
def made(name: str, seed: int | None):
    make, _ = MEMBERS[name]
    buffer = make(seed=seed)
    drawn(name, buffer)
    return buffer


def differ(found: list[tuple[int, list[tuple]]], own: list[tuple]) -> None:
    processes = {process for process, _ in found}
    assert len(processes) < len(found) and os.getpid() not in processes, "no worker ran two of the tasks"
    batches = [*own, *(batch for _, batches in found for batch in batches)]
    assert len(set(batches)) == len(batches)


GIVEN: dict[str, Callable] = {"as it is": lambda buffer: buffer, "as a reference": ray.put}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", MEMBERS | SHARED)
def test_each_task_draws_different_numbers(name, given):
    make, _ = (MEMBERS | SHARED)[name]
    buffer = make(seed=1)
    own, passed = [drawn(name, buffer)], GIVEN[given](buffer)
    found = ray.get([draw.remote(name, passed) for _ in range(6)])
    differ(found, [*own, drawn(name, buffer)])


@pytest.mark.parametrize("name", MEMBERS)
def test_tasks_of_the_worker_that_created_the_buffer_draw_different_numbers(name):
    for seed in (None, 1):
        buffer = made.remote(name, seed)
        differ(ray.get([draw.remote(name, buffer) for _ in range(6)]), [])


@pytest.mark.parametrize("name", ["PrioritizedReplayBuffer", "HindsightReplayBuffer, goals", "LaBERmean"])
def test_an_actor_keeps_drawing_from_one_stream(name):
    make, _ = MEMBERS[name]
    actor = Learner.options(num_cpus=0.1).remote(name, make(seed=1))
    differ(ray.get([actor.draw.remote() for _ in range(3)]), [])


@ray.remote
class Seeded:
    def __init__(self, name: str) -> None:
        make, _ = MEMBERS[name]
        self.name, self.buffer = name, make(seed=1)

    def draw(self) -> tuple:
        return drawn(self.name, self.buffer)


@pytest.mark.parametrize("name", ["PrioritizedReplayBuffer", "HindsightReplayBuffer, goals", "LaBERmean"])
def test_a_seed_makes_the_draws_of_an_actor_reproducible(name):
    actors = [Seeded.options(num_cpus=0.1).remote(name) for _ in range(2)]
    one, other = [ray.get([actor.draw.remote() for _ in range(3)]) for actor in actors]
    assert one == other and len(set(one)) == 3
