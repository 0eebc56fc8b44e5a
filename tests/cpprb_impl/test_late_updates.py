"""Late updates must not change rows that replaced the sampled ones.

Samples may have identical indexes, and an update may cover part of a batch.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, PrioritizedReplayBuffer

Buffer = MPPrioritizedReplayBuffer | PrioritizedReplayBuffer
Form = Callable[[np.ndarray], object]


class Tensor:
    """A tensor of another library, which shares the array's memory but keeps no reference to the array."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory = memoryview(array)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.memory, dtype)


def torch_tensor(array: np.ndarray) -> object:
    return pytest.importorskip("torch").from_numpy(array)


def read_only(array: np.ndarray) -> np.ndarray:
    view = array[:]
    view.flags.writeable = False
    return view


IN_ITS_MEMORY = {
    "itself": lambda array: array,
    "view": lambda array: array[:],
    "reshaped": lambda array: array.reshape(-1, 1),
    "read-only": read_only,
    "tensor": Tensor,
    "torch": torch_tensor,
}
COPIED = {
    "copy": np.copy,
    "list": np.ndarray.tolist,
    "int32": lambda array: array.astype(np.int32),
    "uint64": lambda array: array.astype(np.uint64),
    "float": lambda array: array.astype(np.float64),
    "pickled": lambda array: pickle.loads(pickle.dumps(array)),
}


def forms(of: dict[str, Form]):
    return pytest.mark.parametrize("form", of.values(), ids=of)


@pytest.fixture(params=[MPPrioritizedReplayBuffer, PrioritizedReplayBuffer])
def make(request) -> Iterator[Callable[..., Buffer]]:
    """Make buffers that protect the rows of outstanding samples, as shared buffers always do."""
    made: list[Buffer] = []

    def make(capacity: int, **options) -> Buffer:
        fields = {"x": {}, "rew": {}, "done": {}} if "Nstep" in options else {"x": {}}
        made.append(request.param(capacity, fields, alpha=1.0, eps=0.0, check_for_update=True, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def buffer(make) -> Buffer:
    """Return a buffer of a single row, so that all samples have the same indexes."""
    return make(1)


def sample_of_a_new_row(buffer: Buffer, **options) -> dict[str, np.ndarray]:
    buffer.add(x=0.0)
    return buffer.sample(1, **options)


def out() -> dict[str, np.ndarray]:
    return {"x": np.zeros((1, 1), "f"), "weights": np.zeros(1, "f"), "indexes": np.zeros(1, np.int64)}


@pytest.mark.parametrize("into", [dict, out], ids=["new", "out"])
@forms(IN_ITS_MEMORY)
def test_an_array_belongs_to_the_sample_that_filled_it(buffer, form, into):
    older, newer = (sample_of_a_new_row(buffer, out=into() or None) for _ in range(2))
    buffer.update_priorities(form(older["indexes"]), 5.0)
    assert buffer.get_max_priority() == 1.0
    buffer.update_priorities(form(newer["indexes"]), 3.0)
    assert buffer.get_max_priority() == 3.0


def test_an_update_with_one_of_many_batches_changes_only_its_own_rows(buffer):
    """Only the newest row is still stored, and only its own sample changes it, however often it was drawn."""
    older = [sample_of_a_new_row(buffer) for _ in range(8)]
    newer = [sample_of_a_new_row(buffer), *(buffer.sample(1) for _ in range(7))]
    for batch in older:
        buffer.update_priorities(batch["indexes"], 99.0)
        assert buffer.get_max_priority() == 1.0
    for priority, batch in enumerate(newer, start=2):
        buffer.update_priorities(batch["indexes"], priority)
        assert buffer.get_max_priority() == priority


@forms(IN_ITS_MEMORY)
def test_a_refilled_array_belongs_to_the_newest_sample(buffer, form):
    given = out()
    for priority in (2.0, 3.0, 4.0):
        sample_of_a_new_row(buffer, out=given)
        buffer.update_priorities(form(given["indexes"]), priority)
        assert buffer.get_max_priority() == priority


@forms(COPIED)
def test_a_copy_changes_only_what_all_such_samples_agree_on(buffer, form):
    older, newer = (form(sample_of_a_new_row(buffer)["indexes"]) for _ in range(2))
    for of_either in (older, newer):
        buffer.update_priorities(of_either, 5.0)
        assert buffer.get_max_priority() == 1.0
    for _ in range(15):  # until the older sample is forgotten
        buffer.sample(1)
    buffer.update_priorities(newer, 3.0)
    assert buffer.get_max_priority() == 3.0


@forms(COPIED)
def test_a_copy_changes_the_rows_on_which_samples_agree_in_part(form, make):
    """Two equal rows are drawn once each. Then the first row is overwritten."""
    buffer = make(2)
    buffer.add(x=np.zeros(2))
    older = form(buffer.sample(2)["indexes"])
    buffer.add(x=1.0)
    assert buffer.sample(2)["indexes"].tolist() == [0, 1]
    buffer.update_priorities(older, [8.0, 4.0])
    assert buffer.get_max_priority() == 4.0


@pytest.mark.parametrize("later", [0, 1, 5, 15])
@forms(IN_ITS_MEMORY | COPIED)
def test_the_16_newest_samples_never_reach_the_rows_that_replaced_theirs(later, form, make):
    buffer = make(64)
    buffer.add(x=np.arange(64))
    indexes = buffer.sample(4)["indexes"]
    buffer.add(x=np.arange(100, 164))
    for _ in range(later):
        buffer.sample(4)
    buffer.update_priorities(form(indexes), np.full(4, 1e3))
    assert buffer.get_max_priority() == 1.0


@forms(IN_ITS_MEMORY | COPIED)
def test_the_16_newest_samples_reach_their_rows_if_these_are_still_stored(form, make):
    buffer = make(64)
    buffer.add(x=np.arange(40))
    indexes = buffer.sample(4)["indexes"]
    buffer.add(x=np.arange(20))
    for _ in range(15):
        buffer.sample(4)
    buffer.update_priorities(form(indexes), np.full(4, 1e3))
    batch = buffer.sample(2000, beta=1.0)
    assert set(batch["indexes"][batch["weights"] < 0.01]) == set(indexes)


PARTS: dict[str, Callable[..., list[np.ndarray]]] = {
    "minibatches": lambda one, two: [one[:4], one[4:], two[:1], two[1:]],
    "filtered": lambda one, two: [one[one % 3 != 0], two[two % 2 == 0]],
    "unique": lambda one, two: [np.unique(one), np.unique(two)],
    "shuffled": lambda one, two: [np.random.default_rng(0).permutation(each) for each in (one, two)],
    "repeated": lambda one, two: [np.repeat(one, 2), np.repeat(two, 3)],
    "both": lambda one, two: [np.concatenate([one, two])],
    "both as a list": lambda one, two: [[*one.tolist(), *two.tolist()]],
}


@pytest.mark.parametrize("replaced", [0, 10, 40, 64])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_part_of_a_late_batch_changes_only_the_rows_it_drew(parts, steps, replaced, make):
    """A learner that draws ahead may update minibatches, or only rows whose errors are finite."""
    options = {"Nstep": {"size": 3, "rew": "rew"}} if steps > 1 else {}
    buffer = make(64, seed=1, **options)

    def add(first: int, rows: int) -> None:
        numbers = np.arange(first, first + rows)
        buffer.add(x=numbers, **({"rew": np.zeros(rows), "done": np.zeros(rows)} if options else {}))

    add(0, 64 + steps - 1)
    batches = [buffer.sample(8) for _ in range(2)]
    if replaced:
        add(1000, replaced)
    batches.append(buffer.sample(8))
    drawn = [pair for batch in batches for pair in zip(batch["indexes"], batch["x"].ravel(), strict=True)]
    stored = buffer.get([*range(64)])["x"].ravel()
    given = parts(*(batch["indexes"] for batch in batches[:2]))
    for indexes in given:
        buffer.update_priorities(indexes, np.full(len(indexes), 1e3))
    in_parts = {int(index) for indexes in given for index in indexes}
    expected = [
        1e3 if slot in in_parts and all(row == stored[slot] for other, row in drawn if other == slot) else 1.0
        for slot in range(64)
    ]
    assert buffer._get_leaves(range(64)).tolist() == pytest.approx(expected, rel=1e-5)
    assert (replaced == 64) == (1e3 not in expected)


def test_a_view_of_sampled_indexes_identifies_their_sample_and_a_copy_does_not(make):
    """Another sample drew other rows from these slots, so a copy would change nothing."""
    buffer = make(4, seed=1)
    buffer.add(x=np.zeros(4))
    older = buffer.sample(4)["indexes"]
    buffer.add(x=np.ones(4))
    newer = buffer.sample(4)["indexes"]
    for indexes in (older[:3], newer[:3].copy()):
        buffer.update_priorities(indexes, 5.0)
        assert buffer.get_max_priority() == 1.0
    buffer.update_priorities(newer[:3], 5.0)
    assert buffer.get_max_priority() == 5.0


def test_a_changed_array_no_longer_belongs_to_its_sample(make):
    buffer = make(2)
    buffer.add(x=np.zeros(2))
    indexes = buffer.sample(2)["indexes"]
    indexes[:] = indexes[::-1].copy()
    buffer.update_priorities(indexes, [4.0, 1.0])  # the original indexes of the last sample
    batch = buffer.sample(500, beta=1.0)
    assert dict(zip(batch["indexes"].tolist(), batch["weights"].tolist(), strict=True)) == {0: 1.0, 1: 0.25}


def test_recycled_arrays_belong_to_the_newer_sample(buffer):
    older = sample_of_a_new_row(buffer)["indexes"]
    copy, place = older.copy(), older.ctypes.data
    del older
    newer = sample_of_a_new_row(buffer)["indexes"]
    assert newer.ctypes.data == place
    buffer.update_priorities(copy, 5.0)
    assert buffer.get_max_priority() == 1.0
    buffer.update_priorities(newer, 3.0)
    assert buffer.get_max_priority() == 3.0


def test_copies_in_the_memory_of_freed_arrays_change_nothing(buffer):
    older = sample_of_a_new_row(buffer)["indexes"]
    newer = [sample_of_a_new_row(buffer) for _ in range(14)]
    places = {batch["indexes"].ctypes.data for batch in newer}
    del newer
    buffer.sample(1)
    copies = [older.copy() for _ in range(200)]
    assert places & {copy.ctypes.data for copy in copies}
    for copy in copies:
        buffer.update_priorities(copy, 5.0)
    assert buffer.get_max_priority() == 1.0


def test_copies_in_the_memory_of_a_freed_array_of_out_change_nothing(buffer):
    older = sample_of_a_new_row(buffer)["indexes"]
    memory = bytearray(8)
    given = {**out(), "indexes": np.frombuffer(memory, np.int64)}
    sample_of_a_new_row(buffer, out=given)
    del given
    copy = np.frombuffer(memory, np.int64)
    copy[:] = older
    buffer.update_priorities(copy, 5.0)
    assert buffer.get_max_priority() == 1.0


def test_an_earlier_batch_passed_as_out_belongs_to_the_newer_sample(buffer):
    batch = sample_of_a_new_row(buffer)
    sample_of_a_new_row(buffer, out=batch)
    buffer.update_priorities(batch["indexes"], 3.0)
    assert buffer.get_max_priority() == 3.0


@pytest.mark.parametrize(("capacity", "size"), [(2, 1), (2, 2), (3, 2)])
def test_no_row_ever_receives_the_priority_of_another(capacity, size, make):
    """Updates are made in any order, up to 14 samples late."""

    def own(row: np.ndarray) -> np.ndarray:
        return 1 + row * 7 % 13

    random = np.random.default_rng(capacity)
    buffer = make(capacity, seed=1)
    held, outs = deque(maxlen=15), deque((out_of(size) for _ in range(16)), maxlen=16)
    number = 0
    every_form = [*(form for name, form in IN_ITS_MEMORY.items() if name != "torch"), *COPIED.values()]
    for _ in range(3000):
        if number < capacity or random.random() < 0.4:
            buffer.add(x=number, priorities=own(number))
            number += 1
        outs.rotate()
        batch = buffer.sample(size, beta=1.0, out=outs[0] if random.random() < 0.3 else None)
        rows = batch["x"].ravel()
        stored = buffer.get_all_transitions()["x"]
        assert batch["weights"] == pytest.approx(own(stored).min() / own(rows), rel=1e-5)
        held.append((batch["indexes"], rows.copy()))
        for _ in range(2):
            indexes, rows = held[random.integers(len(held))]
            buffer.update_priorities(every_form[random.integers(len(every_form))](indexes), own(rows))


def out_of(size: int) -> dict[str, np.ndarray]:
    return {name: np.zeros((size, *column.shape[1:]), column.dtype) for name, column in out().items()}
