"""Saving and loading shared buffers: training continues as if never interrupted."""

from __future__ import annotations

import io
import multiprocessing
from contextlib import closing

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.contents import state

from .rows import ENV_DICT, make_rows
from .test_files import loaded, same, saved

KINDS = [MPReplayBuffer, MPPrioritizedReplayBuffer]
FORK = multiprocessing.get_context("fork")


def train(buffer, first, steps):
    """Add, sample and update, as a learner does; return all samples."""
    batches = []
    for step in range(first, first + steps):
        buffer.add(**make_rows(step, 1 + step % 3))
        if step % 2:
            batches.append(buffer.sample(5))
            if hasattr(buffer, "update_priorities"):
                buffer.update_priorities(batches[-1]["indexes"], (batches[-1]["act"].ravel() * 37 % 11) + 0.2)
    return batches


@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
@pytest.mark.parametrize("steps", [0, 1, 9, 16, 17, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_training_continues_as_if_never_interrupted(kind, steps, lock):
    buffer, resumed = kind(16, ENV_DICT, lock=lock, seed=3), kind(16, ENV_DICT, lock=lock)
    train(buffer, 1, steps)
    loaded(saved(buffer), resumed)
    for get in ("get_stored_size", "get_next_index", "get_current_episode_len"):
        assert getattr(resumed, get)() == getattr(buffer, get)()
    same(buffer.get_all_transitions(), resumed.get_all_transitions())
    if kind is MPPrioritizedReplayBuffer:
        assert resumed.get_max_priority() == buffer.get_max_priority()
    for one, other in zip(train(buffer, 100, 60), train(resumed, 100, 60), strict=True):
        same(one, other)
    buffer.close()
    resumed.close()


def test_resuming_without_the_leaves_is_detected():
    buffer, resumed = (MPPrioritizedReplayBuffer(16, ENV_DICT, seed=1) for _ in range(2))
    buffer.add(**make_rows(0, 16), priorities=np.arange(16) + 0.5)
    loaded(saved(buffer), resumed)
    resumed._set_leaves(range(16), np.ones(16, np.float32))
    assert not np.array_equal(resumed.sample(50)["act"], buffer.sample(50)["act"])


@pytest.mark.parametrize("shared", [MPReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize("rows", [5, 16, 23])
def test_files_are_exchanged_with_buffers_of_one_process(shared, rows):
    private = PrioritizedReplayBuffer if shared is MPPrioritizedReplayBuffer else ReplayBuffer
    one = private(16, ENV_DICT, seed=4)
    one.add(**make_rows(0, rows))
    other = loaded(saved(one), shared(16, ENV_DICT))
    again = loaded(saved(other), private(16, ENV_DICT))
    same(one.get_all_transitions(), other.get_all_transitions())
    same(one.sample(40), again.sample(40))
    other.close()


@pytest.mark.parametrize("kind", KINDS)
def test_loading_appends_to_what_is_stored(kind):
    buffer = kind(8, ENV_DICT)
    buffer.add(**make_rows(0, 11))
    other = kind(20, ENV_DICT)
    other.add(**make_rows(100, 5))
    other.load_transitions(saved(buffer))
    assert other.get_all_transitions()["act"].ravel().tolist() == [*range(100, 105), *range(3, 11)]
    for each in (buffer, other):
        each.close()


def test_priorities_are_appended():
    buffer = MPPrioritizedReplayBuffer(8, ENV_DICT)
    buffer.add(**make_rows(0, 6), priorities=np.arange(6) + 1.0)
    other = MPPrioritizedReplayBuffer(20, ENV_DICT)
    other.add(**make_rows(100, 3), priorities=[7.0] * 3)
    other.load_transitions(saved(buffer))
    assert np.array_equal(other._get_leaves(range(3, 9)), buffer._get_leaves(range(6)))
    assert other.get_max_priority() == 7
    for each in (buffer, other):
        each.close()


def test_another_learner_sees_the_loaded_priorities():
    """The other learner has already joined, so it reads the priorities in the journal."""
    source = MPPrioritizedReplayBuffer(8, ENV_DICT, eps=0)
    source.add(**make_rows(0, 8), priorities=[0, 0, 0, 5.0, 0, 0, 0, 0])
    file, buffer = saved(source), MPPrioritizedReplayBuffer(8, ENV_DICT, eps=0)
    ours, theirs = FORK.Pipe()

    def learn() -> None:
        buffer.add(**make_rows(50, 1))
        buffer.sample(1)
        buffer.clear()
        theirs.send("joined")
        theirs.recv()
        theirs.send(buffer.sample(30)["act"].ravel().tolist())

    child = FORK.Process(target=learn)
    child.start()
    assert ours.recv() == "joined"
    buffer.load_transitions(file)
    ours.send("loaded")
    assert ours.recv() == [3] * 30
    child.join()
    for each in (source, buffer):
        each.close()


def test_n_step_transitions_and_frames_are_saved():
    nstep = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}
    options = {"stack_compress": "obs", "next_of": "obs", "default_dtype": np.uint8}
    fields = {"obs": {"shape": (2, 2, 3)}, "act": {}}
    steps = MPReplayBuffer(8, {"obs": {}, "rew": {}, "next_obs": {}, "done": {}}, Nstep=nstep, seed=2)
    for i in range(4):  # one transition is complete, three steps are pending
        steps.add(obs=i, rew=1, next_obs=i + 1, done=0)
    frames = MPReplayBuffer(8, fields, **options, seed=2)
    film = np.arange(2 * 2 * 20, dtype=np.uint8).reshape(2, 2, 20)
    for i in range(12):
        frames.add(obs=film[..., i : i + 3], act=i, next_obs=film[..., i + 1 : i + 4])
    others = (
        MPReplayBuffer(8, {"obs": {}, "rew": {}, "next_obs": {}, "done": {}}, Nstep=nstep),
        MPReplayBuffer(8, fields, **options),
    )
    for one, other in zip((steps, frames), others, strict=True):
        loaded(saved(one), other)
        if one is steps:
            for each in (one, other):
                each.add(obs=4, rew=8, next_obs=5, done=1)
                each.on_episode_end()
        same(one.get_all_transitions(), other.get_all_transitions())
        same(one.sample(9), other.sample(9))
        one.close()
        other.close()


class WithHole(MPReplayBuffer):
    """A buffer whose slot 2 has no transition, because a process died while writing to it."""

    def _get_stored_slots(self) -> np.ndarray:
        slots = super()._get_stored_slots()
        return slots[slots != 2]


def test_a_hole_is_closed_by_saving_and_loading():
    buffer, resumed = WithHole(8, ENV_DICT), MPReplayBuffer(8, ENV_DICT)
    buffer.add(**make_rows(0, 12))  # slot 2 would have transition 10
    loaded(saved(buffer), resumed)
    assert resumed.get_all_transitions()["act"].ravel().tolist() == [4, 5, 6, 7, 8, 9, 11]
    assert resumed.get_next_index() == 7
    for each in (buffer, resumed):
        each.close()


class AddingFile(io.BytesIO):
    """A file that lets another process add to the buffer before each write."""

    def __init__(self, explorer) -> None:
        super().__init__()
        self.explorer = explorer

    def write(self, data) -> int:
        self.explorer.send("add")
        assert self.explorer.recv() == "added"
        return super().write(data)


def add_when_asked(buffer, learner) -> None:
    while learner.recv() == "add":
        buffer.add(**make_rows(50, 1))
        learner.send("added")


@pytest.mark.parametrize("kind", KINDS)
def test_saving_while_another_process_adds_is_an_error(kind):
    buffer = kind(8, ENV_DICT)
    buffer.add(**make_rows(0, 3))
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=add_when_asked, args=(buffer, theirs), daemon=True)
    child.start()
    with pytest.raises(RuntimeError, match="another thread or process changed the buffer while it was being saved"):
        buffer.save_transitions(AddingFile(ours))
    ours.send("end")
    child.join()
    buffer.close()


@pytest.mark.parametrize(("adds", "error"), [(True, RuntimeError), (False, IndexError)])
def test_saving_while_a_row_is_overwritten_reports_what_changed(adds, error, monkeypatch):
    buffer = MPReplayBuffer(8, ENV_DICT)
    buffer.add(**make_rows(0, 8))

    def overwritten(*_: object) -> None:
        if adds:
            buffer.add(**make_rows(50, 1))
        buffer.get([8])

    monkeypatch.setattr("cpprb_impl.contents.file_format.write_columns", overwritten)
    with closing(buffer), pytest.raises(error):
        buffer.save_transitions(io.BytesIO())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [0, 2])
def test_loading_while_another_process_adds_is_an_error(kind, stored, monkeypatch):
    source, buffer = kind(8, ENV_DICT), kind(8, ENV_DICT)
    source.add(**make_rows(0, 3))
    if stored:
        buffer.add(**make_rows(10, stored))

    def adding(_kinds):
        child = FORK.Process(target=lambda: buffer.add(**make_rows(50, 1)))
        child.start()
        child.join()
        return 1

    # Called while transitions are added in pieces, for which these files are too small.
    monkeypatch.setattr(state, "rows_per_piece", adding)
    monkeypatch.setattr(state, "Frames", np.ndarray)
    with pytest.raises(RuntimeError, match="another process added transitions while these were being loaded"):
        buffer.load_transitions(saved(source))
    assert buffer.get_stored_size() == (6 if stored else 0)
    for each in (source, buffer):
        each.close()


def test_a_bad_file_changes_nothing(tmp_path):
    buffer, wrong = MPReplayBuffer(8, ENV_DICT), MPReplayBuffer(8, {"other": {}})
    buffer.add(**make_rows(0, 3))
    wrong.add(other=1)
    before = buffer.get_all_transitions()
    with pytest.raises(ValueError, match="other"):
        buffer.load_transitions(saved(wrong))
    same(before, buffer.get_all_transitions())
    for each in (buffer, wrong):
        each.close()
