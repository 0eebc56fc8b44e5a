"""Each check finds the one fault in hand-made input, and none in sound input."""

from __future__ import annotations

import numpy as np
import pytest

from .certified import (
    FRAMED,
    NARROW,
    WIDE,
    Findings,
    changed_priorities,
    ids,
    look_at_all,
    priorities,
    read,
    rows,
    stale_priorities,
)

BEGUN = np.array([0, 0, 0, 200])  # writer 3 has begun 200 rows


def batch(width: int = NARROW, first: int = 1, count: int = 100) -> dict[str, np.ndarray]:
    """As a buffer gives it."""
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
def test_a_word_of_another_row_is_a_torn_row(width, name):
    columns = batch(width)
    columns[name][17, -1] = columns[name][18, -1]
    assert faults(columns) == {"torn": 1}


def test_a_single_changed_byte_is_a_torn_row():
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


def sample_by(leaves: np.ndarray) -> dict[str, np.ndarray]:
    """With weights as a buffer gives them, where the smallest leaf of all is not in the batch."""
    return {**batch(count=len(leaves)), "weights": (np.float32(0.9) / leaves).astype(np.float32)}


def test_priorities_identify_their_rows():
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
