"""Copies of subclasses that choose which attributes are pickled, as Stable-Baselines3's HerReplayBuffer does."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tests.integrations.test_overrides import GOALS, PAIRS, STACK, Pair, sb3, theirs
from tests.integrations.test_step_state import assert_same, drawn, filled, seen

MEMBERS = {
    **PAIRS,
    "frames once, exact": Pair(
        sb3.ReplayBuffer, theirs.ReplayBuffer, STACK, {"optimize_memory_usage": True, "exact": True}
    ),
    "n-step, frames once": Pair(
        sb3.NStepReplayBuffer, theirs.NStepReplayBuffer, STACK, {"optimize_memory_usage": True}, {"n_steps": 2}
    ),
    "HER, frames once": Pair(sb3.HerReplayBuffer, PAIRS["HER"].original, GOALS, {"optimize_memory_usage": True}),
    "prioritized, n-step": Pair(
        sb3.PrioritizedReplayBuffer, theirs.NStepReplayBuffer, PAIRS["plain"].space, common={"n_steps": 2}
    ),
}
SAME_ROWS = [label for label in MEMBERS if "exact" in label or label[0] in "nH"]
COPIES = {
    "pickle": lambda buffer: pickle.loads(pickle.dumps(buffer)),
    "deepcopy": copy.deepcopy,
    "copy of a copy": lambda buffer: copy.deepcopy(copy.deepcopy(buffer)),
}


def own_state(kind):
    """Return a subclass whose pickle excludes an attribute that cannot be pickled."""

    class Own(kind):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.log = lambda: None

        def __getstate__(self):
            state = self.__dict__.copy()
            del state["log"]
            state.pop("env", None)
            return state

        def __setstate__(self, state):
            self.__dict__.update(state)
            self.log = self.env = None

    Own.__qualname__ = f"Own_{kind.__module__.replace('.', '_')}_{kind.__name__}"
    return globals().setdefault(Own.__qualname__, Own)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("count", [12, 57])
@pytest.mark.parametrize("label", MEMBERS)
def test_steps_added_after_copying_are_sampled(label, count, copied):
    pair = MEMBERS[label]
    ours = copied(filled(pair, own_state(pair.ours), count=count))
    found = seen(pair, ours)
    ours.rewards[:] = 7
    assert set(ours._ring.get(np.arange(12))["reward"].tolist()) == {7}
    if pair.space is not GOALS:  # there, rewards are computed again
        assert pair.common or drawn(ours) == {7}
    if label in SAME_ROWS and pair.space is not STACK:
        assert_same(found, seen(pair, copied(filled(pair, own_state(pair.original), count=count))))


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("label", [label for label in MEMBERS if "frames" not in label])
def test_written_arrays_and_the_position_survive_copies(label, copied):
    pair = MEMBERS[label]
    buffer = filled(pair, own_state(pair.ours), n_envs=1)
    buffer.rewards[:20] = 5
    buffer.actions[25] = 5
    buffer.pos = 20
    again = copied(buffer)
    assert (again.pos, again.size()) == (20, 20)
    np.testing.assert_array_equal(again.rewards, buffer.rewards)
    np.testing.assert_array_equal(again.actions, buffer.actions)
    buffer.pos = 40
    again = copied(buffer)
    assert (again.pos, again.full) == (40, False)
    buffer.rewards[:] = 9
    assert (again.rewards[:20] == 5).all(), "the copy is independent"


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("label", MEMBERS)
def test_a_shallow_copy_is_independent(label, own):
    """With a shared ring, steps added to one copy would move the position of both."""
    pair = MEMBERS[label]
    buffer = filled(pair, own_state(pair.ours) if own else pair.ours)
    before = seen(pair, copy.deepcopy(buffer))
    again = copy.copy(buffer)
    assert type(again) is type(buffer)
    assert_same(seen(pair, again), before)
    again.rewards[:] = 9
    assert_same(seen(pair, buffer), before)
