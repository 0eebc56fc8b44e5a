"""The values that every class accepts as `seed`."""

from __future__ import annotations

import numpy as np
import pytest

import cpprb_impl

FIELDS = {"obs": {}, "act": {}, "next_obs": {}}
STEPS = {"obs": np.arange(64.0), "act": np.zeros(64), "next_obs": np.arange(1, 65.0)}


def no_reward(states, actions, goals):
    return np.zeros(len(states))


def ring(kind, seed):
    buffer = getattr(cpprb_impl, kind)(64, FIELDS, seed=seed)
    buffer.add(**STEPS)
    return buffer


def hindsight(seed):
    buffer = cpprb_impl.HindsightReplayBuffer(512, FIELDS, 64, no_reward, seed=seed)
    buffer.add(**STEPS)
    buffer.on_episode_end(0)
    return buffer


def selective(seed):
    buffer = cpprb_impl.SelectiveReplayBuffer(64, seed=seed)
    buffer.add(**STEPS, rew=np.zeros(64), done=np.zeros(64))
    return buffer


def attached(seed):
    made = ring("MPReplayBuffer", 0)
    buffer = cpprb_impl.MPReplayBuffer.attach(made.segment, seed=seed)
    made.close()
    return buffer


def drawn(buffer):
    """Return what the seed determines."""
    if isinstance(buffer, cpprb_impl.ReverseReplayBuffer):
        return buffer.get_all_transitions(shuffle=True)["obs"].tolist()
    if hasattr(buffer, "add"):
        return buffer.sample(32)["obs"].tolist()
    return buffer(priorities=np.ones(128))["indexes"].tolist()


RINGS = [name for name in cpprb_impl.__all__ if name.endswith("ReplayBuffer") and name[0] in "RPM"]
MAKERS = {name: lambda seed, name=name: ring(name, seed) for name in RINGS}
MAKERS |= {name: lambda seed, name=name: getattr(cpprb_impl, name)(32, seed=seed) for name in ("LaBERmean", "LaBERmax")}
MAKERS |= {"hindsight": hindsight, "selective": selective, "attached": attached}

every_class = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


class Index:
    def __index__(self):
        return 3


@every_class
def test_any_integer_is_accepted_as_a_seed(make):
    first = drawn(make(3))
    for seed in (np.int64(3), np.uint8(3), np.array(3), Index()):
        assert drawn(make(seed)) == first
    assert drawn(make(2**64 - 1)) == drawn(make(np.uint64(2**64 - 1))) != first


@every_class
@pytest.mark.parametrize("seed", [3.0, "3", [3], np.array([3, 4]), True, np.True_, np.random.default_rng(3)])
def test_a_seed_that_is_not_an_integer_is_refused(make, seed):
    with pytest.raises(TypeError, match="seed must be an int, got "):
        make(seed)


@every_class
@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(make, seed):
    with pytest.raises(ValueError, match=r"seed must be from 0 to 2\*\*64 - 1, got "):
        make(seed)
