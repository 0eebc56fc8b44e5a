"""Buffers for other libraries: copies in other processes draw different numbers; `reseed` works or is refused."""

from __future__ import annotations

import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch.utils.data import DataLoader, IterableDataset

from cpprb_impl import cleanrl, sb3, torchrl
from tests.integrations.test_overrides import PAIRS
from tests.integrations.test_sb3 import BOX, BUTTONS, fill

OWN = {name: pair for name, pair in PAIRS.items() if name in ("plain", "frames once", "dict", "prioritized", "CleanRL")}
NUMPYS = {name: pair for name, pair in PAIRS.items() if "exact" in name or name in ("n-step", "HER")}


def step_buffer(kind, **options):
    buffer = kind(2000, BOX, BUTTONS, device="cpu", n_envs=2, **options)
    fill([buffer], 1000)
    return buffer


def rows(count):
    return TensorDict({"id": torch.arange(count)}, [count])


def tensordicts(filled=True, prioritized=False, **options):
    kind = torchrl.TensorDictReplayBuffer
    if prioritized:
        kind, options = torchrl.TensorDictPrioritizedReplayBuffer, {"alpha": 0.6, "beta": 0.4, **options}
    buffer = kind(10_000, **options)
    if filled:
        buffer.extend(rows(10_000))
    return buffer


MEMBERS = {
    "sb3.ReplayBuffer": lambda: step_buffer(sb3.ReplayBuffer),
    "sb3.PrioritizedReplayBuffer": lambda: step_buffer(sb3.PrioritizedReplayBuffer),
    "cleanrl.ReplayBuffer": lambda: step_buffer(cleanrl.ReplayBuffer),
    "TensorDictReplayBuffer": tensordicts,
    "TensorDictReplayBuffer, empty": lambda: tensordicts(filled=False, seed=1),
    "TensorDictPrioritizedReplayBuffer": lambda: tensordicts(prioritized=True),
}


def drawn(buffer):
    if not isinstance(buffer, torchrl.TensorDictReplayBuffer):
        return tuple(buffer.sample(16).rewards.ravel().tolist())
    if not len(buffer):
        buffer.extend(rows(10_000))
    return tuple(buffer.sample(16)["id"].tolist())


class Batches(IterableDataset):
    def __init__(self, made):
        self.made = made

    def __iter__(self):
        return iter([{name: drawn(each) for name, each in self.made.items()} for _ in range(2)])


@pytest.mark.parametrize("method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_each_worker_of_a_data_loader_draws_different_numbers(method):
    """The loader is iterated twice, as in two epochs."""
    made = {name: make() for name, make in MEMBERS.items()}
    context = multiprocessing.get_context(method)
    context.set_forkserver_preload([__name__])  # otherwise each worker would import PyTorch, which takes seconds
    loader = DataLoader(Batches(made), batch_size=None, num_workers=2, multiprocessing_context=context)
    batches = [batch for _ in range(2) for batch in loader]
    for name, each in made.items():
        assert len({tuple(batch[name]) for batch in batches} | {drawn(each)}) == len(batches) + 1 == 9, name


@pytest.mark.parametrize("name", MEMBERS)
def test_a_copy_in_this_process_continues_exactly(name):
    buffer = MEMBERS[name]()
    twin = pickle.loads(pickle.dumps(buffer))
    assert [drawn(twin) for _ in range(3)] == [drawn(buffer) for _ in range(3)]


@pytest.mark.parametrize("name", MEMBERS)
def test_reseed_repeats_the_draws(name):
    buffer = MEMBERS[name]()
    wanted = []
    for _ in range(2):
        buffer.reseed(7)
        wanted.append([drawn(buffer) for _ in range(3)])
    assert wanted[0] == wanted[1]
    buffer.reseed()
    assert drawn(buffer) != wanted[0][0]
    with pytest.raises(ValueError, match="seed"):
        buffer.reseed(-1)


def test_each_class_that_an_integration_replaces_honours_or_refuses_reseed():
    assert {*OWN, *NUMPYS, "prioritized, dict"} == {*PAIRS}


@pytest.mark.parametrize("name", OWN)
def test_reseed_is_honoured(name):
    OWN[name].make(OWN[name].ours).reseed(3)


@pytest.mark.parametrize("name", NUMPYS)
def test_reseed_is_refused_where_numpys_generator_draws(name):
    buffer = NUMPYS[name].make(NUMPYS[name].ours)
    with pytest.raises(TypeError, match=r"reseed\(\) is not supported .*np\.random\.seed"):
        buffer.reseed(3)


class Augmented(sb3.ReplayBuffer):
    def _get_samples(self, batch_inds, env=None):
        return super()._get_samples(batch_inds, env)


class Drawing(sb3.ReplayBuffer):
    def sample(self, batch_size, env=None):
        return self._get_samples(np.random.randint(self.size(), size=batch_size), env)


class Relabelling(sb3.ReplayBuffer):
    def sample(self, batch_size, env=None):
        return super().sample(batch_size, env)


@pytest.mark.parametrize("kind", [Augmented, Drawing])
def test_reseed_is_refused_for_a_subclass_that_draws_with_numpys_generator(kind):
    with pytest.raises(TypeError, match=rf"reseed\(\) is not supported by this {kind.__name__}"):
        step_buffer(kind).reseed(3)


def test_reseed_is_honoured_for_a_subclass_that_changes_our_samples():
    buffer = step_buffer(Relabelling)
    buffer.reseed(3)
    first = drawn(buffer)
    buffer.reseed(3)
    assert drawn(buffer) == first


def test_a_prioritized_buffer_always_draws_with_its_own_generator():
    buffer = step_buffer(type("Own", (sb3.PrioritizedReplayBuffer,), {"to_torch": sb3.ReplayBuffer.to_torch}))
    buffer.reseed(3)
    first = drawn(buffer)
    buffer.reseed(3)
    assert drawn(buffer) == first
