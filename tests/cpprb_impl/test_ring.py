"""The ring of every kind of buffer: rows are returned as added, with the shapes that cpprb returns."""

from __future__ import annotations

import gc
import multiprocessing
import sys

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT, make_rows, numbers_of, stored_numbers, torn_rows


def test_a_torn_row_is_detected():
    rows = make_rows(0, 10)
    rows["next_obs"][3, 2] = 99
    assert torn_rows(rows).tolist() == [i == 3 for i in range(10)]


def test_rows_added_one_by_one_wrap_around(make):
    buffer = make(8)
    for i in range(20):
        row = {name: column[0] for name, column in make_rows(i, 1).items()}
        assert buffer.add(**row) == i % 8
        assert buffer.get_stored_size() == min(i + 1, 8)
        assert buffer.get_next_index() == (i + 1) % 8
    assert stored_numbers(buffer) == list(range(12, 20))
    assert buffer.get_buffer_size() == 8


@pytest.mark.parametrize("count", [1, 3, 8, 9, 16, 21])
def test_an_add_of_many_rows_keeps_the_newest(make, count):
    """cpprb raises IndexError for more rows than twice the capacity."""
    buffer = make(8)
    added = 0
    for _ in range(4):
        assert buffer.add(**make_rows(added, count)) == added % 8
        added += count
        assert stored_numbers(buffer) == list(range(max(0, added - 8), added))
        assert buffer.get_next_index() == added % 8


def test_transitions_are_returned_in_index_order(make):
    buffer = make(4)
    buffer.add(**make_rows(0, 6))
    assert numbers_of(buffer.get_all_transitions()).tolist() == [4, 5, 2, 3]
    assert sorted(numbers_of(buffer.get_all_transitions(shuffle=True))) == [2, 3, 4, 5]


def test_batches_have_the_shapes_and_types_of_the_fields(make):
    buffer = make(10)
    buffer.add(**make_rows(0, 5))
    batch = buffer.sample(32)
    shapes = {name: (batch[name].shape, batch[name].dtype) for name in ENV_DICT}
    assert shapes == {
        "obs": ((32, 4), np.float32),
        "act": ((32, 1), np.int64),
        "rew": ((32, 1), np.float32),
        "next_obs": ((32, 4), np.float32),
        "done": ((32, 1), np.bool_),
    }
    assert set(numbers_of(batch)) <= set(range(5))
    assert buffer.sample(0)["obs"].shape == (0, 4)


def test_batches_are_copies(make):
    buffer = make(10)
    rows = make_rows(0, 5)
    buffer.add(**rows)
    rows["obs"][:] = 77
    batch = buffer.sample(8)
    batch["obs"][:] = 88
    assert stored_numbers(buffer) == list(range(5))


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
     "longdouble", "complex64", "complex128", "clongdouble", ">f4", "<i2", "M8[s]", "S5", "U3"],
)  # fmt: skip
def test_every_plain_dtype_round_trips(dtype):
    buffer = ReplayBuffer(16, {"x": {"shape": (2, 3), "dtype": dtype}, "odd": {"dtype": "i1"}})
    values = np.arange(30).reshape(5, 2, 3).astype(dtype)
    buffer.add(x=values, odd=np.arange(5))
    back = buffer.get_all_transitions()["x"]
    assert back.dtype == np.dtype(dtype)
    assert np.array_equal(back, values)


@pytest.mark.parametrize("value", [1, 1.0, True, np.float64(1), np.int8(1), np.bool_(True), [1], (1,), np.array(1)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "int64", "float32", "float64", "float16"])
def test_scalars_of_every_kind_are_stored(value, dtype):
    buffer = ReplayBuffer(4, {"x": {"dtype": dtype}})
    buffer.add(x=value)
    assert buffer.sample(1)["x"].tolist() == [[1]]


def test_a_row_several_rows_and_flat_data_are_stored(make):
    buffer = make(100, {"obs": {"shape": (2, 3)}})
    for value, rows in [
        (np.zeros((2, 3)), 1),
        (np.zeros((1, 2, 3)), 1),
        (np.zeros(6), 1),
        (np.zeros((5, 2, 3)), 5),
        (np.zeros(12), 2),
        (np.zeros((4, 6)), 4),
        (np.zeros((2, 2, 2, 3)), 4),
        (np.zeros((3, 2, 4))[:, :, :3], 3),  # not contiguous
        (np.zeros((2, 3), order="F"), 1),
        ([[[1, 2, 3], [4, 5, 6]]], 1),
    ]:
        before = buffer.get_stored_size()
        buffer.add(obs=value)
        assert buffer.get_stored_size() - before == rows


def test_unknown_names_are_ignored(make):
    buffer = make(4)
    buffer.add(**make_rows(0, 1), info="whatever")
    assert stored_numbers(buffer) == [0]


def test_an_array_method_may_use_the_buffer(make):
    buffer = make(8, {"a": {}, "b": {}})

    class Nested:
        def __array__(self, dtype=None, copy=None):
            buffer.add(a=1, b=2)
            return np.array([5.0])

    buffer.add(a=Nested(), b=Nested())
    assert buffer.get_all_transitions()["a"].ravel().tolist() == [1, 1, 5]


def test_an_empty_buffer_refuses_to_sample(make):
    buffer = make(4)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    assert buffer.get_all_transitions()["obs"].shape == (0, 4)
    assert buffer.get_stored_size() == buffer.get_next_index() == 0


def test_clear_resets_rows_and_episodes(make):
    buffer = make(8)
    buffer.add(**make_rows(0, 5))
    buffer.add(**make_rows(5, 2))
    assert buffer.get_current_episode_len() == 7
    buffer.on_episode_end()
    assert buffer.get_current_episode_len() == 0
    buffer.add(**make_rows(7, 4))
    buffer.clear()
    assert (buffer.get_stored_size(), buffer.get_next_index(), buffer.get_current_episode_len()) == (0, 0, 0)
    buffer.add(**make_rows(50, 3))
    assert stored_numbers(buffer) == [50, 51, 52]
    assert not buffer.is_Nstep()


def test_encode_sample_returns_the_rows_at_any_indexes():
    buffer = ReplayBuffer(8, ENV_DICT)
    buffer.add(**make_rows(0, 5))
    for indexes in ([3, 0, 3], np.array([3, 0, 3], dtype=np.uint64)):
        assert numbers_of(buffer._encode_sample(indexes)).tolist() == [3, 0, 3]
    assert numbers_of(buffer._encode_sample(range(1, 3))).tolist() == [1, 2]
    for one in (2, np.int64(2), np.array(2)):
        assert buffer._encode_sample(one)["obs"].tolist() == [[2, 2, 2, 2]]  # a batch of one, as in cpprb
    for bad in (5, -1, 8, [0, 99]):
        with pytest.raises(IndexError, match="indexes"):
            buffer._encode_sample(bad)
    for bad in (
        [1, 5],
        [1, -1],
        [1, -9],
        [1, 1000],
        np.array([1, 2**63], np.uint64),
        np.array([1, 2**64 - 5], np.uint64),
    ):
        with pytest.raises(IndexError, match=rf"indexes\[1\] is {bad[1]}, where no transition is stored"):
            buffer._encode_sample(bad)  # 2^64 - 5 would be row 3 if it were read as negative
    for bad in (1.0, [1.5], "1", None, [True, False], True, slice(2)):
        with pytest.raises(IndexError, match="idx must be ints, or 8 bools"):
            buffer._encode_sample(bad)


def test_sizes_may_be_floats(make):
    assert make(10.7).get_buffer_size() == 10
    assert make(1e3).get_buffer_size() == 1000


def test_a_closed_buffer_refuses_calls(make):
    buffer = make(4)
    buffer.add(**make_rows(0, 1))
    buffer.close()
    buffer.close()
    for use in (lambda: buffer.add(**make_rows(0, 1)), lambda: buffer.sample(1), buffer.get_stored_size):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_uniform_draws_are_equally_frequent(make):
    buffer = make(100, {"x": {"dtype": np.int32}}, seed=7)
    buffer.add(x=np.arange(150))
    if isinstance(buffer, PrioritizedReplayBuffer):
        counts = np.bincount(np.concatenate([buffer.sample(1000, beta=0)["x"].ravel() for _ in range(300)]) - 50)
        assert counts.size == 100 and counts.std() < 10  # stratified, so much more even than by chance
        return
    counts = np.bincount(buffer.sample(300_000)["x"].ravel() - 50, minlength=100)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_a_seed_makes_sampling_reproducible(make):
    """cpprb draws from NumPy's global generator or, with priorities, from a generator that cannot be seeded."""
    draws = []
    for seed in (3, 3, 4, None, None):
        buffer = make(1000, {"x": {"dtype": np.int64}}, seed=seed)
        buffer.add(x=np.arange(1000))
        draws.append(buffer.sample(50)["x"].ravel().tolist())
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws}) == 4


def test_forked_children_draw_differently(make):
    """In cpprb, forked children draw identical rows."""
    buffer = make(10_000, {"x": {"dtype": np.int64}}, seed=1)
    buffer.add(x=np.arange(10_000))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    children = [context.Process(target=lambda: queue.put(buffer.sample(8)["x"].ravel().tolist())) for _ in range(2)]
    for child in children:
        child.start()
    draws = [queue.get() for _ in children] + [buffer.sample(8)["x"].ravel().tolist()]
    for child in children:
        child.join()
    assert len({tuple(draw) for draw in draws}) == 3


def test_no_reference_is_lost_or_leaked():
    """Compares the reference counts of everything that add() and sample() touch."""
    buffer = PrioritizedReplayBuffer(64, ENV_DICT)
    rows, row = make_rows(0, 10), {name: column[0] for name, column in make_rows(0, 1).items()}
    priorities, bad = np.ones(10), np.zeros((3, 5))
    watched = [*rows.values(), *row.values(), priorities, bad, np.dtype(np.float32), np.dtype(bool)]

    def work():
        buffer.add(**rows, priorities=priorities)
        buffer.add(**row)
        batch = buffer.sample(16)
        buffer.update_priorities(batch["indexes"], np.ones(16))
        buffer.get_all_transitions()
        with pytest.raises(ValueError, match="obs"):
            buffer.add(**{**rows, "obs": bad})
        with pytest.raises(KeyError):
            buffer.add(obs=1)

    work()
    gc.collect()
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(200):
        work()
    gc.collect()
    after = [sys.getrefcount(item) for item in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 20


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_a_ring_larger_than_the_caches_stores_every_byte(kind) -> None:
    """Large values bypass the caches, in whole cache lines plus the bytes before and after them."""
    sizes = {"line": 4096, "odd": 4099, "image": 7056, "small": 3}
    capacity = (40 << 20) // sum(sizes.values())
    buffer = kind(capacity, {name: {"shape": size, "dtype": np.uint8} for name, size in sizes.items()})
    assert buffer.nbytes > 32 << 20
    content = np.random.default_rng(0).integers(0, 256, 2 * capacity + 8000, np.uint8)
    rows = 0

    def add(count: int) -> None:
        nonlocal rows
        starts = np.arange(rows, rows + count)[:, None]
        values = {name: content[starts + np.arange(size)] for name, size in sizes.items()}
        buffer.add(**{name: value[0] if count == 1 else value for name, value in values.items()})
        rows += count

    for count in (1, capacity - 2, 1, 100, 1, 7):  # the batch of 100 wraps around
        add(count)
    found = buffer.get_all_transitions()
    slots = np.arange(capacity)
    newest = slots + capacity * ((rows - 1 - slots) // capacity)  # the number of the newest row in each slot
    for name, size in sizes.items():
        assert np.array_equal(found[name], content[newest[:, None] + np.arange(size)]), name
