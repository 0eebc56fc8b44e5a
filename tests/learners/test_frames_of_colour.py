"""Stacks of colour images with an axis of their own, (frames, ...), are stored once per frame in every integration."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tensordict import TensorDict

from cpprb_impl import cleanrl, sb3
from cpprb_impl.torchrl import TensorDictReplayBuffer

SIDE, STEPS = 12, 300
SHAPES = [(4, 3, SIDE, SIDE), (4, SIDE, SIDE, 3)]


def stacks(shape):
    """Each observation and the next one, which has one more frame."""
    frames = np.random.default_rng(0).integers(0, 256, (STEPS + shape[0], *shape[1:]), np.uint8)
    return [(frames[t : t + shape[0]], frames[t + 1 : t + 1 + shape[0]]) for t in range(STEPS)]


def filled(kind, shape, **options):
    space = Box(0, 255, shape, np.uint8)
    buffer = kind(
        STEPS, space, Discrete(4), device="cpu", optimize_memory_usage=True, handle_timeout_termination=False, **options
    )
    for obs, next_obs in stacks(shape):
        buffer.add(obs[None], next_obs[None], np.array([[1]]), np.zeros(1, np.float32), np.zeros(1, np.float32), [{}])
    return buffer


@pytest.mark.parametrize("kind", [sb3.ReplayBuffer, cleanrl.ReplayBuffer], ids=["sb3", "cleanrl"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_frame_is_stored_per_step(kind, shape):
    buffer = filled(kind, shape)
    assert buffer.nbytes / STEPS < 1.3 * 3 * SIDE * SIDE
    for each in (buffer, copy.deepcopy(buffer)):
        for step, (obs, next_obs) in enumerate(stacks(shape)):
            assert np.array_equal(each.observations[step, 0], obs)
            assert np.array_equal(each.next_observations[step, 0], next_obs)


@pytest.mark.parametrize("kind", [sb3.ReplayBuffer, cleanrl.ReplayBuffer], ids=["sb3", "cleanrl"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_these_frames_can_be_compressed(kind, shape):
    buffer = filled(kind, shape, compress="lz4")
    assert np.array_equal(buffer.next_observations[STEPS - 1, 0], stacks(shape)[-1][1])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_frame_is_stored_per_row_of_a_tensordict(shape):
    buffer = TensorDictReplayBuffer(STEPS, optimize_memory_usage=True)
    obs, next_obs = (torch.as_tensor(np.stack(values)) for values in zip(*stacks(shape), strict=True))
    buffer.extend(TensorDict({"obs": obs, "next": {"obs": next_obs}}, [STEPS]))
    assert buffer.buffer.nbytes / STEPS < 1.3 * 3 * SIDE * SIDE
    rows = buffer.buffer.get_all_transitions()
    assert np.array_equal(rows["next_/obs"], next_obs) and np.array_equal(rows["/obs"], obs)
