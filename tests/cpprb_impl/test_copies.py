"""Copies, deep copies and pickles of single-process buffers have the same rows and draws, and are independent."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle

import numpy as np
import pytest

from cpprb_impl import LaBERmean, PrioritizedReplayBuffer, ReplayBuffer, ReverseReplayBuffer, SelectiveReplayBuffer
from cpprb_impl.contents.state import position_of, restore

from .rows import ENV_DICT, make_rows

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda b, n=n: pickle.loads(pickle.dumps(b, n)) for n in range(2, pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.fixture(params=WAYS)
def copied(request):
    return WAYS[request.param]


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]), name


class Counting(PrioritizedReplayBuffer):
    """A user's own class, with other arguments and additional attributes."""

    made = 0

    def __init__(self, path):
        type(self).made += 1
        super().__init__(11, ENV_DICT, check_for_update=True, alpha=0.7)
        self.path, self.notes = path, {"me": self}


@pytest.mark.parametrize("rows", [0, 1, 7, 11, 30])
@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, ReverseReplayBuffer])
def test_a_copy_continues_like_the_original(copied, kind, rows):
    buffer = kind(11, ENV_DICT)
    for first in range(0, rows, 3):
        buffer.add(**make_rows(first, min(3, rows - first)))
    if rows:
        batch = buffer.sample(5)
        if kind is PrioritizedReplayBuffer:
            buffer.update_priorities(batch["indexes"], np.arange(5) + 0.3)
    other = copied(buffer)
    assert type(other) is kind
    assert other.get_current_episode_len() == rows
    for step in range(20):
        assert buffer.add(**make_rows(100 + step, 1)) == other.add(**make_rows(100 + step, 1))
        batches = [each.sample(6) for each in (buffer, other)]
        same(*batches)
        if kind is PrioritizedReplayBuffer:
            for each in (buffer, other):
                each.update_priorities(batches[0]["indexes"], np.arange(6.0))
            assert other.get_max_priority() == buffer.get_max_priority()
    same(buffer.get_all_transitions(), other.get_all_transitions())
    assert other.get_stored_size() == min(rows + 20, 11)


def test_a_copy_is_independent(copied):
    buffer = PrioritizedReplayBuffer(8, ENV_DICT)
    buffer.add(**make_rows(0, 5))
    other = copied(buffer)
    other.add(**make_rows(50, 8), priorities=[9.0] * 8)
    assert buffer.get_all_transitions()["act"].ravel().tolist() == [0, 1, 2, 3, 4]
    assert buffer.get_max_priority() == 1.0
    buffer.close()
    assert other.get_stored_size() == 8


def test_a_subclass_keeps_its_attributes_and_is_not_initialised_again(copied):
    buffer = Counting("here")
    buffer.add(**make_rows(0, 20))
    made = Counting.made
    buffer.sample(2)
    buffer.add(**make_rows(20, 1))
    other = copied(buffer)
    assert (Counting.made, other.path, type(other)) == (made, "here", Counting)
    assert other.notes["me"] is (buffer if copied is copy.copy else other)
    for each in (buffer, other):
        each.update_priorities(range(11), [5.0] * 11)  # without the one row that was added since the sample
    assert np.array_equal(buffer._get_leaves(range(11)), other._get_leaves(range(11)))
    assert len(set(buffer._get_leaves(range(11)).tolist())) == 2


def from_file(buffer: PrioritizedReplayBuffer) -> PrioritizedReplayBuffer:
    file = io.BytesIO()
    buffer.save_transitions(file)
    other = PrioritizedReplayBuffer(64, {"x": {}}, alpha=1.0, eps=0.0, check_for_update=True)
    other.load_transitions(io.BytesIO(file.getvalue()))
    return other


@pytest.mark.parametrize("replaced", [0, 20, 64, 200])
@pytest.mark.parametrize("way", [*WAYS.values(), from_file], ids=[*WAYS, "file"])
def test_a_copy_protects_the_rows_of_outstanding_batches(way, replaced):
    """This holds for batches drawn before the copy, whether rows are replaced before or after it."""
    buffer = PrioritizedReplayBuffer(64, {"x": {}}, alpha=1.0, eps=0.0, seed=1, check_for_update=True)
    buffer.add(x=np.arange(100))
    batches = [buffer.sample(8)["indexes"]]
    buffer.add(x=np.arange(7))
    batches.append(buffer.sample(8)["indexes"])
    other = way(buffer)
    for each in (buffer, other):
        if replaced:
            each.add(x=np.arange(replaced))
        each.sample(8)
        for indexes in (batches[0], batches[1], batches[0][2:5].copy()):
            each.update_priorities(indexes, np.full(len(indexes), 1e3))
    assert np.array_equal(buffer._get_leaves(range(64)), other._get_leaves(range(64)))
    assert (other._get_leaves(range(64)).max() == 1) == (replaced >= 64)


def test_a_copy_remembers_16_samples_as_the_original_does(copied):
    buffer = PrioritizedReplayBuffer(4, {"x": {}}, check_for_update=True)
    buffer.add(x=np.arange(4))
    for size in range(1, 21):
        buffer.sample(size)
        assert np.array_equal(copied(buffer)._get_samples(), buffer._get_samples())
    assert len(buffer._get_samples()) == 16 * 2 + sum(range(5, 21))


def test_an_old_pickle_without_remembered_samples_can_be_loaded():
    buffer = PrioritizedReplayBuffer(4, {"x": {}}, check_for_update=True)
    buffer.add(x=np.arange(4))
    position = {name: value for name, value in position_of(buffer).items() if name != "samples"}
    other = PrioritizedReplayBuffer(4, {"x": {}}, check_for_update=True)
    restore(other, position, buffer.get_all_transitions(), 4, None, {})
    assert len(other._get_samples()) == 0


@pytest.mark.parametrize("bad", [[1], [1, 2, 3], [1, -1], [-1, 2**62, 0]], ids=str)
def test_truncated_remembered_samples_are_left_out(bad):
    buffer = PrioritizedReplayBuffer(4, {"x": {}}, check_for_update=True)
    buffer._set_samples([0, 2, 7, 8, *bad])
    assert buffer._get_samples().tolist() == [0, 2, 7, 8]


class Lean(ReplayBuffer):
    def __getstate__(self):
        return {"path": "left behind"}

    def __setstate__(self, state):
        self.restored = state


def test_a_subclass_can_choose_its_pickled_state(copied):
    buffer = Lean(4, ENV_DICT)
    buffer.add(**make_rows(0, 2))
    assert copied(buffer).restored == {"path": "left behind"}
    assert copied(copied(buffer)).get_stored_size() == 2


def test_selective_and_laber_buffers_are_copied(copied):
    selective = SelectiveReplayBuffer(3, 2, Nepisodes=2, seed=4)
    for i in range(4):
        selective.add(np.full(2, i), i, i, np.full(2, i + 1), i == 2)
    other = copied(selective) if copied is not copy.copy else copy.deepcopy(selective)
    same(selective.sample(20), other.sample(20))
    assert other.delete_episode(0) == 3
    assert (selective.get_stored_size(), other.get_stored_size()) == (4, 1)
    laber = LaBERmean(4, 2, seed=3)
    twin = copied(laber) if copied is not copy.copy else copy.deepcopy(laber)
    same(laber(priorities=np.arange(8.0), x=np.arange(8)), twin(priorities=np.arange(8.0), x=np.arange(8)))


def test_fields_of_every_kind_are_copied(copied):
    fields = {
        "swapped": {"dtype": ">f4", "shape": (2, 3)},
        "text": {"dtype": "U3"},
        "time": {"dtype": "datetime64[s]"},
        "pair": {"dtype": [("a", "f4"), ("b", "i8")]},
        "wide": {"dtype": np.clongdouble},
    }
    buffer = ReplayBuffer(4, fields)
    row = {"swapped": np.arange(6), "text": "abc", "time": 5, "wide": 1 + 2j}
    buffer.add(**row, pair=np.array([(1.5, 2)], dtype=fields["pair"]["dtype"]))
    same(buffer.get_all_transitions(), copied(buffer).get_all_transitions())


def test_an_empty_buffer_without_fields_is_copied(copied):
    assert copied(ReplayBuffer(3)).get_buffer_size() == 3


def test_a_closed_buffer_is_refused(copied):
    buffer = ReplayBuffer(4, ENV_DICT)
    buffer.close()
    with pytest.raises(ValueError, match="closed"):
        copied(buffer)


def draw(buffer, pipe):
    pipe.send(buffer.sample(50)["act"].ravel().tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_copies_in_child_processes_draw_different_numbers(method):
    buffer = pickle.loads(pickle.dumps(ReplayBuffer(100, ENV_DICT, seed=1)))
    buffer.add(**make_rows(0, 100))
    context = multiprocessing.get_context(method)
    drawn = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        child = context.Process(target=draw, args=(buffer, theirs))
        child.start()
        drawn.append(ours.recv())
        child.join()
    drawn.append(buffer.sample(50)["act"].ravel().tolist())
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_buffers_of_cpprb_cannot_be_pickled():
    """Single-process buffers of cpprb can be neither pickled nor copied."""
    cpprb = pytest.importorskip("cpprb")
    with pytest.raises(TypeError):
        pickle.dumps(cpprb.ReplayBuffer(4, ENV_DICT))
