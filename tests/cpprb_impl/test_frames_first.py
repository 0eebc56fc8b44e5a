"""Stacks of frames along the first axis, the layout of PyTorch's convolutions."""

from __future__ import annotations

import io
import pickle
from contextlib import closing

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

PRIVATE, SHARED = (ReplayBuffer, PrioritizedReplayBuffer), (MPReplayBuffer, MPPrioritizedReplayBuffer)
DTYPES = (np.uint8, np.float32)


def fields(dtype: type) -> dict[str, dict[str, object]]:
    return {"obs": {"shape": (4, 6, 6), "dtype": dtype}, "id": {"dtype": np.int64}}


def steps(count: int, dtype: type) -> dict[str, np.ndarray]:
    """Return transitions of episodes of 30 steps."""
    random = np.random.default_rng(0)
    frames = random.integers(0, 255, (count + 4 * (count // 30 + 1), 6, 6)).astype(dtype)
    first = np.arange(count) + 4 * (np.arange(count) // 30)
    return {
        "obs": frames[first[:, None] + np.arange(4)],
        "next_obs": frames[first[:, None] + np.arange(1, 5)],
        "id": np.arange(count),
    }


def filled(kind: type, dtype: type, size: int = 200) -> tuple[ReplayBuffer, dict[str, np.ndarray]]:
    buffer, added = kind(size, fields(dtype), next_of="obs", stack_compress={"obs": 0}), steps(500, dtype)
    for at in range(0, 500, 7):
        buffer.add(**{name: column[at : at + 7] for name, column in added.items()})
    return buffer, added


def assert_added(rows: dict[str, np.ndarray], added: dict[str, np.ndarray]) -> None:
    ids = rows["id"].ravel()
    for name in ("obs", "next_obs"):
        np.testing.assert_array_equal(rows[name], added[name][ids])
        assert rows[name].flags.c_contiguous


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", PRIVATE + SHARED)
def test_batches_contain_the_added_rows(kind, dtype):
    buffer, added = filled(kind, dtype)
    with closing(buffer):
        for rows in (buffer.sample(100), buffer.get_all_transitions(), buffer.get([3, 0, 199])):
            assert_added(rows, added)


def test_frames_are_stored_once():
    buffer, added = filled(ReplayBuffer, np.uint8)
    _, count, _, axis = buffer._get_frames("obs")
    frames = buffer._read_frames("obs", np.arange(count))
    _, next_first = buffer._get_frame_numbers("obs", 0, buffer.get_stored_size())
    assert axis == 0 and frames.shape[1:] == (6, 6) and len(frames) < 1.5 * 200
    stacks = frames[next_first[:, None] + np.arange(4)]
    np.testing.assert_array_equal(stacks, added["next_obs"][300:])
    whole = ReplayBuffer(200, fields(np.uint8) | {"next_obs": fields(np.uint8)["obs"]})
    assert buffer.nbytes < 0.5 * whole.nbytes


@pytest.mark.parametrize("to", [0, 1, -1, None], ids=["frames first", "in the middle", "frames last", "whole"])
@pytest.mark.parametrize("kind", PRIVATE)
def test_a_file_can_be_loaded_with_any_way_of_storing_frames(kind, to):
    buffer, added = filled(kind, np.uint8)
    file = io.BytesIO()
    buffer.save_transitions(file)
    file.seek(0)
    given = {} if to is None else {"stack_compress": {"obs": to}}
    other = kind(200, fields(np.uint8), next_of="obs", **given)
    other.load_transitions(file)
    assert_added(other.get_all_transitions(), added)


def test_copies_are_equal():
    buffer, added = filled(PrioritizedReplayBuffer, np.uint8)
    copy = pickle.loads(pickle.dumps(buffer))
    assert_added(copy.get_all_transitions(), added)
    np.testing.assert_array_equal(copy.sample(50)["id"], buffer.sample(50)["id"])


@pytest.mark.parametrize(
    ("axis", "error", "message"),
    [
        (3, ValueError, r"stack_compress\['obs'\] must be an axis of the shape \(4, 6, 6\), from -3 to 2, got 3"),
        (-4, ValueError, r"stack_compress\['obs'\] must be an axis of the shape \(4, 6, 6\), from -3 to 2, got -4"),
        ("0", TypeError, r"stack_compress\['obs'\] must be an int, got '0'"),
    ],
)
@pytest.mark.parametrize("kind", PRIVATE + SHARED)
def test_an_axis_that_the_field_lacks_is_refused(kind, axis, error, message):
    with pytest.raises(error, match=message):
        kind(10, fields(np.uint8), stack_compress={"obs": axis})


@pytest.mark.parametrize("kind", PRIVATE)
def test_indexes_are_drawn_as_sample_draws_them(kind):
    drawing, sampling = (kind(1000, {"id": {"dtype": np.int64}}, seed=1) for _ in range(2))
    for buffer in (drawing, sampling):
        more = {"priorities": np.linspace(0.1, 9, 700)} if kind is PrioritizedReplayBuffer else {}
        buffer.add(id=np.arange(700), **more)
    for rows in (1, 64, 0, 300):
        indexes, expected = drawing.sample_indexes(rows), sampling.sample(rows)["id"].ravel()
        assert indexes.dtype == np.int64 and indexes.shape == (rows,)
        np.testing.assert_array_equal(drawing.get(indexes)["id"].ravel(), expected)


@pytest.mark.parametrize("kind", SHARED)
def test_a_shared_buffer_has_no_indexes_to_read_later(kind):
    with closing(kind(10, {"id": {}})) as buffer:
        buffer.add(id=1)
        with pytest.raises(TypeError, match="a row may be overwritten before it is read"):
            buffer.sample_indexes(1)


def test_the_errors_for_invalid_draws_and_reads_say_what_is_wrong():
    buffer = PrioritizedReplayBuffer(10, {"id": {}})
    with pytest.raises(ValueError, match="cannot sample from an empty buffer"):
        buffer.sample_indexes(1)
    buffer.add(id=1)
    with pytest.raises(IndexError, match=r"indexes\[1\] is 5, where no transition is stored"):
        buffer.get([0, 5])
    with pytest.raises(ValueError, match="batch_size must not be negative, got -1"):
        buffer.sample_indexes(-1)
