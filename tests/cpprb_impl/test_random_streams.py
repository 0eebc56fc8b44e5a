"""Copies in other processes draw different numbers; copies in the same process continue like the original."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle

import numpy as np
import pytest

import cpprb_impl as m
from cpprb_impl.contents.state import _revive, position_of

ROWS = np.arange(10_000)
FIELDS = {"id": {"dtype": np.int64}}
EPISODE = {"obs": {}, "act": {}, "next_obs": {}, "done": {}}


def _filled(kind, **options):
    buffer = kind(len(ROWS), FIELDS, **options)
    buffer.add(id=ROWS)
    return buffer


def _hindsight(prioritized, **options):
    buffer = m.HindsightReplayBuffer(
        10_000, EPISODE, 1000, reward, additional_goals=0, prioritized=prioritized, **options
    )
    for start in range(0, 10_000, 1000):
        numbers = np.arange(start, start + 1000)
        buffer.add(obs=numbers, act=numbers, next_obs=numbers, done=np.zeros(1000))
        buffer.on_episode_end(0.0)
    return buffer


def reward(states, actions, goals):
    return np.zeros(len(states))


def _selective(**options):
    buffer = m.SelectiveReplayBuffer(100, Nepisodes=100, **options)
    for number in range(100):
        numbers = np.arange(100 * number, 100 * number + 100.0)
        buffer.add(numbers, numbers, numbers, numbers, np.arange(100) == 99)
    return buffer


def _of_core(buffer):
    return buffer.sample(16)["id"]


def _of_obs(buffer):
    return buffer.sample(16)["obs"]


def _of_goals(buffer):
    return buffer._reached_anywhere(np.arange(1000.0).reshape(-1, 1), 16)


def _of_laber(laber):
    return laber(priorities=np.ones(4 * 16), id=np.arange(4 * 16))["id"]


# How each class that draws random numbers is made, and a call that draws.
MEMBERS = {
    "ReplayBuffer": (lambda **o: _filled(m.ReplayBuffer, **o), _of_core),
    "ReplayBuffer of objects": (lambda **o: _with_objects(m.ReplayBuffer, **o), _of_core),
    "PrioritizedReplayBuffer": (lambda **o: _filled(m.PrioritizedReplayBuffer, **o), _of_core),
    "sample_indexes": (lambda **o: _filled(m.ReplayBuffer, **o), lambda b: b.sample_indexes(16)),
    "shuffled": (lambda **o: _filled(m.ReverseReplayBuffer, **o), lambda b: b.get_all_transitions(shuffle=True)["id"]),
    "HindsightReplayBuffer": (lambda **o: _hindsight(False, **o), _of_obs),
    "HindsightReplayBuffer, prioritized": (lambda **o: _hindsight(True, **o), _of_obs),
    "HindsightReplayBuffer, goals": (lambda **o: _hindsight(False, strategy="random", **o), _of_goals),
    "SelectiveReplayBuffer": (_selective, _of_obs),
    "LaBERmean": (lambda **o: m.LaBERmean(16, **o), _of_laber),
    "LaBERlazy": (lambda **o: m.LaBERlazy(16, **o), _of_laber),
    "LaBERmax": (lambda **o: m.LaBERmax(16, **o), _of_laber),
}
SHARED = {
    "MPReplayBuffer": (lambda **o: _filled(m.MPReplayBuffer, **o), _of_core),
    "MPPrioritizedReplayBuffer": (lambda **o: _filled(m.MPPrioritizedReplayBuffer, **o), _of_core),
}


def _with_objects(kind, **options):
    buffer = kind(1000, {"id": {"dtype": np.int64}, "what": {"dtype": object}}, **options)
    buffer.add(id=ROWS[:1000], what=["a"] * 1000)
    return buffer


def drawn(name: str, buffer) -> tuple:
    _, draw = (MEMBERS | SHARED)[name]
    return tuple(np.asarray(draw(buffer)).ravel()[:16].tolist())


def drawn_of(made: dict) -> dict:
    """Return what each object draws, by its name and seed."""
    return {member: drawn(member[0], each) for member, each in made.items()}


def send_drawn(made: dict, results) -> None:
    """Draw in a worker, and send the results."""
    results.put([drawn_of(made) for _ in range(2)])


def members(of):
    return pytest.mark.parametrize("name", of)


def test_every_public_class_that_draws_is_tested():
    made = {type(make()) for make, _ in (MEMBERS | SHARED).values()}
    drawing = {
        kind
        for kind in (getattr(m, name) for name in m.__all__)
        if isinstance(kind, type) and (hasattr(kind, "sample") or hasattr(kind, "rng"))
    }
    assert {kind for kind in drawing if not any(issubclass(each, kind) for each in made)} == set()
    assert all(hasattr(kind, "reseed") for kind in drawing)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_worker_draws_different_numbers(method):
    """The copies receive the buffers as an argument, twice, as in two epochs."""
    made = {(name, seed): make(seed=seed) for name, (make, _) in (MEMBERS | SHARED).items() for seed in (None, 1)}
    context = multiprocessing.get_context(method)
    results = context.Queue()
    batches = [drawn_of(made)]
    for _ in range(2):
        workers = [context.Process(target=send_drawn, args=(made, results)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for _ in workers:
            batches += results.get(timeout=60)
        for worker in workers:
            worker.join()
    batches.append(drawn_of(made))
    for member in made:
        assert len({batch[member] for batch in batches}) == len(batches) == 10, member


@members(MEMBERS)
def test_a_forked_child_draws_different_numbers(name):
    make, _ = MEMBERS[name]
    buffer = make(seed=3)
    read, write = os.pipe()
    for _ in range(2):
        if not (child := os.fork()):
            os.write(write, (str(drawn(name, buffer)) + "\n").encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(write)
    with open(read) as pipe:
        others = set(pipe.read().split("\n")) - {""}
    assert len(others | {str(drawn(name, buffer))}) == 3


@pytest.mark.parametrize("way", [copy.deepcopy, copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
@members(MEMBERS)
def test_a_copy_in_this_process_continues_exactly(name, way):
    make, _ = MEMBERS[name]
    buffer = make()
    drawn(name, buffer)
    if way is copy.copy and not isinstance(buffer, m.ReplayBuffer):
        pytest.skip("shares its parts")
    twin = way(buffer)
    assert [drawn(name, twin) for _ in range(3)] == [drawn(name, buffer) for _ in range(3)]


@members(MEMBERS | SHARED)
def test_reseed_draws_what_an_object_made_with_the_seed_draws(name):
    make, _ = (MEMBERS | SHARED)[name]
    ours, other = make(), make(seed=7)
    wanted = [drawn(name, other) for _ in range(3)]
    for _ in range(2):
        ours.reseed(7)
        assert [drawn(name, ours) for _ in range(3)] == wanted
    ours.reseed()
    assert drawn(name, ours) != wanted[0]


@pytest.mark.parametrize(("bad", "error"), [("1", TypeError), (True, TypeError), (-1, ValueError), (2**64, ValueError)])
@members(MEMBERS | SHARED)
def test_a_bad_seed_changes_nothing(name, bad, error):
    make, _ = (MEMBERS | SHARED)[name]
    ours, other = make(seed=7), make(seed=7)
    with pytest.raises(error, match="seed"):
        ours.reseed(bad)
    assert drawn(name, ours) == drawn(name, other)


def with_own_reseed(kind):
    def reseed(self, seed=None):
        raise AssertionError("called before the attributes are restored")

    return type("Own", (kind,), {"reseed": reseed, "__module__": __name__})


@members([name for name, (make, _) in MEMBERS.items() if isinstance(make(), m.ReplayBuffer)])
def test_a_copy_in_another_process_does_not_call_an_overridden_reseed(name, monkeypatch):
    buffer = MEMBERS[name][0](seed=3)
    buffer.__class__ = with_own_reseed(type(buffer))
    monkeypatch.setitem(globals(), "Own", type(buffer))
    pickled = pickle.dumps(buffer)
    monkeypatch.setattr("cpprb_impl.ring.own_random._IMPORT", "another process")
    again = pickle.loads(pickled)
    assert drawn(name, again) != drawn(name, buffer)


def test_an_old_pickle_does_not_call_an_overridden_reseed():
    buffer = m.ReplayBuffer(64, {"id": {}}, seed=3)
    buffer.add(id=np.arange(64))
    held = position_of(buffer), {"id": np.arange(64.0, dtype=np.float32)[:, None]}, 64, None, {}
    again, other = (_revive(with_own_reseed(m.ReplayBuffer), buffer._layout, held, {}) for _ in range(2))
    assert len({tuple(each.sample(16)["id"].ravel()) for each in (buffer, again, other)}) == 3
