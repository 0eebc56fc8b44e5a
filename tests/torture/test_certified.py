"""Each check finds the single fault in constructed input, and none in sound input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from .certified import (
    FRAMED,
    NARROW,
    WIDE,
    Findings,
    as_rows,
    broken,
    changed_priorities,
    ids,
    look_at_all,
    look_at_sequences,
    priorities,
    read,
    rows,
    stale_priorities,
)

BEGUN = np.array([0, 0, 0, 200])  # writer 3 has begun 200 rows


def batch(width: int = NARROW, first: int = 1, count: int = 100) -> dict[str, np.ndarray]:
    """Return a batch as a buffer would."""
    made = rows(ids(3, first, count), width)
    return {name: column.copy() if column.ndim > 1 else column[:, None].copy() for name, column in made.items()}


def faults(columns: dict[str, np.ndarray], begun: np.ndarray = BEGUN) -> dict[str, int]:
    found = Findings()
    read(columns, begun, found)
    assert found.rows == len(columns["id"])
    return found.faults()


@pytest.mark.parametrize("width", [NARROW, WIDE, FRAMED])
def test_intact_rows_pass(width):
    assert faults(batch(width)) == {}


@pytest.mark.parametrize("width", [NARROW, WIDE, FRAMED])
@pytest.mark.parametrize("name", ["id", "obs", "next_obs"])
def test_a_row_with_a_word_of_another_row_is_torn(width, name):
    columns = batch(width)
    columns[name][17, -1] = columns[name][18, -1]
    assert faults(columns) == {"torn": 1}


def test_a_row_with_a_single_changed_byte_is_torn():
    for name, column in batch(count=1).items():
        for byte in range(column.nbytes):
            columns = batch(count=1)
            columns[name].view(np.uint8)[0, byte] ^= 1
            assert faults(columns) == {"torn": 1}


def test_unwritten_memory_is_detected():
    columns = batch()
    for column in columns.values():
        column[17] = 0
    assert faults(columns) == {"unwritten": 1}


def test_rows_that_were_never_added_are_detected():
    assert faults(batch(first=150)) == {"invented": 49}
    assert faults(batch(), begun=BEGUN[:3]) == {"invented": 100}


def at_rest(stored: list[int], due: list[tuple[int, int, int]]) -> dict[str, int]:
    found = Findings()
    everything = batch()
    look_at_all({name: column[stored] for name, column in everything.items()}, BEGUN, due, found)
    return found.faults()


def test_lost_and_duplicated_rows_are_detected_at_rest():
    assert at_rest(list(range(10)), [(3, 1, 10)]) == {}
    assert at_rest([*range(10), 4], [(3, 1, 10)]) == {"duplicated": 1}
    assert at_rest([0, 1, 2, 4], [(3, 1, 5)]) == {"lost": 1}
    assert at_rest([0, 1, 2, 3, 3], [(3, 1, 5)]) == {"duplicated": 1, "lost": 1}


def test_stored_rows_that_are_never_drawn_are_detected():
    found, everything = Findings(), batch(count=10)
    drawn = sample_by(priorities(everything["id"].ravel()))
    look_at_all(everything, BEGUN, [], found, drawn)
    assert found.faults() == {}
    look_at_all(everything, BEGUN, [], found, {name: column[1:] for name, column in drawn.items()})
    assert found.faults() == {"undrawn": 1}


def sequences(starts: list[int], size: int = 3) -> dict[str, np.ndarray]:
    """As a buffer of sequences gives them."""
    flat = rows(np.concatenate([ids(3, first, size) for first in starts]), NARROW)
    drawn = {name: column.reshape(len(starts), size, -1) for name, column in flat.items()}
    return {**drawn, "is_first": np.arange(size) == 1 - np.array(starts)[:, None]}


def test_sequences_of_consecutive_rows_pass_and_become_rows():
    assert broken(sequences([1, 5, 90])) == 0
    assert faults(as_rows(sequences([1, 5, 90]))) == {}


@pytest.mark.parametrize("name", ["id", "is_first"])
def test_a_step_of_another_place_breaks_a_sequence(name):
    drawn = sequences([1, 5, 90])
    drawn[name][1, 2] = drawn[name][0, 0]
    assert broken(drawn) == 1


class AtRest:
    """A buffer that draws the sequences which begin at these rows."""

    def __init__(self, starts: list[int]) -> None:
        self.starts = starts
        self._layout = SimpleNamespace(options={"sequences": {"size": 3}})

    def get_valid_sequences(self) -> int:
        return len(self.starts)

    def sample_sequences(self, count: int) -> dict[str, np.ndarray]:
        return {**sequences(self.starts), "weights": np.ones(len(self.starts))}


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([1, 2, 3, 8], {}),
        ([1, 2, 3], {"undrawn": 1}),
        ([1, 2, 3, 3], {"undrawn": 1}),
        ([1, 2, 3, 8, 20], {"broken": 1}),
    ],
    ids=["all", "missing", "twice", "with a row that is gone"],
)
def test_sequences_at_rest_are_those_of_the_stored_rows(starts, expected):
    stored = {"id": np.concatenate([ids(3, 1, 5), ids(3, 8, 3)])[:, None]}
    found = Findings()
    look_at_sequences(AtRest(starts), stored, found, cut=0)
    assert found.faults() == expected


def sample_by(leaves: np.ndarray) -> dict[str, np.ndarray]:
    """Return a batch with the weights that a buffer would return if the smallest leaf is not in the batch."""
    return {**batch(count=len(leaves)), "weights": (np.float32(0.9) / leaves).astype(np.float32)}


def test_each_row_has_its_own_priority():
    own = ids(3, 1, 100)
    assert len(np.unique(priorities(own))) == 100
    assert stale_priorities(sample_by(priorities(own))) == 0
    mixed = np.where(np.arange(100) % 2, priorities(own), changed_priorities(own))
    assert stale_priorities(sample_by(mixed)) == 0
    mixed[17] = changed_priorities(own[18:19])[0]
    assert stale_priorities(sample_by(mixed)) == 1


def test_a_priority_of_any_other_row_is_stale():
    for shift in (1, 64, 4096):
        own, other = ids(3, 1, 4096), ids(3, 1 + shift, 4096)
        leaves = priorities(own)
        leaves[::3] = priorities(other)[::3]
        columns = {"id": own[:, None], "weights": (np.float32(1) / leaves)[:, None]}
        assert stale_priorities(columns) > 0.99 * len(own[::3])
