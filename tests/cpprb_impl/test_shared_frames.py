"""next_of and stack_compress: values stored once are returned as added, even without on_episode_end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

STACK = 4
FRAME = (3, 5)


def episode(first: int, steps: int, dtype: type = np.uint8, frame: tuple = FRAME, stack: int = STACK) -> dict:
    """Return transitions whose observations are stacks of numbered frames, padded with the first frame."""
    size = int(np.prod(frame, dtype=int))
    frames = ((np.arange(steps + 1)[:, None] + first) * 7 + np.arange(size)).astype(dtype).reshape(-1, *frame)
    at = np.maximum(np.arange(steps + 1)[:, None] + np.arange(1 - stack, 1), 0)
    seen = np.moveaxis(frames[at], 1, -1)
    number = np.arange(first, first + steps)
    return {"obs": seen[:-1], "next_obs": seen[1:], "act": number, "done": np.arange(steps) == steps - 1}


def env_dict(dtype: type = np.uint8, frame: tuple = FRAME, stack: int = STACK) -> dict:
    return {"obs": {"shape": (*frame, stack), "dtype": dtype}, "act": {"dtype": np.int64}, "done": {"dtype": bool}}


def joined(*parts: dict) -> dict:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def newest(rows: dict, capacity: int) -> dict:
    """Return what a ring of `capacity` contains after `rows` were added, in the order of its slots."""
    count = len(rows["act"])
    kept = {key: column[-capacity:] for key, column in rows.items()}
    return {key: np.roll(column, count % capacity if count > capacity else 0, axis=0) for key, column in kept.items()}


def same(batch: dict, rows: dict) -> None:
    assert set(batch) == set(rows)
    for key, column in rows.items():
        np.testing.assert_array_equal(batch[key].reshape(column.shape), column, err_msg=key)


OPTIONS = [
    {"next_of": "obs"},
    {"stack_compress": "obs"},
    {"next_of": "obs", "stack_compress": "obs"},
    {"next_of": ["obs"], "stack_compress": ("obs",)},
    {"next_of": ("obs", "act"), "stack_compress": ["obs"]},
]


def add_all(buffer: ReplayBuffer, rows: dict, piece: int, ends: bool) -> None:
    count = len(rows["act"])
    for at in range(0, count, piece):
        part = {key: column[at : at + piece] for key, column in rows.items()}
        buffer.add(**(part if piece > 1 else {key: column[0] for key, column in part.items()}))
        if ends and part["done"][-1]:
            buffer.on_episode_end()


def wanted(rows: dict, options: dict) -> dict:
    rows = dict(rows)
    if "act" in options.get("next_of", ()):
        rows["next_act"] = rows["act"] + 1
    if "next_of" not in options:
        del rows["next_obs"]
    return rows


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("ends", [True, False], ids=["ends reported", "ends forgotten"])
@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.parametrize("capacity", [3, 20, 200])
def test_rows_are_returned_unchanged(options: dict, kind: type, ends: bool, piece: int, capacity: int) -> None:
    """In cpprb, rows are silently wrong if on_episode_end was not called."""
    rows = wanted(joined(episode(0, 13), episode(50, 1), episode(90, 40), episode(150, 2), episode(200, 30)), options)
    buffer = kind(capacity, env_dict(), **options)
    add_all(buffer, rows, piece, ends)
    held = newest(rows, capacity)
    same(buffer.get_all_transitions(), held)
    batch = buffer.sample(64)
    slots = [held["act"].tolist().index(act) for act in batch["act"].ravel()]
    same({key: batch[key] for key in held}, {key: column[slots] for key, column in held.items()})


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, bool])
@pytest.mark.parametrize("stack", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("frame", [(), (1,), (2, 3)])
def test_every_element_size_and_stack_is_stored(dtype: type, stack: int, frame: tuple) -> None:
    parts = [episode(at, 9, dtype, frame, stack) for at in (0, 100)]
    rows = joined(*parts)
    for options in OPTIONS[:3]:
        buffer = ReplayBuffer(11, env_dict(dtype, frame, stack), **options)
        add_all(buffer, wanted(rows, options), 1, ends=False)
        same(buffer.get_all_transitions(), newest(wanted(rows, options), 11))


def test_next_obs_need_not_continue_obs() -> None:
    """This is so in vectorised environments, where adjacent rows are unrelated."""
    random = np.random.default_rng(0)
    rows = {
        "obs": random.integers(0, 256, (50, *FRAME, STACK), dtype=np.uint8),
        "next_obs": random.integers(0, 256, (50, *FRAME, STACK), dtype=np.uint8),
        "act": np.arange(50),
        "done": np.zeros(50, bool),
    }
    for options in OPTIONS[:3]:
        buffer = ReplayBuffer(16, env_dict(), **options)
        add_all(buffer, wanted(rows, options), 3, ends=False)
        same(buffer.get_all_transitions(), newest(wanted(rows, options), 16))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["episode", "clear", "same again", "noise"]), st.integers(1, 12)), max_size=12),
    st.integers(1, 15),
    st.sampled_from(OPTIONS[:3]),
)
def test_any_history_yields_the_rows_of_whole_storage(history: list, capacity: int, options: dict) -> None:
    random = np.random.default_rng(1)
    buffer = ReplayBuffer(capacity, env_dict(), **options)
    rows, first = wanted(episode(0, 1), options), 0
    rows = {key: column[:0] for key, column in rows.items()}
    start = 0
    for what, steps in history:
        if what == "clear":
            buffer.clear()
            start = len(rows["act"])
            continue
        part = wanted(episode(first, steps), options)
        if what == "same again":
            part = {key: np.repeat(column[:1], steps, axis=0) for key, column in part.items()}
        if what == "noise":
            part["obs"] = random.integers(0, 3, part["obs"].shape, dtype=np.uint8)
        buffer.add(**part)
        rows = joined(rows, part)
        first += steps
    since = {key: column[start:] for key, column in rows.items()}
    same(buffer.get_all_transitions(), newest(since, capacity))


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_a_failed_add_changes_nothing(options: dict) -> None:
    buffer = ReplayBuffer(8, env_dict(), **options)
    rows = wanted(episode(0, 6), options)
    buffer.add(**{key: column[:3] for key, column in rows.items()})
    with pytest.raises(ValueError, match="done"):
        buffer.add(**{**rows, "done": np.zeros(2)})
    with pytest.raises(KeyError, match="obs"):
        buffer.add(act=1, done=False)
    buffer.add(**{key: column[3:] for key, column in rows.items()})
    same(buffer.get_all_transitions(), rows)


def test_frames_are_stored_once() -> None:
    capacity, frame = 1000, (20, 20)
    buffer = ReplayBuffer(capacity, env_dict(frame=frame), next_of="obs", stack_compress="obs")
    for at in range(0, 4000, 100):
        buffer.add(**episode(at, 100, frame=frame))
    first, next_first = buffer._get_frame_numbers("obs", 0, buffer.get_stored_size())
    frames = buffer._read_frames("obs", np.arange(buffer._get_frames("obs")[1]))
    assert frames.shape[1:] == frame
    # Each episode of 100 steps has 101 frames. Its first stack is stored whole, and one more chunk may be in use.
    assert capacity <= len(frames) <= capacity * 1.05 + 2 * STACK
    assert (next_first == first + 1).all()
    assert buffer._get_frames("act") is None


def test_without_sharing_more_frames_are_stored() -> None:
    """The control of the test above: episodes of one step share only their own observation."""
    buffer = ReplayBuffer(100, env_dict(), next_of="obs", stack_compress="obs")
    for at in range(100):
        buffer.add(**episode(2 * at, 1))
    assert buffer._get_frames("obs")[1] == 100 * (STACK + 1)


def test_frames_and_first_frames_reconstruct_the_rows() -> None:
    buffer = ReplayBuffer(10, env_dict(), next_of="obs", stack_compress="obs")
    buffer.add(**joined(episode(0, 9), episode(40, 8)))
    first, next_first = buffer._get_frame_numbers("obs", 0, buffer.get_stored_size())
    frames = buffer._read_frames("obs", np.arange(buffer._get_frames("obs")[1]))
    slots = (buffer.get_next_index() + np.arange(10)) % 10
    held = buffer.get(slots)
    for name, start in (("obs", first), ("next_obs", next_first)):
        np.testing.assert_array_equal(np.moveaxis(frames[start[:, None] + np.arange(STACK)], 1, -1), held[name])


def test_next_of_may_also_be_in_env_dict() -> None:
    fields = {**env_dict(), "next_obs": {"shape": (*FRAME, STACK), "dtype": np.uint8}}
    buffer = ReplayBuffer(8, fields, next_of="obs")
    rows = episode(0, 8)
    buffer.add(**rows)
    same(buffer.get_all_transitions(), rows)


@pytest.mark.parametrize("option", ["next_of", "stack_compress"])
def test_a_name_that_is_not_a_field_is_refused(option: str) -> None:
    with pytest.raises(KeyError, match=f"{option}.*nothing"):
        ReplayBuffer(8, env_dict(), **{option: "nothing"})


def test_next_values_are_required() -> None:
    buffer = ReplayBuffer(8, env_dict(), next_of="obs")
    with pytest.raises(KeyError, match="next_obs"):
        buffer.add(obs=np.zeros((*FRAME, STACK)), act=0, done=False)
