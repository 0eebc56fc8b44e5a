"""Methods that a user's subclass or instance replaces are called wherever the original class calls them."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.env_util import make_vec_env

from cpprb_impl import cleanrl, sb3
from tests.integrations.tasks import Goals
from tests.integrations.test_sb3 import BOX, STACK

ACTION = spaces.Box(-1, 1, (2,), np.float64)
PARTS = spaces.Dict({"a": BOX, "b": spaces.Box(-9, 9, (2,), np.float32)})
GOALS = Goals().observation_space


@dataclass(frozen=True)
class Pair:
    """One of our classes, with the class that it replaces."""

    ours: type
    original: type
    space: spaces.Space
    options: dict[str, Any] = field(default_factory=dict)  # for our class only
    common: dict[str, Any] = field(default_factory=dict)

    def make(self, kind, n_envs=1):
        options = self.options if issubclass(kind, self.ours) else {}
        more = {"env": make_vec_env(Goals, n_envs, seed=0)} if self.space is GOALS else {}
        return kind(40, self.space, ACTION, device="cpu", n_envs=n_envs, **self.common, **options, **more)


PAIRS = {
    "plain": Pair(sb3.ReplayBuffer, theirs.ReplayBuffer, BOX),
    "exact": Pair(sb3.ReplayBuffer, theirs.ReplayBuffer, BOX, {"exact": True}),
    "frames once": Pair(sb3.ReplayBuffer, theirs.ReplayBuffer, STACK, {"optimize_memory_usage": True}),
    "dict": Pair(sb3.DictReplayBuffer, theirs.DictReplayBuffer, PARTS),
    "dict, exact": Pair(sb3.DictReplayBuffer, theirs.DictReplayBuffer, PARTS, {"exact": True}),
    "n-step": Pair(sb3.NStepReplayBuffer, theirs.NStepReplayBuffer, BOX, common={"n_steps": 2}),
    "HER": Pair(sb3.HerReplayBuffer, HerReplayBuffer, GOALS),
    "prioritized": Pair(sb3.PrioritizedReplayBuffer, theirs.ReplayBuffer, BOX),
    "prioritized, dict": Pair(sb3.PrioritizedReplayBuffer, theirs.DictReplayBuffer, PARTS),
    "CleanRL": Pair(cleanrl.ReplayBuffer, theirs.ReplayBuffer, BOX),
    "CleanRL, exact": Pair(cleanrl.ReplayBuffer, theirs.ReplayBuffer, BOX, {"exact": True}),
}
# Prioritized buffers draw other rows, and the buffer for CleanRL is not a subclass of Stable-Baselines3's.
UNLIKE = (sb3.PrioritizedReplayBuffer, cleanrl.ReplayBuffer)
LIKE = [label for label, pair in PAIRS.items() if pair.ours not in UNLIKE]
# CleanRL's copy of Stable-Baselines3's buffer lacks these two methods.
NOT_OF_CLEANRL = {"_normalize_obs", "_normalize_reward"}


def methods_of(original):
    """Return the names of all methods that a subclass can replace."""
    return sorted(
        name for name in dir(original) if not name.startswith("__") and inspect.isroutine(getattr(original, name))
    )


def steps(space, n_envs, count, seed=0):
    random = np.random.default_rng(seed)

    def draw(part):
        return (random.uniform(0, 200, (n_envs, *part.shape))).astype(part.dtype)

    for step in range(count):
        obs, following = (
            {name: draw(part) for name, part in space.spaces.items()} if isinstance(space, spaces.Dict) else draw(space)
            for _ in range(2)
        )
        done = np.full(n_envs, step % 5 == 4, np.float32)
        yield obs, following, random.normal(size=(n_envs, 2)), random.normal(size=n_envs), done, [{}] * n_envs


def spied(kind, names, calls):
    """Return a subclass that counts the calls of each method."""

    def spy(name):
        kept = inspect.getattr_static(kind, name)

        def method(self, *args, **options):
            calls[name] += 1
            return kept.__get__(self, type(self))(*args, **options)

        return method

    return type("Spied", (kind,), {name: spy(name) for name in names if hasattr(kind, name)})


def used(pair, kind, names):
    calls = Counter()
    buffer = pair.make(spied(kind, names, calls))
    for step in steps(pair.space, 1, 12):
        buffer.add(*step)
    buffer.extend(*([each] for each in next(steps(pair.space, 1, 1))))
    np.random.seed(0)
    buffer.sample(8)
    buffer.size()
    buffer.reset()
    return calls


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_each_method_is_called_as_often_as_in_the_original(pair):
    names = methods_of(pair.original)
    if pair.ours is cleanrl.ReplayBuffer:
        names = sorted(set(names) - NOT_OF_CLEANRL)
    assert {"add", "sample", "_get_samples", "to_torch", "_maybe_cast_dtype"} <= set(names)
    assert used(pair, pair.ours, names) == used(pair, pair.original, names)


def converted(self, array, copy=True):
    return torch.as_tensor(array).double() + 1


def relabelled(kind):
    def _get_samples(self, batch_inds, env=None):
        batch = kind._get_samples(self, batch_inds) if env is None else kind._get_samples(self, batch_inds, env)
        return batch._replace(rewards=batch.rewards + 1000)

    return _get_samples


def doubled(obs, env=None):
    return {name: part * 2 for name, part in obs.items()} if isinstance(obs, dict) else obs * 2


OVERRIDES = {
    "_get_samples": relabelled,
    "to_torch": lambda _kind: converted,
    "_normalize_obs": lambda _kind: staticmethod(doubled),
    "_normalize_reward": lambda _kind: staticmethod(lambda reward, env=None: reward * 3),
}


def drawn(pair, kind, name, level, n_envs=1):
    value = OVERRIDES[name](kind)
    if level == "class":
        buffer = pair.make(type("Changed", (kind,), {name: value}), n_envs)
    else:
        buffer = pair.make(kind, n_envs)
        setattr(buffer, name, value.__get__(buffer, kind))
    for step in steps(pair.space, n_envs, 12):
        buffer.add(*step)
    np.random.seed(5)
    return buffer, buffer.sample(16)


def same(ours, expected):
    for name in ("observations", "actions", "next_observations", "dones", "rewards"):
        found, other = getattr(ours, name), getattr(expected, name)
        if not isinstance(found, dict):
            found, other = {"": found}, {"": other}
        for part, value in found.items():
            assert value.dtype == other[part].dtype
            np.testing.assert_array_equal(value.numpy(), other[part].numpy())


UNIFORM = [
    pytest.param(pair, name, id=f"{label}, {name}")
    for label, pair in PAIRS.items()
    for name in OVERRIDES
    if pair.ours is not sb3.PrioritizedReplayBuffer
    and not (pair.ours is cleanrl.ReplayBuffer and name in NOT_OF_CLEANRL)
]


@pytest.mark.parametrize("level", ["class", "instance"])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize(("pair", "name"), UNIFORM)
def test_a_batch_equals_that_of_the_original_with_the_same_override(pair, name, n_envs, level):
    same(*(drawn(pair, kind, name, level, n_envs)[1] for kind in (pair.ours, pair.original)))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("name", ["to_torch", "_normalize_obs", "_normalize_reward"])
@pytest.mark.parametrize("pair", [pair for pair in PAIRS.values() if pair.ours not in UNLIKE], ids=LIKE)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_patch_before_our_class_is_made_is_called(pair, name, n_envs, wrapped, monkeypatch):
    """One example is a cast for a device that a program patches into Stable-Baselines3 before it imports our module."""
    kept, value = inspect.getattr_static(theirs.BaseBuffer, name), OVERRIDES[name](theirs.BaseBuffer)
    if wrapped:
        inner = getattr(value, "__func__", value)
        patch = functools.wraps(getattr(kept, "__func__", kept))(lambda *args, **options: inner(*args, **options))
        value = patch if inner is value else staticmethod(patch)
    monkeypatch.setattr(theirs.BaseBuffer, name, value)
    imported = type("Imported", (pair.ours,), {"__module__": "cpprb_impl.sb3.later"})
    batches = []
    for kind in (imported, pair.original):
        buffer = pair.make(kind, n_envs)
        for step in steps(pair.space, n_envs, 12):
            buffer.add(*step)
        np.random.seed(5)
        batches.append(buffer.sample(16))
    same(*batches)


def test_a_patch_before_our_import_is_called():
    """Without a patch, no method counts as overridden."""
    script = (
        "from stable_baselines3.common import buffers as theirs\n"
        "if {}: theirs.BaseBuffer.to_torch = lambda self, array, copy=True: array\n"
        "from cpprb_impl import cleanrl, sb3\n"
        "from tests.integrations.test_overrides import PAIRS\n"
        "print(*(sorted(pair.make(pair.ours)._overridden) for pair in PAIRS.values()))\n"
    )
    for patched, expected in ((True, "['to_torch']"), (False, "[]")):
        run = [sys.executable, "-W", "ignore", "-c", script.format(patched)]
        found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120).stdout.split()
        assert found == ["[]" if pair.ours is cleanrl.ReplayBuffer else expected for pair in PAIRS.values()]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_an_overridden_dtype_of_actions_applies_as_in_the_original(pair):
    change = {"_maybe_cast_dtype": staticmethod(lambda dtype: np.float16)}
    for kind in (pair.ours, pair.original):
        buffer = pair.make(type("Changed", (kind,), change))
        for step in steps(pair.space, 1, 12):
            buffer.add(*step)
        assert buffer.actions.dtype == np.float16 and buffer.sample(3).actions.dtype == torch.float16


@pytest.mark.parametrize("level", ["class", "instance"])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("pair", [PAIRS["prioritized"], PAIRS["prioritized, dict"]])
def test_an_overridden_prioritized_batch_contains_the_drawn_rows(pair, name, n_envs, level):
    if name == "_get_samples" and n_envs > 1:
        with pytest.raises(TypeError, match=r"_get_samples must not be overridden.*n_envs=1"):
            drawn(pair, pair.ours, name, level, n_envs)
        return
    buffer, batch = drawn(pair, pair.ours, name, level, n_envs)
    plain = pair.make(pair.ours, n_envs)
    for step in steps(pair.space, n_envs, 12):
        plain.add(*step)
    rows = plain._tensors(plain._ring.get(batch.indexes), None)
    expected = {
        "_get_samples": lambda: rows._replace(rewards=rows.rewards + 1000),
        "to_torch": lambda: type(rows)(
            *(
                each
                if each is None
                else {k: converted(None, v) for k, v in each.items()}
                if isinstance(each, dict)
                else converted(None, each)
                for each in rows
            )
        ),
        "_normalize_obs": lambda: rows._replace(
            observations=doubled(rows.observations), next_observations=doubled(rows.next_observations)
        ),
        "_normalize_reward": lambda: rows._replace(rewards=rows.rewards * 3),
    }[name]()
    same(batch, expected)
    assert batch.weights.shape == (16, 1)
    buffer.update_priorities(batch.indexes, np.ones(16))


@pytest.mark.parametrize("pair", [PAIRS["plain"], PAIRS["CleanRL"]])
def test_our_generator_draws_unless_a_method_is_overridden(pair):
    buffer = pair.make(pair.ours)
    for step in steps(pair.space, 1, 12):
        buffer.add(*step)
    assert buffer._own_draws
    buffer.to_torch = functools.partial(converted, None)
    assert not buffer._own_draws
    for again in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert not again._own_draws and again.sample(3).rewards.dtype == torch.float64
    del buffer.to_torch
    assert buffer._own_draws and buffer.sample(3).rewards.dtype == torch.float32
    buffer.exact = True
    assert not buffer._own_draws


def test_a_method_that_was_replaced_in_the_class_of_the_library_is_called(monkeypatch):
    monkeypatch.setattr(theirs.BaseBuffer, "to_torch", converted)
    buffer = PAIRS["plain"].make(sb3.ReplayBuffer)
    for step in steps(BOX, 1, 3):
        buffer.add(*step)
    assert buffer.sample(3).rewards.dtype == torch.float64


def test_a_base_whose_methods_would_not_be_called_is_refused():
    class Late(theirs.ReplayBuffer):
        def _get_samples(self, batch_inds, env=None):
            raise NotImplementedError

    class Wrong(sb3.ReplayBuffer, Late):
        pass

    class Right(Late, sb3.ReplayBuffer):
        pass

    with pytest.raises(TypeError, match="Late must come before ReplayBuffer among the bases of Wrong"):
        PAIRS["plain"].make(Wrong)
    buffer = PAIRS["plain"].make(Right)
    buffer.add(*next(steps(BOX, 1, 1)))
    with pytest.raises(NotImplementedError):
        buffer.sample(1)
