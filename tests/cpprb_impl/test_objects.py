"""Fields of Python objects."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpprb_impl
from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.layout.layout import Layout

from .test_copies import WAYS

FIELDS = {"x": {"dtype": object}, "number": {"dtype": np.int64}}
KINDS = [ReplayBuffer, PrioritizedReplayBuffer]


class Thing:
    """An object that stores the number of its row."""

    def __init__(self, number):
        self.number = number


def rows(first, count):
    things = np.empty(count, object)
    things[:] = [Thing(n) for n in range(first, first + count)]
    return {"x": things, "number": np.arange(first, first + count)}


def numbers_of(batch):
    """Return the numbers of the rows. Raises AssertionError if an object belongs to a different row."""
    numbers = batch["number"].ravel().tolist()
    assert batch["x"].dtype == object and batch["x"].shape == (len(numbers), 1)
    assert [thing.number for thing in batch["x"].ravel()] == numbers
    return numbers


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(1, 12), st.just("clear")), max_size=15), st.integers(1, 7))
@pytest.mark.parametrize("kind", KINDS)
def test_objects_belong_to_their_rows(kind, calls, size):
    buffer, added, since = kind(size, FIELDS), 0, 0
    for call in calls:
        if call == "clear":
            buffer.clear()
            since = added
        else:
            assert buffer.add(**rows(added, call)) == (added - since) % size
            added += call
        held = list(range(max(since, added - size), added))
        assert sorted(numbers_of(buffer.get_all_transitions())) == held
        if held:
            assert set(numbers_of(buffer.sample(20))) <= set(held)
            assert len(numbers_of(buffer._encode_sample([0] * 3))) == 3
            assert set(numbers_of(buffer.get_all_transitions(shuffle=True))) == set(held)


class Sequence:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        raise RuntimeError("taken apart")

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("taken apart")


@pytest.mark.parametrize("value", [None, "text", b"bytes", {"a": 1}, {1, 2}, 3, 2.5, Thing(1), Sequence(), print])
def test_a_single_object_is_stored_unchanged(value):
    buffer = ReplayBuffer(4, {"x": {"dtype": object}})
    assert buffer.add(x=value) == 0
    assert buffer.sample(1)["x"][0, 0] is value
    assert buffer._encode_sample([0])["x"][0, 0] is value


@pytest.mark.parametrize(
    ("shape", "value", "stored"),
    [
        (1, [None, "a"], [[None], ["a"]]),
        (1, [[None], ["a"]], [[None], ["a"]]),
        (1, ["a"], [["a"]]),
        (1, np.arange(2), [[0], [1]]),
        (1, [[1, 2], [3]], [[[1, 2]], [[3]]]),  # lists of different lengths are the objects themselves
        (2, ["a", "b"], [["a", "b"]]),
        (2, ("a", "b", "c", "d"), [["a", "b"], ["c", "d"]]),
        (2, [["a", "b"], ["c", "d"]], [["a", "b"], ["c", "d"]]),
        ((2, 1), [["a"], ["b"]], [[["a"], ["b"]]]),
    ],
)
def test_lists_and_arrays_are_rows(shape, value, stored):
    buffer = ReplayBuffer(4, {"x": {"dtype": object, "shape": shape}})
    buffer.add(x=value)
    assert buffer.get_all_transitions()["x"].tolist() == stored


def test_objects_are_stored_as_in_cpprb():
    cpprb = pytest.importorskip("cpprb")
    answers = []
    for module in (cpprb, cpprb_impl):
        buffer = module.ReplayBuffer(3, {"x": {"dtype": object, "shape": 2}, "number": {}})
        for i in range(4):
            buffer.add(x=[f"a{i}", None], number=i)
        buffer.add(x=[["b", 1], ["c", {}]], number=[4, 5])
        answers.append({name: column.tolist() for name, column in buffer.get_all_transitions().items()})
        assert buffer.sample(2)["x"].dtype == object
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_overwritten_and_cleared_rows_are_released(kind):
    buffer, things = kind(2, FIELDS), [Thing(n) for n in range(4)]
    seen = [weakref.ref(thing) for thing in things]
    for number in range(4):
        buffer.add(x=things[number], number=number)
    del things
    gc.collect()
    assert [ref() is None for ref in seen] == [True, True, False, False]
    buffer.clear()
    gc.collect()
    assert all(ref() is None for ref in seen)
    buffer.add(**rows(0, 1))
    held = weakref.ref(buffer.sample(1)["x"][0, 0])
    del buffer
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"number": [1, 2, 3]}, ValueError, "number"),
        ({"number": "many"}, ValueError, "number"),
        ({"x": np.empty((2, 3), object)}, ValueError, "6"),
        ({"x": []}, ValueError, "x"),
    ],
)
def test_a_failed_add_changes_nothing(kind, change, error, text):
    buffer = kind(3, FIELDS)
    buffer.add(**rows(0, 3))
    with pytest.raises(error, match=text):
        buffer.add(**{**rows(3, 2), **change})
    with pytest.raises(KeyError, match="x"):
        buffer.add(number=1)
    with pytest.raises(KeyError, match="number"):
        buffer.add(x=1)
    assert numbers_of(buffer.get_all_transitions()) == [0, 1, 2]
    buffer.add(**rows(3, 1))
    assert numbers_of(buffer.get_all_transitions()) == [3, 1, 2]


@pytest.mark.parametrize("shape", [(2, 2), 3])
def test_a_shape_that_does_not_fit_names_the_field(shape):
    buffer = ReplayBuffer(3, {"x": {"dtype": object, "shape": shape}})
    for value in (np.empty((2, 5), object), np.empty((4, 2), object), "one"):
        with pytest.raises(ValueError, match="x"):
            buffer.add(x=value)
    assert buffer.get_stored_size() == 0


def test_arrays_that_numpy_cannot_combine_are_refused_and_named_in_the_error():
    with pytest.raises(ValueError, match="x: could not broadcast"):
        ReplayBuffer(4, {"x": {"dtype": object}}).add(x=[np.zeros((2, 2)), np.zeros((2, 3))])


def test_objects_are_drawn_by_priority():
    buffer = PrioritizedReplayBuffer(8, FIELDS, alpha=1.0, eps=0.0, seed=0)
    buffer.add(**rows(0, 2), priorities=[1, 3])
    buffer.add(**rows(2, 1))  # gets the largest priority, 3
    for bad in ([1.0], [1, np.nan], [[1], [2, 3]]):
        with pytest.raises(ValueError, match="priorities"):
            buffer.add(**rows(3, 2), priorities=bad)
    batch = buffer.sample(200, beta=1.0)
    assert set(numbers_of(batch)) == {0, 1, 2}
    wanted = np.where(batch["number"].ravel() == 0, 1, 1 / 3)
    assert batch["weights"] == pytest.approx(wanted)
    buffer.update_priorities(batch["indexes"], np.full(200, 5.0))
    assert buffer.get_max_priority() == 5


@pytest.mark.parametrize("kind", KINDS)
def test_n_step_rows_may_contain_objects(kind):
    fields = {"x": {"dtype": object}, "next_x": {"dtype": object}, "rew": {}, "done": {}}
    buffer = kind(9, fields, Nstep={"size": 2, "rew": "rew", "gamma": 0.5, "next": "next_x"})
    buffer.add(x=["a", "b", "c", "d"], next_x=["b", "c", "d", "e"], rew=[1, 2, 4, 8], done=[0, 1, 0, 0])
    buffer.on_episode_end()
    stored = buffer.get_all_transitions()
    assert stored["x"].ravel().tolist() == ["a", "b", "c", "d"]
    assert stored["next_x"].ravel().tolist() == ["c", "c", "e", "e"]
    assert stored["rew"].ravel().tolist() == [2, 2, 8, 8]
    with pytest.raises(TypeError, match="'x'"):
        kind(9, fields, Nstep={"size": 2, "rew": "x"})


def test_next_of_applies_to_objects():
    buffer = ReplayBuffer(9, FIELDS, next_of="x")
    buffer.add(**rows(0, 2), next_x=["a", "b"])
    assert buffer.get_all_transitions()["next_x"].tolist() == [["a"], ["b"]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_before", [0, 2, 3, 8])
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_has_its_own_references(kind, rows_before, way):
    buffer = kind(3, FIELDS, seed=1)
    for number in range(rows_before):
        buffer.add(x={"a": [number]}, number=number)
    other = WAYS[way](buffer)
    assert other.get_all_transitions()["x"].tolist() == buffer.get_all_transitions()["x"].tolist()
    other.add(x="other's", number=90)
    buffer.add(x="one's", number=80)
    buffer.add(x="one's too", number=81)
    for each, mine in ((buffer, {80: "one's", 81: "one's too"}), (other, {90: "other's"})):
        rows = each.get_all_transitions()
        for number, thing in zip(rows["number"].ravel().tolist(), rows["x"].ravel().tolist(), strict=True):
            assert thing == mine.get(number, {"a": [number]})


def test_options_for_fields_of_bytes_are_refused_for_objects():
    with pytest.raises(ValueError, match=r"stack_compress.*'x'"):
        ReplayBuffer(4, FIELDS, stack_compress="x")
    with pytest.raises(ValueError, match=r"mmap_prefix.*x"):
        ReplayBuffer(4, FIELDS, mmap_prefix="never_made")
    buffer = ReplayBuffer(4, FIELDS)
    buffer.add(**rows(0, 2))
    with pytest.raises(TypeError, match="out"):
        buffer.sample(2, out={})


@pytest.mark.parametrize("kind", KINDS)
def test_files_contain_no_objects(kind, tmp_path):
    buffer = kind(4, FIELDS)
    buffer.add(**rows(0, 2))
    with pytest.raises(ValueError, match="x"):
        buffer.save_transitions(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    plain = kind(4, {"x": {"dtype": np.int64}, "number": {"dtype": np.int64}})
    plain.add(x=[0, 1], number=[0, 1])
    plain.save_transitions(tmp_path / "file")
    with pytest.raises(ValueError, match="x"):
        buffer.load_transitions(tmp_path / "file")
    assert numbers_of(buffer.get_all_transitions()) == [0, 1]


def test_next_of_fields_are_still_shared_in_buffers_with_objects():
    buffer = ReplayBuffer(9, {**FIELDS, "obs": {"shape": 2}}, next_of=("obs", "x"))
    obs = np.arange(12.0).reshape(6, 2)
    buffer.add(**rows(0, 5), obs=obs[:5], next_obs=obs[1:], next_x=list("abcde"))
    stored = buffer.get_all_transitions()
    assert numbers_of(stored) == [0, 1, 2, 3, 4]
    assert np.array_equal(stored["next_obs"], obs[1:]) and stored["next_x"].ravel().tolist() == list("abcde")
    with pytest.raises(KeyError, match="next_obs"):
        buffer.add(**rows(5, 1), obs=obs[:1], next_x="f")


def test_other_kinds_of_buffer_store_objects():
    assert cpprb_impl.create_buffer(4, FIELDS, prioritized=True).add(**rows(0, 1)) == 0
    reverse = cpprb_impl.ReverseReplayBuffer(4, FIELDS, stride=1)
    reverse.add(**rows(0, 3))
    assert numbers_of(reverse.sample(2)) == [2, 1]
    assert ReplayBuffer(4, {"x": {}}, default_dtype=object).add(x=Thing(0)) == 0


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
def test_shared_buffers_refuse_objects(kind):
    with pytest.raises(TypeError, match=r"x.*Python objects"):
        kind(4, FIELDS)


@pytest.mark.parametrize("shape", [0, (2, 0), -1])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"x.*positive"):
        ReplayBuffer(4, {"x": {"dtype": object, "shape": shape}})


def test_reading_a_value_may_add_to_the_same_buffer():
    buffer = ReplayBuffer(9, FIELDS)

    class Nested:
        def __array__(self, dtype=None, copy=None):
            buffer.add(**rows(0, 2))
            return np.array([2])

    buffer.add(x=Thing(2), number=Nested())
    assert numbers_of(buffer.get_all_transitions()) == [0, 1, 2]


def test_rows_overwritten_by_another_thread_are_not_returned():
    """Otherwise, an interrupted sample would return old numbers with new objects."""
    buffer = ReplayBuffer(2, FIELDS)
    buffer.add(**rows(0, 2))
    taken = {"x": np.array([[0], [1]]), "number": np.array([[0], [1]])}
    assert numbers_of(buffer._batch_through(dict(taken))) == [0, 1]
    buffer.add(**rows(2, 1))
    with pytest.raises(RuntimeError, match="x"):
        buffer._batch_through(dict(taken))
    buffer.clear()
    with pytest.raises(RuntimeError, match="x"):
        buffer._batch_through(dict(taken))


def test_threads_that_add_keep_objects_and_rows_together():
    buffer = ReplayBuffer(10_000, FIELDS)

    def add(first):
        for number in range(first, first + 500):
            buffer.add(x=Thing(number), number=number)

    threads = [threading.Thread(target=add, args=(500 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(2000))


def overwrite(buffer):
    for number in range(2, 7):
        buffer.add(**rows(number, 1))


@pytest.mark.parametrize("let_go", [overwrite, ReplayBuffer.clear])
def test_objects_may_add_rows_when_they_are_released(let_go):
    """Each object still belongs to its row."""
    buffer = ReplayBuffer(4, FIELDS)

    class Leaving(Thing):
        def __del__(self):
            buffer.add(**rows(10 + self.number, 1))

    things = np.empty(2, object)
    things[:] = [Leaving(0), Leaving(1)]
    buffer.add(x=things, number=[0, 1])
    del things
    let_go(buffer)
    assert {10, 11} <= set(numbers_of(buffer.get_all_transitions()))


def test_no_row_is_added_during_clear(monkeypatch):
    """Otherwise, a row without its object could not be sampled until overwritten."""
    buffer = ReplayBuffer(4, FIELDS)
    clear = buffer._transform.columns.clear

    def clear_later(*ring):
        thread = threading.Thread(target=lambda: buffer.add(**rows(0, 1)))
        thread.start()
        thread.join()
        clear(*ring)

    monkeypatch.setattr(buffer._transform.columns, "clear", clear_later)
    buffer.clear()
    assert numbers_of(buffer.get_all_transitions()) == []


@pytest.mark.parametrize("end", [ReplayBuffer.on_episode_end, ReplayBuffer.clear])
def test_an_episode_may_end_while_another_thread_reads_its_next_steps(end):
    """Steps that the other thread has read but not yet stored enter the window once."""
    fields = {**FIELDS, "done": {}}
    buffer = ReplayBuffer(99, fields, Nstep={"size": 3})

    class Interrupted(type(buffer._transform.reader._ring)):
        def get_current_episode_len(self):
            thread = threading.Thread(target=lambda: end(buffer))
            thread.start()
            thread.join()
            return super().get_current_episode_len()

    buffer.add(**rows(0, 2), done=[0, 0])
    reader = buffer._transform.reader
    reader._ring = Interrupted(Layout(9, reader._fields, {}, prioritized=False))
    buffer.add(**rows(2, 3), done=[0, 0, 0])
    reader._ring = reader._make(9)
    buffer.on_episode_end()
    assert numbers_of(buffer.get_all_transitions())[-3:] == [2, 3, 4]
