"""Assigning to a public attribute has an effect, as in cpprb, or raises AttributeError."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl.ring.hooks import METHODS, OPTIONS

cpprb = pytest.importorskip("cpprb")

FIELDS = {"obs": {"shape": 2}, "act": {}, "next_obs": {"shape": 2}, "done": {}}
STEPS = {"obs": np.zeros((4, 2)), "act": np.ones(4), "next_obs": np.c_[1:5, 1:5], "done": np.zeros(4)}


def reward(states, actions, goals):
    return np.zeros(len(states))


MAKERS = {
    "ReplayBuffer": lambda kind: kind(64, FIELDS),
    "PrioritizedReplayBuffer": lambda kind: kind(64, FIELDS),
    "ReverseReplayBuffer": lambda kind: kind(64, FIELDS),
    "MPReplayBuffer": lambda kind: kind(64, FIELDS),
    "MPPrioritizedReplayBuffer": lambda kind: kind(64, FIELDS),
    "SelectiveReplayBuffer": lambda kind: kind(4),
    "HindsightReplayBuffer": lambda kind: kind(64, FIELDS, 4, reward),
    "LaBERmean": lambda kind: kind(2),
    "LaBERlazy": lambda kind: kind(2),
    "LaBERmax": lambda kind: kind(2),
}


def made(name, kind=None):
    return MAKERS[name](kind or getattr(cpprb_impl, name))


# The public attributes of cpprb's classes; its compiled classes have none.
OF_CPPRB = {name: sorted(getattr(MAKERS[name](getattr(cpprb, name)), "__dict__", {})) for name in MAKERS}
REFUSED = {"HindsightReplayBuffer": {"state", "prioritized", "goal_shape", "episode_rb"}}
HAS_EFFECT = {
    ("LaBER", "batch_size"): lambda b: setattr(b, "batch_size", 1) or len(drawn(b)["indexes"]) == 1,
    ("LaBER", "eps"): lambda b: setattr(b, "eps", 1e9) or set(drawn(b, 400)["indexes"]) == set(range(8)),
    ("LaBER", "idx"): lambda b: setattr(b, "idx", np.arange(3)) or len(b(priorities=np.ones(3))["indexes"]) == 2,
    ("LaBER", "rng"): lambda b: setattr(b, "rng", Newest()) or drawn(b)["indexes"].tolist() == [7, 7],
    ("Hindsight", "max_episode_len"): lambda b: setattr(b, "max_episode_len", 9) or ended(b, 2),
    ("Hindsight", "reward_func"): lambda b: (
        setattr(b, "reward_func", lambda s, a, g: np.full(len(s), 7.0)) or (ended(b)["rew"] == 7).all()
    ),
    ("Hindsight", "goal_func"): lambda b: (
        setattr(b, "goal_func", lambda states: states + 5) or (ended(b)["goal"][4:] > 5).all()
    ),
    ("Hindsight", "action"): lambda b: (
        setattr(b, "reward_func", lambda s, a, g: a.ravel())
        or setattr(b, "action", "done")
        or not ended(b)["rew"].any()
    ),
    ("Hindsight", "next_state"): lambda b: setattr(b, "next_state", "obs") or not ended(b)["goal"].any(),
    ("Hindsight", "strategy"): lambda b: setattr(b, "strategy", "final") or len(ended(b)["rew"]) == 8,
    ("Hindsight", "additional_goals"): lambda b: setattr(b, "additional_goals", 1) or len(ended(b)["rew"]) == 8,
    ("Hindsight", "rb"): lambda b: (
        setattr(b, "rb", kept := made("HindsightReplayBuffer").rb)
        or (len(ended(b)["rew"]) == kept.get_stored_size() == 20)
    ),
    ("Hindsight", "rng"): lambda b: setattr(b, "rng", Newest()) or (ended(b)["goal"][4:] == 4).all(),
}


class Newest:
    """Always draws the last row."""

    def integers(self, low, high, size):
        return np.full(size, high - 1)

    def choice(self, a, size, p):
        return np.full(size, a[-1])


def drawn(laber, times=1):
    laber.batch_size *= times
    return laber(priorities=np.r_[1.0, np.zeros(7)])


def ended(buffer, episodes=1):
    buffer.clear()
    for _ in range(episodes):
        buffer.add(**STEPS)
    buffer.on_episode_end([0, 0])
    return buffer.get_all_transitions()


@pytest.mark.parametrize(("name", "attribute"), [(name, each) for name in OF_CPPRB for each in OF_CPPRB[name]])
def test_each_attribute_of_cpprb_has_an_effect_or_is_refused(name, attribute):
    buffer = made(name)
    if attribute in REFUSED.get(name, ()):
        with pytest.raises(AttributeError, match=f"{attribute} must be given when"):
            setattr(buffer, attribute, copy.copy(getattr(buffer, attribute, None)))
        return
    family = "LaBER" if name.startswith("LaBER") else "Hindsight"
    assert HAS_EFFECT[family, attribute](buffer)


def fixed(name) -> list[str]:
    """Return the options that are not attributes of cpprb's class."""
    return sorted(OPTIONS - set(OF_CPPRB[name]))


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in MAKERS for option in fixed(name)])
def test_other_options_cannot_be_assigned(name, option):
    """In cpprb, the compiled classes have no attributes. Without the error, an assignment would have no effect."""
    buffer = made(name)
    with pytest.raises(AttributeError, match=f"^{option} must be given when"):
        setattr(buffer, option, 1)


@pytest.mark.parametrize("name", [name for name in MAKERS if hasattr(getattr(cpprb_impl, name), "sample_indexes")])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_methods_that_native_code_replaces_cannot_be_assigned(name, method):
    class Mine(getattr(cpprb_impl, name)):
        pass

    for kind in (None, Mine):
        with pytest.raises(AttributeError, match=f"{method} must not be assigned .* define it in a subclass"):
            setattr(made(name, kind), method, len)


@pytest.mark.parametrize("name", MAKERS)
def test_a_subclass_may_have_attributes_of_the_same_names(name):
    """In cpprb too, such an attribute belongs to the subclass."""

    class Mine(getattr(cpprb_impl, name)):
        def remember(self):
            self.alpha, self.gamma = 0.7, 0.9

    buffer = made(name, Mine)
    buffer.remember()
    assert (buffer.alpha, buffer.gamma) == (0.7, 0.9)


def test_assignments_to_a_hindsight_buffer_are_checked():
    buffer = made("HindsightReplayBuffer")
    for attribute, value in {"strategy": "none", "additional_goals": -1, "max_episode_len": 0}.items():
        with pytest.raises(ValueError, match=f"{attribute} must "):
            setattr(buffer, attribute, value)
    assert (buffer.strategy, buffer.additional_goals, buffer.max_episode_len) == ("future", 4, 4)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_keep_assigned_attributes(copied):
    buffer = made("HindsightReplayBuffer")
    buffer.additional_goals, buffer.reward_func = 1, len_of_states
    other = copied(buffer)
    assert (ended(other)["rew"] == 4 * 2).all() and other.additional_goals == 1


def len_of_states(states, actions, goals):
    return np.full(len(states), len(states))
