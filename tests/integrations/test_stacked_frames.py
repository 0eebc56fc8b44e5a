"""Which frames are stored once: stacks of every layout, in every buffer for another library."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from cpprb_impl import cleanrl, sb3
from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

SIDE, STEPS = 12, 300
H = W = SIDE
BUTTONS = spaces.Discrete(4)
OF_OTHER_FIELDS = 100  # bytes per step


class Layout(NamedTuple):
    """Observations that are stacked along an axis, and how many slices a step needs."""

    shape: tuple[int, ...]
    axis: int  # along which slices are stacked
    advance: int  # new slices per step
    stored: int  # slices stored per step
    option: int | None = None  # the option stack_axis
    dtype: str = "u1"
    newest_first: bool = False


FOUND = {
    "(C, H, W), gray": Layout((4, H, W), 0, 1, 1),
    "(C, H, W), four RGB images": Layout((12, H, W), 0, 3, 3),
    "(C, H, W), three RGB images": Layout((9, H, W), 0, 3, 3),
    "(C, H, W), three gray images": Layout((3, H, W), 0, 1, 1),
    "(frames, C, H, W)": Layout((4, 3, H, W), 0, 1, 1),
    "(frames, H, W, C)": Layout((4, H, W, 3), 0, 1, 1),
    "(H, W, C), gray": Layout((H, W, 4), -1, 1, 1),
    "(H, W, C), three RGB images": Layout((H, W, 9), -1, 3, 3),
    "(H, W, C), two RGB images": Layout((H, W, 6), -1, 3, 3),
}
GIVEN = {
    "(C, frames, H, W)": Layout((3, 4, H, W), 1, 1, 1, option=1),
    "(C, frames, H, W), counted from the end": Layout((3, 4, H, W), 1, 1, 1, option=-3),
    "(H, W, C, frames)": Layout((H, W, 3, 4), 3, 1, 1, option=3),
    "(H, frames, W)": Layout((H, 4, W), 1, 2, 2, option=1),
    "(H, W, C), three gray images": Layout((H, W, 3), -1, 1, 1, option=-1),
    "floats": Layout((4, H, W), 0, 1, 1, option=0, dtype="f4"),
    "16-bit numbers": Layout((H, W, 4), -1, 1, 1, option=-1, dtype="u2"),
    "vectors in a row": Layout((4 * 64,), 0, 64, 64, option=0, dtype="f4"),
    "vectors with an axis of their own": Layout((4, 64), 0, 1, 1, option=0, dtype="f4"),
}
STORED_WHOLE = {
    "one RGB image": Layout((3, H, W), 0, 3, 3),
    "one RGB image, channels last": Layout((H, W, 3), -1, 3, 3),
    "all frames are new": Layout((12, H, W), 0, 12, 12),
    "(H, W, C), three gray images, no axis given": Layout((H, W, 3), -1, 1, 3),
    "(C, frames, H, W), no axis given": Layout((3, 4, H, W), 1, 1, 4),
    "another axis given": Layout((4, 3, H, W), 0, 1, 4, option=1),
    "floats, no axis given": Layout((4, H, W), 0, 1, 4, dtype="f4"),
    "vectors, no axis given": Layout((4 * 64,), 0, 64, 4 * 64, dtype="f4"),
    "newest first": Layout((4, H, W), 0, 1, 4, newest_first=True),
}
LAYOUTS = FOUND | GIVEN | STORED_WHOLE


def observations(layout: Layout) -> np.ndarray:
    """Return one observation more than there are steps. Half of each frame is noise."""
    shape = list(layout.shape)
    window = shape.pop(layout.axis)
    slices = np.random.default_rng(0).integers(1, 256, (STEPS * layout.advance + window, *shape)).astype(layout.dtype)
    slices.reshape(len(slices), -1)[:, : slices[0].size // 2] = 0
    at = layout.advance * np.arange(STEPS + 1)[:, None] + np.arange(window)
    stacks = slices[at[:, ::-1] if layout.newest_first else at]
    return np.ascontiguousarray(np.moveaxis(stacks, 1, layout.axis % len(layout.shape) + 1))


def of_steps(kind, **more):
    """Return a function that makes a buffer, fills it by `add`, checks its rows, and returns its bytes."""

    def fill(layout, seen, **options):
        space = spaces.Box(0, 255, layout.shape, layout.dtype)
        if layout.option is not None:
            options["stack_axis"] = layout.option
        buffer = kind(STEPS, space, BUTTONS, device="cpu", optimize_memory_usage=True, **more, **options)
        for obs, next_obs in pairwise(seen):
            buffer.add(obs[None], next_obs[None], np.array([[1]]), np.zeros(1, "f4"), np.zeros(1, "f4"), [{}])
        rows = np.arange(STEPS), np.zeros(STEPS, int)
        for each in (buffer, copy.deepcopy(buffer)):
            assert_equal(each.observations[rows], each.next_observations[rows], seen)
        return buffer.nbytes

    return fill


def of_parts(layout, seen, **options):
    """Store the same observations as one of two parts of a Dict space."""
    space = spaces.Dict({"seen": spaces.Box(0, 255, layout.shape, layout.dtype), "felt": spaces.Box(-1, 1, (3,))})
    if layout.option is not None:
        options["stack_axis"] = {"seen": layout.option}
    buffer = sb3.DictReplayBuffer(STEPS, space, BUTTONS, device="cpu", optimize_memory_usage=True, **options)
    felt = np.zeros((1, 3), "f4")
    for obs, next_obs in pairwise(seen):
        parts = ({"seen": value[None], "felt": felt} for value in (obs, next_obs))
        buffer.add(*parts, np.array([[1]]), np.zeros(1, "f4"), np.zeros(1, "f4"), [{}])
    rows = np.arange(STEPS), np.zeros(STEPS, int)
    assert_equal(buffer.observations["seen"][rows], buffer.next_observations["seen"][rows], seen)
    return buffer.nbytes


def of_goals(layout, seen):
    """Store the same observations together with goals."""
    goal = spaces.Box(-1, 1, (3,))
    space = spaces.Dict(
        {"observation": spaces.Box(0, 255, layout.shape, "u1"), "achieved_goal": goal, "desired_goal": goal}
    )
    buffer = sb3.HerReplayBuffer(STEPS, space, BUTTONS, env=None, device="cpu", optimize_memory_usage=True)
    goals = {"achieved_goal": np.zeros((1, 3), "f4"), "desired_goal": np.zeros((1, 3), "f4")}
    for obs, next_obs in pairwise(seen):
        parts = ({"observation": value[None], **goals} for value in (obs, next_obs))
        buffer.add(*parts, np.array([[1]]), np.zeros(1, "f4"), np.zeros(1, "f4"), [{}])
    rows = np.arange(STEPS), np.zeros(STEPS, int)
    assert_equal(buffer.observations["observation"][rows], buffer.next_observations["observation"][rows], seen)
    return buffer.nbytes


def of_tensordicts(kind, **more):
    def fill(layout, seen, **options):
        if layout.option is not None:
            options["stack_axis"] = {("agent", "pixels"): layout.option}
        buffer = kind(STEPS, optimize_memory_usage=True, **more, **options)
        values = torch.as_tensor(seen.astype("i4") if layout.dtype == "u2" else seen)  # older PyTorch lacks uint16
        for at in range(0, STEPS, 50):
            obs, next_obs = values[at : at + 50], values[at + 1 : at + 51]
            nested = {"agent": {"pixels": obs}, "next": {"agent": {"pixels": next_obs}}, "mind": torch.zeros(50, 4)}
            buffer.extend(TensorDict(nested, [50]))
        rows = buffer.buffer.get_all_transitions()
        assert_equal(rows["/agent/pixels"], rows["next_/agent/pixels"], values.numpy())
        return buffer.buffer.nbytes

    return fill


KINDS = {
    "sb3.ReplayBuffer": of_steps(sb3.ReplayBuffer),
    "sb3.PrioritizedReplayBuffer": of_steps(sb3.PrioritizedReplayBuffer),
    "sb3.NStepReplayBuffer": of_steps(sb3.NStepReplayBuffer, n_steps=3),
    "sb3.DictReplayBuffer": of_parts,
    "cleanrl.ReplayBuffer": of_steps(cleanrl.ReplayBuffer),
    "TensorDictReplayBuffer": of_tensordicts(TensorDictReplayBuffer),
    "TensorDictPrioritizedReplayBuffer": of_tensordicts(TensorDictPrioritizedReplayBuffer, alpha=0.6, beta=0.4),
}


def assert_equal(obs, next_obs, seen):
    np.testing.assert_array_equal(obs, seen[:-1])
    np.testing.assert_array_equal(next_obs, seen[1:])


def bytes_per_step(kind, layout, **options):
    """Return the bytes per step, and the bytes of one slice."""
    seen = observations(layout)
    wider = 2 if "Tensor" in kind and layout.dtype == "u2" else 1
    return KINDS[kind](layout, seen, **options) / STEPS, wider * seen[0].nbytes / layout.shape[layout.axis]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_needs_the_memory_of_its_new_frames_only(kind, layout):
    used, a_slice = bytes_per_step(kind, LAYOUTS[layout])
    stored = LAYOUTS[layout].stored * a_slice
    assert stored <= used < 1.25 * stored + OF_OTHER_FIELDS


@pytest.mark.parametrize("layout", FOUND)
def test_a_hindsight_buffer_finds_the_same_axes(layout):
    seen = observations(FOUND[layout])
    a_slice = seen[0].nbytes / FOUND[layout].shape[FOUND[layout].axis]
    assert of_goals(FOUND[layout], seen) / STEPS < 1.25 * FOUND[layout].stored * a_slice + 2 * OF_OTHER_FIELDS


@pytest.mark.parametrize(
    "layout", sorted((FOUND | GIVEN).keys() - {"vectors in a row"})
)  # its slices are single numbers
@pytest.mark.parametrize("kind", KINDS)
def test_stacked_frames_can_be_compressed(kind, layout):
    used, a_slice = bytes_per_step(kind, LAYOUTS[layout], compress="lz4")
    assert used < 0.9 * LAYOUTS[layout].stored * a_slice + OF_OTHER_FIELDS


@pytest.mark.parametrize("kind", [sb3.ReplayBuffer, cleanrl.ReplayBuffer])
@pytest.mark.parametrize(
    ("space", "axis", "error", "message"),
    [
        ((4, H, W), 3, ValueError, r"stack_axis must be an axis of the shape \(4, 12, 12\), from -3 to 2, got 3"),
        ((4, H, W), "0", TypeError, "stack_axis must be an int, got '0'"),
        ((4, H, W), {"seen": 0}, TypeError, "stack_axis must be an int for an observation without parts, got {'seen'"),
        (None, 0, ValueError, "stack_axis must be a dict with an axis for each of 'felt', 'seen', got 0"),
        (None, {"sen": 0}, ValueError, "stack_axis must have no keys but 'felt', 'seen', got 'sen'"),
    ],
)
def test_a_wrong_axis_is_refused(kind, space, axis, error, message):
    parts = {"seen": spaces.Box(0, 255, (4, H, W), "u1"), "felt": spaces.Box(-1, 1, (3,))}
    space = spaces.Dict(parts) if space is None else spaces.Box(0, 255, space, "u1")
    kind = sb3.DictReplayBuffer if kind is sb3.ReplayBuffer and isinstance(space, spaces.Dict) else kind
    with pytest.raises(error, match=message):
        kind(10, space, BUTTONS, device="cpu", optimize_memory_usage=True, stack_axis=axis)
    with pytest.raises(ValueError, match="stack_axis must be None without optimize_memory_usage"):
        kind(10, space, BUTTONS, device="cpu", stack_axis=axis)


def test_a_wrong_axis_of_a_tensordict_is_refused():
    pixels = torch.zeros(3, 4, H, W, dtype=torch.uint8)
    rows = TensorDict({"pixels": pixels, "reward": torch.zeros(3, 1), "next": {"pixels": pixels}}, [3])
    for axis, message in (
        (3, r"axis of the shape .*4, 12, 12.*, got 3"),
        ({"reward": 0}, "no keys but 'pixels', got 'rew"),
    ):
        buffer = TensorDictReplayBuffer(10, optimize_memory_usage=True, stack_axis=axis)
        with pytest.raises(ValueError, match=message):
            buffer.extend(rows)
        assert len(buffer) == 0
    with pytest.raises(ValueError, match="stack_axis must be None without optimize_memory_usage, got 0"):
        TensorDictReplayBuffer(10, stack_axis=0)


def test_a_part_is_stored_whole_if_its_axis_is_none():
    """This is meant for an image that must not be split."""
    layout = FOUND["(C, H, W), gray"]
    space = spaces.Dict({"seen": spaces.Box(0, 255, layout.shape, "u1")})
    buffers = [
        sb3.DictReplayBuffer(STEPS, space, BUTTONS, device="cpu", optimize_memory_usage=True, stack_axis=given)
        for given in (None, {"seen": None})
    ]
    seen = observations(layout)
    for obs, next_obs in pairwise(seen):
        for buffer in buffers:
            parts = ({"seen": value[None]} for value in (obs, next_obs))
            buffer.add(*parts, np.array([[1]]), np.zeros(1, "f4"), np.zeros(1, "f4"), [{}])
    assert buffers[1].nbytes > 3 * buffers[0].nbytes
