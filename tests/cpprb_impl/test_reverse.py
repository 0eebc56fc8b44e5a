"""Rows can be read backwards in strides."""

from __future__ import annotations

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import ReverseReplayBuffer

FIELDS = {"x": {"dtype": np.int64}}


def read(buffer, rows):
    return buffer.sample(rows)["x"].ravel().tolist()


def filled(size, rows, **kwargs):
    buffer = ReverseReplayBuffer(size, FIELDS, **kwargs)
    buffer.add(x=np.arange(rows))
    return buffer


def test_rows_are_read_backwards_in_strides_up_to_a_distance_of_two_strides():
    buffer = filled(1000, 500, stride=3)
    firsts = []
    for _ in range(8):
        batch = read(buffer, 5)
        assert np.diff(batch).tolist() == [-3] * 4
        firsts.append(batch[0])
    assert firsts == [499, 498, 497, 496, 495, 494, 499, 498]


def test_after_the_oldest_row_reading_continues_at_the_newest():
    assert read(filled(50, 7, stride=3), 5) == [6, 3, 0, 4, 1]
    assert read(filled(5, 12, stride=2), 6) == [11, 9, 7, 10, 8, 11]
    # 10^18 is a multiple of 5, and ten times the stride exceeds an int64.
    assert read(filled(5, 5, stride=10**18 + 2), 15) == [4, 2, 0, 3, 1] * 3


def test_new_rows_increase_the_distance():
    buffer = filled(100, 50, stride=5)
    assert read(buffer, 1) == [49]
    buffer.add(x=np.arange(50, 58))
    assert read(buffer, 1) == [48]  # a distance of 9
    assert read(buffer, 1) == [57]  # a distance of 10 would be 2 * stride


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_read_as_in_cpprb(seed):
    cpprb = pytest.importorskip("cpprb")
    rng = np.random.default_rng(seed)
    size, stride = int(rng.integers(1, 40)), int(rng.integers(1, 12))
    pair = [module.ReverseReplayBuffer(size, FIELDS, stride=stride) for module in (cpprb, cpprb_impl)]
    added = 0
    for step in range(200):
        count = 1 if step == 0 else int(rng.choice([0, 0, 1, 1, 3]))
        for i in range(added, added + count):
            for buffer in pair:
                buffer.add(x=i)
        added += count
        rows = int(rng.integers(0, 9))
        theirs, ours = (read(buffer, rows) for buffer in pair)
        assert ours == theirs, (step, size, stride)


def test_the_default_stride_is_300():
    assert read(filled(1000, 1000), 3) == [999, 699, 399]


def test_sampling_an_empty_buffer_is_an_error_and_clear_resets_the_position():
    """In cpprb, the size of an empty buffer underflows, and the position survives clear."""
    buffer = ReverseReplayBuffer(20, FIELDS, stride=4)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(2)
    buffer.add(x=np.arange(10))
    assert [read(buffer, 2), read(buffer, 2), read(buffer, 2)] == [[9, 5], [8, 4], [7, 3]]
    buffer.clear()
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(2)
    buffer.add(x=np.arange(100, 109))
    assert read(buffer, 2) == [108, 104]


@pytest.mark.parametrize(("rows", "error"), [(-1, ValueError), (2.0, TypeError), (None, TypeError)])
def test_a_bad_batch_size_does_not_move_the_position(rows, error):
    buffer = filled(20, 10, stride=2)
    assert read(buffer, 1) == [9]
    with pytest.raises(error):
        buffer.sample(rows)
    assert read(buffer, 1) == [8]


@pytest.mark.parametrize(("stride", "error"), [(0, ValueError), (-1, ValueError), ("2", TypeError), (None, TypeError)])
def test_bad_strides_are_refused(stride, error):
    with pytest.raises(error, match="stride"):
        ReverseReplayBuffer(10, FIELDS, stride=stride)
