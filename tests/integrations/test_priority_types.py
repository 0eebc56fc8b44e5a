"""Priorities are accepted from tensors of every type that TD errors may have, with their values as floats."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from tensordict import TensorDict

import cpprb_impl
from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer

REAL = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]
VALUES = [0.0, 1.0, 1.0, 0.0]
FIELDS = {"obs": {}, "act": {}, "next_obs": {}, "done": {}}
ROWS = {name: np.zeros(4) for name in FIELDS}


def updated(kind, fields=FIELDS, **options):
    """Return a function that updates a buffer with TD errors and returns the indexes drawn next."""

    def draw(errors):
        buffer = kind(4, fields, eps=0.0, **options)
        buffer.add(**ROWS)
        buffer.sample(1)  # some buffers accept priorities only after a sample
        buffer.update_priorities(np.arange(4), errors)
        return buffer.sample(500)["indexes"]

    return draw


def added(kind, fields=FIELDS, **options):
    def draw(errors):
        buffer = kind(4, fields, eps=0.0, **options)
        buffer.add(**ROWS, priorities=errors)
        buffer.on_episode_end()
        return buffer.sample(500)["indexes"]

    return draw


def hindsight(errors):
    buffer = cpprb_impl.HindsightReplayBuffer(4, FIELDS, 4, len, additional_goals=0, eps=0.0)
    buffer.reward_func = lambda states, *_: np.zeros(len(states))
    buffer.add(**ROWS)
    buffer.on_episode_end(0)
    buffer.update_priorities(np.arange(4), errors)
    return buffer.sample(500)["indexes"]


def laber(errors):
    return np.concatenate([cpprb_impl.LaBERmean(4, 1, eps=0.0)(priorities=errors)["indexes"] for _ in range(20)])


def torchrl(errors, set_them):
    buffer = TensorDictPrioritizedReplayBuffer(4, alpha=1.0, beta=0.4, eps=0.0)
    set_them(buffer, TensorDict({"obs": torch.zeros(4)}, [4]), errors)
    return buffer.sample(500)["index"].numpy()


def added_in_a_tensordict(buffer, data, errors):
    buffer.extend(data.set("td_error", errors))


def updated_in_a_tensordict(buffer, data, errors):
    buffer.extend(data)
    buffer.update_tensordict_priority(data.set("index", torch.arange(4)).set("td_error", errors))


def updated_by_index(buffer, data, errors):
    buffer.extend(data)
    buffer.update_priority(torch.arange(4), errors)


PRIORITIZED, SHARED = cpprb_impl.PrioritizedReplayBuffer, cpprb_impl.MPPrioritizedReplayBuffer
OBJECTS = {**FIELDS, "act": {"dtype": object}}
TAKERS = {
    "update_priorities": updated(PRIORITIZED),
    "update_priorities, checked": updated(PRIORITIZED, check_for_update=True),
    "update_priorities, objects": updated(PRIORITIZED, fields=OBJECTS),
    "update_priorities, shared": updated(SHARED),
    "update_priorities, HER": hindsight,
    "add": added(PRIORITIZED),
    "add, n-step": added(PRIORITIZED, Nstep={"size": 2}),
    "add, objects": added(PRIORITIZED, OBJECTS),
    "add, n-step objects": added(PRIORITIZED, OBJECTS, Nstep={"size": 2}),
    "add, shared": added(SHARED),
    "LaBER": laber,
    "TorchRL, extend": lambda errors: torchrl(errors, added_in_a_tensordict),
    "TorchRL, update_tensordict_priority": lambda errors: torchrl(errors, updated_in_a_tensordict),
    "TorchRL, update_priority": lambda errors: torchrl(errors, updated_by_index),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_tensors_of_each_real_dtype_are_accepted(taker, dtype):
    drawn = TAKERS[taker](torch.tensor(VALUES).to(dtype))
    assert set(drawn.tolist()) == {1, 2}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tensors_that_require_gradients_are_accepted(taker, dtype):
    errors = torch.tensor(VALUES, dtype=dtype, requires_grad=True)
    for each in (errors, errors * 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drawn = TAKERS[taker](each)
        assert set(drawn.tolist()) == {1, 2}


@pytest.mark.parametrize("taker", TAKERS)
def test_complex_numbers_are_refused_and_named_in_the_error(taker):
    with pytest.raises(TypeError, match="priorities"):
        TAKERS[taker](torch.tensor(VALUES, dtype=torch.complex64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("taker", TAKERS)
def test_tensors_on_a_gpu_are_accepted(taker):
    assert set(TAKERS[taker](torch.tensor(VALUES, device="cuda")).tolist()) == {1, 2}
