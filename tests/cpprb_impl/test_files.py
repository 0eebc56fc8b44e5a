"""Saving and loading: files return what was saved, and training continues as if never interrupted."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer, ReverseReplayBuffer
from cpprb_impl.contents import state

from .rows import ENV_DICT, make_rows

KINDS = [ReplayBuffer, PrioritizedReplayBuffer, ReverseReplayBuffer]


def saved(buffer) -> io.BytesIO:
    file = io.BytesIO()
    buffer.save_transitions(file)
    file.seek(0)
    return file


def loaded(file, buffer):
    buffer.load_transitions(file)
    return buffer


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype and one[name].tobytes() == other[name].tobytes(), name


def train(buffer, first, steps):
    """Add, sample and update, as a learner does; return all samples."""
    batches = []
    for step in range(first, first + steps):
        buffer.add(**make_rows(step, 1))
        if step % 7 == 0:
            buffer.on_episode_end()
        if step % 2:
            batches.append(buffer.sample(5))
            if isinstance(buffer, PrioritizedReplayBuffer):
                buffer.update_priorities(batches[-1]["indexes"], (batches[-1]["act"].ravel() * 37 % 11) + 0.2)
    return batches


@pytest.mark.parametrize("options", [{}, {"seed": 6}])
@pytest.mark.parametrize("steps", [0, 1, 9, 16, 17, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_training_continues_as_if_never_interrupted(tmp_path, kind, steps, options):
    buffer = kind(16, ENV_DICT, **options)
    train(buffer, 1, steps)
    buffer.save_transitions(tmp_path / "run")
    resumed = kind(16, ENV_DICT)
    resumed.load_transitions(tmp_path / "run")
    for get in ("get_stored_size", "get_next_index", "get_current_episode_len"):
        assert getattr(resumed, get)() == getattr(buffer, get)()
    same(buffer.get_all_transitions(), resumed.get_all_transitions())
    for one, other in zip(train(buffer, 100, 60), train(resumed, 100, 60), strict=True):
        same(one, other)


def test_resuming_without_the_random_state_is_detected():
    buffer = ReplayBuffer(16, ENV_DICT, seed=1)
    buffer.add(**make_rows(0, 16))
    resumed = loaded(saved(buffer), ReplayBuffer(16, ENV_DICT))
    resumed._set_random((1, 2, 3, 4))
    assert not np.array_equal(resumed.sample(50)["act"], buffer.sample(50)["act"])


def test_rows_added_after_the_last_sample_remain_protected():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, check_for_update=True)
    buffer.add(**make_rows(0, 5))
    buffer.sample(1)
    buffer.add(**make_rows(5, 2))
    resumed = loaded(saved(buffer), PrioritizedReplayBuffer(8, ENV_DICT, check_for_update=True))
    for each in (buffer, resumed):
        each.update_priorities(range(7), [3.0] * 7)
    assert np.array_equal(buffer._get_leaves(range(7)), resumed._get_leaves(range(7)))
    assert len(set(buffer._get_leaves(range(7)).tolist())) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_loading_appends_oldest_first(kind):
    buffer = kind(8, ENV_DICT)
    buffer.add(**make_rows(0, 11))
    other = kind(20, ENV_DICT)
    other.add(**make_rows(100, 3))
    other.on_episode_end()
    other.add(**make_rows(103, 2))
    other.load_transitions(saved(buffer))
    assert other.get_all_transitions()["act"].ravel().tolist() == [100, 101, 102, 103, 104, *range(3, 11)]
    assert (other.get_next_index(), other.get_current_episode_len()) == (13, 2)


@pytest.mark.parametrize("size", [3, 8, 9])
def test_the_newest_rows_are_kept_if_a_file_has_too_many(size):
    buffer = PrioritizedReplayBuffer(12, ENV_DICT)
    buffer.add(**make_rows(0, 10), priorities=np.arange(10) + 1.0)
    other = loaded(saved(buffer), PrioritizedReplayBuffer(size, ENV_DICT))
    assert sorted(other.get_all_transitions()["act"].ravel()) == list(range(10 - size, 10))
    slots = other.get_all_transitions()["act"].ravel().argsort()
    assert np.array_equal(other._get_leaves(slots), buffer._get_leaves(range(10 - size, 10)))
    assert other.get_max_priority() == 10


def test_priorities_are_appended_and_converted():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, alpha=0.6, eps=0.01)
    priorities = np.array([0.0, 0.3, 2.0, 50.0])
    buffer.add(**make_rows(0, 4), priorities=priorities)
    for alpha, eps in ((1.0, 0.0), (0.6, 0.01), (0.3, 1.0), (0.0, 0.5)):
        other = PrioritizedReplayBuffer(8, ENV_DICT, alpha=alpha, eps=eps)
        other.add(**make_rows(9, 1), priorities=[3.0])
        other.load_transitions(saved(buffer))
        expected = (np.array([3.0, *priorities]) + eps) ** alpha
        assert np.allclose(other._get_leaves(range(5)), expected, rtol=1e-5, atol=1e-6)
        assert other.get_max_priority() == 50
    kept = loaded(saved(buffer), PrioritizedReplayBuffer(8, ENV_DICT, alpha=0.6, eps=0.01))
    assert np.array_equal(kept._get_leaves(range(4)), buffer._get_leaves(range(4)))


def test_an_alpha_of_0_loses_all_priorities_but_the_largest():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, alpha=0.0)
    buffer.add(**make_rows(0, 3), priorities=[1, 5, 2])
    other = loaded(saved(buffer), PrioritizedReplayBuffer(8, ENV_DICT, alpha=1.0, eps=0.0))
    assert other._get_leaves(range(3)).tolist() == [1, 1, 1] and other.get_max_priority() == 5


def test_priorities_too_large_for_the_exponents_of_the_buffer_are_refused():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, alpha=0.1)
    buffer.add(**make_rows(0, 1), priorities=[1e30])
    other = PrioritizedReplayBuffer(8, ENV_DICT, alpha=2.0)
    with pytest.raises(ValueError, match="too large"):
        other.load_transitions(saved(buffer))
    assert other.get_stored_size() == 0


def test_files_are_exchanged_between_uniform_and_prioritized_buffers():
    plain, prioritized = ReplayBuffer(8, ENV_DICT), PrioritizedReplayBuffer(8, ENV_DICT, alpha=1.0, eps=0.0)
    plain.add(**make_rows(0, 4))
    prioritized.add(**make_rows(4, 1), priorities=[7.0])
    prioritized.load_transitions(saved(plain))
    assert prioritized._get_leaves(range(5)).tolist() == [7.0] * 5
    plain.load_transitions(saved(prioritized))
    assert plain.get_all_transitions()["act"].ravel().tolist() == [3, 1, 2, 3, 4, 0, 1, 2]  # the ninth row wraps around


@pytest.mark.parametrize(("given", "written"), [("run", "run.npz"), ("run.npz", "run.npz"), ("run.np", "run.np.npz")])
@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_every_kind_of_path_is_accepted(tmp_path, given, written, kind):
    buffer = ReplayBuffer(4, ENV_DICT)
    buffer.add(**make_rows(0, 2))
    buffer.save_transitions(kind(tmp_path / given), safe=False)
    assert os.listdir(tmp_path) == [written]
    for name in (given, written):
        assert loaded(kind(tmp_path / name), ReplayBuffer(4, ENV_DICT)).get_stored_size() == 2


def test_a_missing_file_or_folder_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        ReplayBuffer(4, ENV_DICT).load_transitions(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        ReplayBuffer(4, ENV_DICT).save_transitions(tmp_path / "none" / "run")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    buffer = ReplayBuffer(4, ENV_DICT)
    buffer.add(**make_rows(0, 2))
    buffer.save_transitions(tmp_path / "run")
    before = (tmp_path / "run.npz").read_bytes()

    class Broken(ReplayBuffer):
        def _own_state(self):
            return {"late": np.array([object()])}  # NumPy cannot write it without pickle

    broken = Broken(4, ENV_DICT)
    broken.add(**make_rows(5, 3))
    with pytest.raises(TypeError):
        broken.save_transitions(tmp_path / "run")
    assert os.listdir(tmp_path) == ["run.npz"]
    assert (tmp_path / "run.npz").read_bytes() == before
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        buffer.save_transitions(tmp_path / "run")
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_link_remains_a_link_and_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "there.npz").touch()
    (tmp_path / "link.npz").symlink_to(tmp_path / "there.npz")
    (tmp_path / "usual").touch()
    buffer = ReplayBuffer(4, ENV_DICT)
    buffer.save_transitions(tmp_path / "link")
    assert (tmp_path / "link.npz").is_symlink() and (tmp_path / "there.npz").stat().st_size > 0
    assert (tmp_path / "there.npz").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_new_file_keeps_the_permissions_of_the_old_one(tmp_path):
    (tmp_path / "a.npz").touch(mode=0o600)
    ReplayBuffer(4, ENV_DICT).save_transitions(os.fsencode(tmp_path / "a"))  # a path may be bytes
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o600
    assert loaded(os.fsencode(tmp_path / "a"), ReplayBuffer(4, ENV_DICT)).get_stored_size() == 0


def test_a_change_during_a_save_is_an_error(tmp_path):
    class Busy(ReplayBuffer):
        def _own_state(self):
            self.add(**make_rows(50, 1))
            return super()._own_state()

    buffer = Busy(8, ENV_DICT)
    buffer.add(**make_rows(0, 3))
    with pytest.raises(RuntimeError, match="another thread"):
        buffer.save_transitions(tmp_path / "run")
    assert os.listdir(tmp_path) == []


def test_fields_of_objects_are_refused():
    """Otherwise, `get` would return objects for such a field."""

    class WithObjects(ReplayBuffer):
        def get(self, slots):
            return {**super().get(slots), "thing": np.empty(len(slots), dtype=object)}

    with pytest.raises(ValueError, match="thing: Python objects"):
        saved(WithObjects(4, ENV_DICT))


def test_large_buffers_are_written_in_pieces(monkeypatch):
    monkeypatch.setattr(state, "PIECE", 100)
    buffer = ReplayBuffer(50, ENV_DICT)
    buffer.add(**make_rows(0, 77))
    same(buffer.get_all_transitions(), loaded(saved(buffer), ReplayBuffer(50, ENV_DICT)).get_all_transitions())


def test_equal_buffers_make_equal_files():
    one, other = (ReplayBuffer(8, ENV_DICT, seed=1) for _ in range(2))
    for buffer in (one, other):
        buffer.add(**make_rows(0, 5))
    assert saved(one).getvalue() == saved(other).getvalue()


def test_numpy_reads_the_arrays_without_pickle():
    buffer = ReplayBuffer(4, ENV_DICT)
    buffer.add(**make_rows(0, 6))
    file = np.load(saved(buffer), allow_pickle=False)
    assert file["column_1"].ravel().tolist() == [2, 3, 4, 5]


DTYPES = ["f4", "f8", ">f4", "i1", "u8", "?", "c16", "f2", "U3", "S5", "M8[s]", "m8[3ms]", "V6", "g"]
STRUCTURED = [("a", "f4"), ("b", "i8", (2,)), ("ß", "U2")]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_saved_buffer_is_loaded_unchanged(data):
    names = data.draw(st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True))
    fields = {
        name: {
            "dtype": data.draw(st.one_of(st.sampled_from(DTYPES), st.just(STRUCTURED))),
            "shape": data.draw(st.lists(st.integers(1, 3), max_size=3)),
        }
        for name in names
    }
    size, prioritized = data.draw(st.integers(1, 20)), data.draw(st.booleans())
    options = {"alpha": data.draw(st.floats(0, 2)), "eps": data.draw(st.floats(0, 1))} if prioritized else {}
    kind = PrioritizedReplayBuffer if prioritized else ReplayBuffer
    try:
        buffer = kind(size, fields, **options)
    except ValueError:  # the field has such a name as "weights"
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for count in data.draw(st.lists(st.integers(1, 25), max_size=4)):
        rows = {}
        for name, column in buffer.get([]).items():
            shape = (count, *column.shape[1:])
            raw = rng.integers(0, 2, size=count * column.dtype.itemsize * int(np.prod(shape[1:])), dtype=np.uint8)
            rows[name] = raw.view(column.dtype).reshape(shape)
        if prioritized and data.draw(st.booleans()):
            rows["priorities"] = rng.uniform(0, 100, count)
        buffer.add(**rows)
    if data.draw(st.booleans()):
        buffer.on_episode_end()
    resumed = loaded(saved(buffer), kind(size, fields, **options))
    same(buffer.get_all_transitions(), resumed.get_all_transitions())
    assert saved(resumed).getvalue() == saved(buffer).getvalue()
    appended = kind(size + 3, fields, **options)
    for _ in range(2):
        appended.load_transitions(saved(buffer))
    assert appended.get_stored_size() == min(2 * buffer.get_stored_size(), size + 3)
    if buffer.get_stored_size():
        newest = [(each.get_next_index() - 1) % each.get_buffer_size() for each in (appended, buffer)]
        same(appended._encode_sample(newest[:1]), buffer._encode_sample(newest[1:]))
