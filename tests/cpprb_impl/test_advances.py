"""Stacks that advance by several frames at once, such as those of colour images, whose channels are frames."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReverseReplayBuffer,
)
from tests.grids import pairwise

ROWS, SIDE = 400, 16
FRAME_BYTES = SIDE * SIDE
Rows = dict[str, np.ndarray]
Make = Callable[..., ReplayBuffer]


def in_files(folder: Path, **options) -> ReplayBuffer:
    return ReplayBuffer(mmap_prefix=str(folder / "buffer"), **options)


# By name: how a buffer is made, and the memory that it may use per byte of its frames, half of which are noise. In a
# shared buffer, every chunk begins with a whole stack, and two chunks are not full.
STORES: dict[str, tuple[Make, float]] = {
    "private": (lambda folder, **options: ReplayBuffer(**options), 1.15),
    "prioritized": (lambda folder, **options: PrioritizedReplayBuffer(**options), 1.15),
    "reverse": (lambda folder, **options: ReverseReplayBuffer(**options), 1.15),
    "compressed": (lambda folder, **options: ReplayBuffer(compress="lz4", **options), 0.9),
    "in files": (in_files, 1.15),
    "shared": (lambda folder, **options: MPReplayBuffer(**options), 1.8),
    "shared and prioritized": (lambda folder, **options: MPPrioritizedReplayBuffer(**options), 1.8),
}
# (frames per stack, frames by which it advances)
ADVANCES = [(window, by) for window in (2, 3, 4, 6) for by in range(1, window)] + [(9, 3), (12, 3), (12, 1), (12, 11)]
AXES = [0, 1, -1]


def advancing(frames: np.ndarray, window: int, by: int, axis: int) -> Rows:
    """Return the stacks of one episode. The first axis of `frames` counts them; it becomes `axis` of each stack."""
    rows = (len(frames) - window) // by
    first = by * np.arange(rows)[:, None] + np.arange(window)
    place = axis if axis < 0 else axis + 1
    obs, next_obs = (np.moveaxis(frames[first + later], 1, place) for later in (0, by))
    return {"obs": obs, "next_obs": next_obs, "id": np.arange(rows)}


def noise(window: int, by: int, axis: int, rows: int = ROWS) -> Rows:
    frames = np.random.default_rng(0).integers(0, 256, (rows * by + window, SIDE, SIDE), np.uint8)
    frames[:, : SIDE // 2] = 0
    return advancing(frames, window, by, axis)


def options_for(rows: Rows, axis: int, size: int, **options) -> dict:
    env_dict = {"obs": {"shape": rows["obs"].shape[1:], "dtype": np.uint8}, "id": {"dtype": np.int64}}
    env_dict |= {"done": {}} if "Nstep" in options else {}
    return {"size": size, "env_dict": env_dict, "next_of": "obs", "stack_compress": {"obs": axis}, **options}


def add(buffer: ReplayBuffer, rows: Rows, step: int) -> None:
    for at in range(0, len(rows["id"]), step):
        buffer.add(**{name: column[at : at + step] for name, column in rows.items()})


def assert_added(stored: Rows, added: Rows) -> None:
    ids = stored["id"].ravel()
    for name in ("obs", "next_obs"):
        np.testing.assert_array_equal(stored[name], added[name][ids])


def used(buffer: ReplayBuffer, folder: Path) -> int:
    return buffer.nbytes + sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def frames_of(store: str, folder: Path, added: Rows, axis: int) -> float:
    """Store the rows one by one, check them, and return the memory that they use, in frames."""
    folder.mkdir()
    with closing(STORES[store][0](folder, **options_for(added, axis, ROWS))) as buffer:
        empty = used(buffer, folder)
        add(buffer, added, 1)
        assert_added(buffer.get_all_transitions(), added)
        return (used(buffer, folder) - empty) / FRAME_BYTES


@pairwise(store=STORES, advance=ADVANCES, axis=AXES)
def test_only_the_new_frames_of_each_step_are_stored(tmp_path, store, advance, axis):
    window, by = advance
    frames = frames_of(store, tmp_path / "buffer", noise(window, by, axis), axis)
    assert frames < STORES[store][1] * (ROWS * by + 2 * window)


@pytest.mark.parametrize("axis", range(-4, 4))
@pytest.mark.parametrize("store", STORES)
def test_frames_may_lie_along_any_axis(tmp_path, store, axis):
    """Colour images of shape (15, 16, 3), whose stacks have four axes, and advance by two images."""
    images = np.random.default_rng(0).integers(0, 2, (2 * ROWS + 5, 15, 16, 3), np.uint8)
    added = advancing(images, 5, 2, axis)
    frames = frames_of(store, tmp_path / "buffer", added, axis) * FRAME_BYTES / images[0].nbytes
    assert frames < 1.8 * (ROWS * 2 + 10)


@pytest.mark.parametrize("store", STORES)
def test_frames_of_a_stream_that_never_advances_are_stored_whole(tmp_path, store):
    """The control of the test above."""
    never, by_three = (frames_of(store, tmp_path / str(by), noise(12, by, 0), 0) for by in (12, 3))
    assert never > 3 * by_three


def surprising(rng: np.random.Generator, window: int, axis: int, rows: int) -> Rows:
    """Return streams in which each step advances by any number of frames, repeats, jumps back, or starts anew.

    There are few different frames, so that a stack is often consistent with several advances.
    """
    frames = rng.integers(0, 2, (5, 3, 5)).astype(np.uint8)
    frames[0] = frames[1] = 0
    stacks, now = [], [0] * window
    for _ in range(rows):
        following = now
        match rng.integers(8):
            case 0 | 1 | 2 | 3:
                by = rng.integers(0, window + 1)
                following = [*now[by:], *rng.integers(0, 5, by)]
            case 4:
                following = [rng.integers(0, 5)] * window
            case 5:
                following = [*rng.integers(0, 5, 1), *now[:-1]]
        begins_anew = rng.random() < 0.2
        stacks.append((now, following))
        now = list(rng.integers(0, 5, window)) if begins_anew else following
    obs, next_obs = (
        np.moveaxis(frames[np.array(column)], 1, axis if axis < 0 else axis + 1) for column in zip(*stacks, strict=True)
    )
    return {"obs": obs, "next_obs": next_obs, "id": np.arange(rows)}


@pairwise(store=STORES, window=[2, 4, 9], axis=AXES, n_envs=[1, 3])
def test_rows_are_what_was_added_whatever_a_stream_does(tmp_path, store, window, axis, n_envs):
    rng = np.random.default_rng(window)
    added = surprising(rng, window, axis, 450)
    with closing(STORES[store][0](tmp_path, **options_for(added, axis, 60, n_envs=n_envs))) as buffer:
        at = 0
        while at < 450:
            count = n_envs * int(rng.integers(1, 8 if rng.random() < 0.9 else 30))
            buffer.add(**{name: column[at : at + count] for name, column in added.items()})
            at += count
            if rng.random() < 0.05:
                buffer.on_episode_end()
            if rng.random() < 0.02:
                buffer.clear()
                continue
            assert_added(buffer.get_all_transitions(), added)
            assert_added(buffer.sample(20), added)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("store", ["private", "compressed", "in files"])
def test_copies_and_files_share_frames_as_well(tmp_path, store, axis):
    added = noise(12, 3, axis)
    buffer = STORES[store][0](tmp_path, **options_for(added, axis, ROWS))
    add(buffer, added, 7)
    copies = [] if store == "in files" else [pickle.loads(pickle.dumps(buffer))]
    file = io.BytesIO()
    buffer.save_transitions(file)
    assert file.tell() < 1.3 * ROWS * 3 * FRAME_BYTES
    file.seek(0)
    os.mkdir(tmp_path / "other")
    copies.append(STORES[store][0](tmp_path / "other", **options_for(added, axis, ROWS)))
    copies[-1].load_transitions(file)
    for each in copies:
        assert each.nbytes < 1.1 * buffer.nbytes
        assert_added(each.get_all_transitions(), added)


@pytest.mark.parametrize("store", STORES)
def test_n_step_transitions_have_separate_frames_for_both_observations(tmp_path, store):
    added = noise(12, 3, 0)
    options = options_for(added, 0, ROWS, Nstep={"size": 4, "gamma": 0.9, "next": "next_obs"})
    with closing(STORES[store][0](tmp_path, **options)) as buffer:
        empty = used(buffer, tmp_path)
        for at in range(ROWS):
            buffer.add(**{name: column[at] for name, column in added.items()}, done=0)
        assert used(buffer, tmp_path) - empty < STORES[store][1] * (2 * ROWS * 3 + 4 * 12) * FRAME_BYTES
        rows = buffer.get_all_transitions()
        ids = rows["id"].ravel()
        np.testing.assert_array_equal(rows["obs"], added["obs"][ids])
        np.testing.assert_array_equal(rows["next_obs"], added["next_obs"][ids + 3])


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_hindsight_buffer_stores_only_the_new_frames_of_each_row(prioritized):
    added = noise(12, 3, 0, rows=200)
    env_dict = {"obs": {"shape": added["obs"].shape[1:], "dtype": np.uint8}, "act": {}}
    buffer = HindsightReplayBuffer(
        ROWS,
        env_dict,
        100,
        lambda states, actions, goals: np.zeros(len(states)),
        goal_func=lambda states: np.zeros((len(states), 1)),
        goal_shape=1,
        strategy="final",
        prioritized=prioritized,
        next_of="obs",
        stack_compress={"obs": 0},
    )
    empty = buffer.rb.nbytes
    for episode in (slice(0, 100), slice(100, 200)):
        buffer.add(obs=added["obs"][episode], next_obs=added["next_obs"][episode], act=np.zeros(100))
        buffer.on_episode_end(0)
    assert buffer.get_stored_size() == ROWS
    assert buffer.rb.nbytes - empty < 1.15 * (ROWS * 3 + 4 * 12) * FRAME_BYTES
    rows = buffer.rb.get_all_transitions()
    expected = np.concatenate(
        [added["next_obs"][episode] for episode in (slice(0, 100), slice(100, 200)) for _ in "12"]
    )
    np.testing.assert_array_equal(rows["next_obs"], expected)


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
def test_an_attached_buffer_has_the_same_axis(kind):
    added = noise(6, 2, 1, rows=60)
    with closing(kind(**options_for(added, 1, 60))) as buffer:
        add(buffer, added, 5)
        with closing(kind.attach(buffer.segment)) as attached:
            assert_added(attached.get_all_transitions(), added)
            add(attached, added, 5)
        assert_added(buffer.get_all_transitions(), added)
