"""The state of a buffer apart from its rows can be exported and restored, and invalid state is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT, make_rows, stored_numbers


@pytest.fixture
def prioritized():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, seed=1)
    buffer.add(**make_rows(0, 5), priorities=[1, 2, 3, 4, 5])
    return buffer


def test_a_random_state_can_be_copied_to_another_buffer():
    one, other = (ReplayBuffer(8, ENV_DICT, seed=seed) for seed in (1, 2))
    for buffer in (one, other):
        buffer.add(**make_rows(0, 8))
    one.sample(100)
    state = one._get_random()
    expected = one.sample(100)["act"]
    assert not np.array_equal(other.sample(100)["act"], expected)
    other._set_random(state)
    assert np.array_equal(other.sample(100)["act"], expected)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ((0, 0, 0, 0), ValueError),
        ((1, 2, 3), ValueError),
        ((1, 2, 3, -4), ValueError),
        ((1, 2, 3, 2**64), ValueError),
        ((1, 2, 3, 4.0), TypeError),
        (7, TypeError),
    ],
)
def test_an_invalid_random_state_is_refused(state, error):
    buffer = ReplayBuffer(8, ENV_DICT, seed=1)
    before = buffer._get_random()
    with pytest.raises(error):
        buffer._set_random(state)
    assert buffer._get_random() == before


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("slot", [0, 3, 7])
def test_an_empty_buffer_begins_at_any_slot(kind, emptied, slot):
    buffer = kind(8, ENV_DICT, seed=1)
    if emptied:
        buffer.add(**make_rows(100, 11))
        buffer.clear()
    buffer._begin_at(slot)
    assert (buffer.get_next_index(), buffer.get_stored_size()) == (slot, 0)
    assert buffer.add(**make_rows(0, 6)) == slot
    assert stored_numbers(buffer) == list(range(6))
    assert set(buffer.sample(200)["act"].ravel()) == set(range(6))
    assert np.array_equal(buffer._encode_sample((slot + np.arange(6)) % 8)["act"].ravel(), np.arange(6))
    buffer.add(**make_rows(6, 5))
    assert stored_numbers(buffer) == list(range(3, 11))
    assert set(buffer.sample(200)["act"].ravel()) == set(range(3, 11))


def test_an_invalid_first_slot_is_refused(prioritized):
    with pytest.raises(ValueError, match="empty"):
        prioritized._begin_at(3)
    assert stored_numbers(prioritized) == [0, 1, 2, 3, 4]
    prioritized.clear()
    with pytest.raises(IndexError, match="slot 8"):
        prioritized._begin_at(8)
    with pytest.raises(ValueError, match="slot"):
        prioritized._begin_at(-1)


def test_leaves_can_be_exported_and_restored(prioritized):
    expected = (np.arange(1, 6) + 1e-4) ** 0.6
    assert prioritized._get_leaves(np.arange(5)).dtype == np.float32
    assert np.allclose(prioritized._get_leaves([4, 0, 0]), expected[[4, 0, 0]])
    prioritized._set_leaves([1, 3], [0.0, 7.5])
    assert np.allclose(prioritized._get_leaves(range(5)), [expected[0], 0, expected[2], 7.5, expected[4]])
    assert set(prioritized.sample(300)["indexes"]) == {0, 2, 3, 4}


@pytest.mark.parametrize(
    ("indexes", "leaves", "error"),
    [
        ([0, 1], [1.0, np.nan], ValueError),
        ([0, 1], [1.0, np.inf], ValueError),
        ([0, 1], [1.0, -1.0], ValueError),
        ([0, 1], [1.0], ValueError),
        ([0, 5], [1.0, 1.0], IndexError),
        ([0, 8], [1.0, 1.0], IndexError),
        ([0, -1], [1.0, 1.0], IndexError),
        ([0, 1], None, (TypeError, ValueError)),
    ],
)
def test_invalid_leaves_are_refused(prioritized, indexes, leaves, error):
    before = prioritized._get_leaves(range(5))
    with pytest.raises(error):
        prioritized._set_leaves(indexes, leaves)
    assert np.array_equal(prioritized._get_leaves(range(5)), before)
    with pytest.raises(IndexError):
        prioritized._get_leaves([5])


def test_the_largest_priority_can_be_set(prioritized):
    prioritized._set_max_priority(0.5)
    assert prioritized.get_max_priority() == 0.5
    prioritized.add(**make_rows(5, 1))
    assert prioritized._get_leaves([5])[0] == pytest.approx(0.5001**0.6)
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match="priority"):
            prioritized._set_max_priority(bad)
    assert prioritized.get_max_priority() == 0.5


def test_rows_added_after_the_last_sample_are_counted_and_not_changed():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, check_for_update=True, alpha=1.0, eps=0.0)
    buffer.add(**make_rows(0, 5))
    assert buffer._get_unseen() == 5
    buffer.sample(1)
    assert buffer._get_unseen() == 0
    buffer._set_unseen(2)
    buffer.update_priorities(range(5), [7.0] * 5)
    assert buffer._get_leaves(range(5)).tolist() == [7, 7, 7, 1, 1]


def test_the_length_of_an_episode_can_be_restored():
    buffer = ReplayBuffer(8, ENV_DICT)
    buffer._set_episode_len(4)
    buffer.add(**make_rows(0, 2))
    assert buffer.get_current_episode_len() == 6


def test_buffers_without_priorities_refuse_leaves():
    for buffer in (ReplayBuffer(8, ENV_DICT), MPReplayBuffer(8, ENV_DICT)):
        with pytest.raises(TypeError, match="priorities"):
            buffer._get_leaves([])
        with pytest.raises(TypeError, match="priorities"):
            buffer._set_leaves([], np.zeros(0, np.float32))
        with pytest.raises(TypeError, match="priorities"):
            buffer._set_max_priority(1.0)


def test_a_shared_ring_begins_at_slot_0():
    buffer = MPReplayBuffer(8, ENV_DICT)
    with pytest.raises(ValueError, match="requires a buffer that is not shared"):
        buffer._begin_at(1)
    buffer.close()


def held(buffer):
    return buffer._get_stored_slots().tolist()


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_hold_marks_exactly_the_specified_slots_as_stored(kind):
    """Compares each change from each state with the definition."""
    for rows, next_index, stored in itertools.product((0, 3, 8, 13), range(8), range(9)):
        buffer = kind(8, ENV_DICT, seed=1)
        if rows:
            buffer.add(**make_rows(0, rows))
        head = buffer._get_head()
        buffer._hold(next_index, stored)
        expected = sorted((next_index - 1 - back) % 8 for back in range(stored))
        assert (held(buffer), buffer.get_next_index()) == (expected, next_index)
        assert buffer._get_head() >= head, "numbers of rows are not reused"
        if stored:
            assert set(buffer.sample(200, **({} if kind is ReplayBuffer else {"beta": 1.0}))) >= {"act"}
            assert set(buffer.sample_indexes(300).tolist()) == set(expected)
        buffer.add(**make_rows(20, 1))
        assert next_index in held(buffer)
        assert len(held(buffer)) == min(8, stored + 1)


def test_slots_that_contained_no_row_get_the_largest_priority(prioritized):
    largest = prioritized._get_leaves([4])
    for stored in (7, 2, 5):
        prioritized._hold(stored, stored)
    leaves = prioritized._get_leaves(np.arange(5))
    np.testing.assert_array_equal(leaves[2:], np.repeat(largest, 3))
    assert (np.diff(leaves[:2]) > 0).all() and leaves[1] < largest


def test_priorities_are_accepted_before_the_first_sample_after_hold():
    buffer = PrioritizedReplayBuffer(8, ENV_DICT, alpha=1, eps=0, check_for_update=True)
    buffer._hold(4, 4)
    buffer.update_priorities(np.arange(4), [1, 2, 3, 4])
    np.testing.assert_allclose(buffer._get_leaves(np.arange(4)), [1, 2, 3, 4])


def test_hold_refuses_buffers_with_frames_and_slots_beyond_the_capacity():
    with pytest.raises(ValueError, match="without shared frames"):
        ReplayBuffer(8, {"obs": {"shape": 4}}, next_of="obs")._hold(1, 1)
    buffer = ReplayBuffer(8, ENV_DICT)
    for wrong in ((8, 0), (0, 9)):
        with pytest.raises(IndexError, match="capacity 8"):
            buffer._hold(*wrong)
    with pytest.raises(TypeError):
        buffer._hold(1)
    for wrong in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="from 0"):
            buffer._hold(*wrong)
