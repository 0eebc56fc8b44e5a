"""Every form of a call of cpprb is accepted, and yields the same types, shapes and errors."""

from __future__ import annotations

import fractions
import io
import logging
import multiprocessing

import numpy as np
import pytest

import cpprb_impl

cpprb = pytest.importorskip("cpprb")

FIELDS = {"obs": {"shape": 2}, "act": {}, "rew": {}, "next_obs": {"shape": 2}, "done": {}}
GOALS = {name: FIELDS[name] for name in ("obs", "act", "next_obs")}
SINGLE = ["ReplayBuffer", "PrioritizedReplayBuffer"]
PRIORITIZED = ["PrioritizedReplayBuffer", "MPPrioritizedReplayBuffer"]
RINGS = [*SINGLE, "MPReplayBuffer", "MPPrioritizedReplayBuffer"]


def step(i, *names):
    row = {"obs": [i, i], "act": i, "rew": i, "next_obs": [i + 1, i + 1], "done": 0}
    return {name: row[name] for name in names or row}


def filled(kind, **options):
    buffer = kind(8, FIELDS, **options)
    for i in range(5):
        buffer.add(**step(i))
    return buffer


def hindsight(module, **options):
    reward = lambda states, actions, goals: -np.abs(states - goals).sum(1)  # noqa: E731
    buffer = module.HindsightReplayBuffer(64, GOALS, 10, reward, **options)
    for i in range(4):
        buffer.add(**step(i, *GOALS))
    buffer.on_episode_end([9, 9])
    return buffer


def selective(module):
    buffer = module.SelectiveReplayBuffer(5, 2, 1, Nepisodes=3)
    for i in range(7):
        buffer.add([i, i], [i], i, [i, i], float(i % 3 == 2))
    return buffer


def updated(buffer, *args, **kwargs):
    buffer.sample(4)
    return buffer.update_priorities(*args, **kwargs), round(buffer.get_max_priority(), 3)


def saved(buffer, other, **options):
    file = io.BytesIO()
    buffer.save_transitions(file, **options)
    file.seek(0)
    other.load_transitions(file=file)
    return other


# Calls of a full ring.
RING_CALLS = {
    "sample": lambda b: b.sample(3),
    "sample by keyword": lambda b: b.sample(batch_size=np.int16(3)),
    "sample of nothing": lambda b: b.sample(0),
    "sample without a size": lambda b: b.sample(),
    "shuffled": lambda b: b.get_all_transitions(True),
    "shuffled by keyword": lambda b: b.get_all_transitions(shuffle=1),
    "one row": lambda b: b._encode_sample(idx=2),
    "rows of a slice": lambda b: b._encode_sample(slice(0, 2)),
    "rows of floats": lambda b: b._encode_sample([1.0]),
    "add by position": lambda b: b.add(step(0)),
    "add of nothing": lambda b: b.add(),
    "add without a field": lambda b: b.add(obs=[1, 1]),
    "add with another field": lambda b: b.add(**step(0), other=3),
    "add of None": lambda b: b.add(**{**step(0), "rew": None}),
    "add of a word": lambda b: b.add(**{**step(0), "rew": "a"}),
    "add of a number in a str": lambda b: b.add(**{**step(0), "rew": "1.5"}),
    "add of nested scalars": lambda b: b.add(**{**step(0), "rew": [[1]], "done": np.array([[0]]), "act": np.array(3)}),
    "add of a memoryview": lambda b: b.add(**{**step(0), "obs": memoryview(np.zeros(2, "f"))}),
    "sizes": lambda b: [b.get_stored_size(), b.get_buffer_size(), b.get_next_index(), b.is_Nstep()],
    "clear": lambda b: [b.clear(), b.on_episode_end(), b.get_stored_size(), b.get_next_index()],
}

# Calls of a full prioritized ring.
PRIORITY_CALLS = {
    "beta by position": lambda b: b.sample(3, np.float32(1)),
    "beta by keyword": lambda b: b.sample(batch_size=3, beta=np.array(0.5)),
    "beta None": lambda b: b.sample(3, beta=None),
    "add of a scalar": lambda b: [b.add(**step(0), priorities=p) for p in (2, 2.0, np.array(2.0), [2.0], [[2.0]])],
    "add of too many": lambda b: b.add(**step(0), priorities=[1, 2]),
    "add of a word": lambda b: b.add(**step(0), priorities="a"),
    "update by keyword": lambda b: updated(b, indexes=[0, 1], priorities=(2, 3)),
    "update of a range": lambda b: updated(b, range(2), range(2, 4)),
    "update of columns": lambda b: updated(b, np.array([[0], [1]]), np.array([[2], [3]], np.float16)),
    "update of rows and columns": lambda b: updated(b, np.array([0, 1]), np.array([[2.0], [3.0]])),
    "update of None": lambda b: b.update_priorities(None, [2]),
    "update to None": lambda b: b.update_priorities([0], None),
    "update to nothing": lambda b: b.update_priorities([0]),
    "update of a word": lambda b: b.update_priorities("a", [1.0]),
}

# Calls of a module.
CALLS = {
    "sizes": lambda m: [m.ReplayBuffer(s, FIELDS).get_buffer_size() for s in (8.7, 1e1, np.float32(5.5), True)],
    "size of a fraction": lambda m: m.ReplayBuffer(fractions.Fraction(9, 2), FIELDS).get_buffer_size(),
    "sizes of MP": lambda m: [m.MPReplayBuffer(s, FIELDS).get_buffer_size() for s in (8, np.int64(3), 8.7)],
    "by keyword": lambda m: m.ReplayBuffer(size=4, env_dict=FIELDS, mmap_prefix="").get_buffer_size(),
    "no fields": lambda m: [m.ReplayBuffer(4).get_all_transitions(), m.ReplayBuffer(4, {}).get_all_transitions()],
    "shape of floats": lambda m: m.ReplayBuffer(4, {"a": {"shape": 2.0}}),
    "dtype of no meaning": lambda m: m.ReplayBuffer(4, {"a": {"dtype": "bad"}}),
    "all options": lambda m: filled(
        m.PrioritizedReplayBuffer, alpha=np.float32(1), eps=0, check_for_update=1, default_dtype="f8", Nstep=None
    ).sample(2),
    "alpha None": lambda m: m.PrioritizedReplayBuffer(4, FIELDS, alpha=None),
    "eps in a str": lambda m: m.PrioritizedReplayBuffer(4, FIELDS, eps="0.5"),
    "check_for_update of MP": lambda m: filled(m.MPPrioritizedReplayBuffer, check_for_update=True).sample(2),
    "contexts": lambda m: [m.MPReplayBuffer(4, FIELDS, ctx=c).get_buffer_size() for c in (multiprocessing, None)],
    # Not backend="SharedMemory": cpprb unlinks such segments only when its process ends. test_segment.py tests ours.
    "logger": lambda m: m.MPReplayBuffer(4, FIELDS, logger=logging.getLogger(), backend="sharedctypes").is_Nstep(),
    "unknown backend": lambda m: m.MPReplayBuffer(4, FIELDS, backend="other"),
    "create by keyword": lambda m: type(m.create_buffer(size=4, env_dict=FIELDS, prioritized=1, alpha=0.3)).__name__,
    "create by position": lambda m: m.create_buffer(4, FIELDS, True),
    "episode": lambda m: filled(m.ReplayBuffer).get_current_episode_len(),
    "saved": lambda m: saved(filled(m.ReplayBuffer), m.ReplayBuffer(8, FIELDS)).get_all_transitions(),
    "saved, not safe": lambda m: saved(filled(m.ReplayBuffer), m.ReplayBuffer(3, FIELDS), safe=False).get_stored_size(),
    "saved without, loaded with priorities": lambda m: saved(
        filled(m.ReplayBuffer), m.PrioritizedReplayBuffer(8, FIELDS)
    ).sample(2),
    "load from nowhere": lambda m: m.ReplayBuffer(4, FIELDS).load_transitions("/no/such/file.npz"),
    "reverse": lambda m: filled(m.ReverseReplayBuffer, stride=2).sample(batch_size=3),
    "HER": lambda m: hindsight(m).sample(batch_size=3, beta=0.4),
    "HER, shuffled": lambda m: hindsight(m, default_dtype=np.float64, alpha=0.3).get_all_transitions(shuffle=True),
    "HER, goal_shape": lambda m: [hindsight(m, goal_shape=s).sample(1) for s in ((2,), [2], np.array([2]))],
    "HER, no copies": lambda m: hindsight(m, additional_goals=0, prioritized=False).get_stored_size(),
    "HER, float copies": lambda m: hindsight(m, additional_goals=2.0),
    "HER, strategy": lambda m: hindsight(m, strategy="other"),
    "HER, final": lambda m: hindsight(m, strategy="final", additional_goals=3).additional_goals,
    "HER, not prioritized": lambda m: hindsight(m, prioritized=False).update_priorities([0], [1]),
    "HER, no episode": lambda m: m.HindsightReplayBuffer(4, GOALS, 4, len).on_episode_end(1),
    "selective": lambda m: selective(m).sample(3),
    "selective, by keyword": lambda m: [selective(m)._encode_sample(indexes=[1, 2]), selective(m).get_episode(i=1)],
    "selective, episodes": lambda m: [selective(m).delete_episode(i=i) for i in (0, 1, 9)],
    "selective, shapes": lambda m: [
        m.SelectiveReplayBuffer(5, obs_shape=(2, 3)).get_obs_dim(),
        selective(m).get_obs_shape(),
        selective(m).get_act_dim(),
        selective(m).get_stored_episode_size(),
    ],
    "LaBER": lambda m: sorted(m.LaBERmean(batch_size=2, m=2, eps=0.1)(priorities=[1, 2, 3, 4], a=np.ones(4))),
    "LaBER by position": lambda m: m.LaBERmean(2)(np.ones(8)),
    "LaBER of None": lambda m: m.LaBERmean(2)(priorities=None),
}


def described(value):
    """Return the types and shapes of a batch, and other values unchanged."""
    if isinstance(value, dict):
        # Indexes are int64, see docs/differences.md.
        return {name: (column.dtype.str.replace("u8", "i8"), column.shape) for name, column in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    return value


def outcome(call, *args):
    try:
        return described(call(*args))
    except Exception as error:
        return type(error)


def rings(kinds, calls):
    return pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in kinds for name in calls])


@rings(RINGS, RING_CALLS)
def test_calls_of_a_ring_agree_with_cpprb(kind, name):
    theirs, ours = (outcome(RING_CALLS[name], filled(getattr(m, kind))) for m in (cpprb, cpprb_impl))
    assert ours == theirs


@rings(PRIORITIZED, PRIORITY_CALLS)
def test_calls_with_priorities_agree_with_cpprb(kind, name):
    theirs, ours = (outcome(PRIORITY_CALLS[name], filled(getattr(m, kind))) for m in (cpprb, cpprb_impl))
    assert ours == theirs


@pytest.mark.parametrize("name", CALLS)
def test_constructors_and_functions_agree_with_cpprb(name):
    theirs, ours = (outcome(CALLS[name], module) for module in (cpprb, cpprb_impl))
    assert ours == theirs


def test_the_comparison_detects_types_shapes_and_errors():
    a, b = {"x": np.zeros(2)}, {"x": np.zeros((2, 1), "f")}
    assert described(a) != described(b)
    assert outcome(int, "a") is ValueError


def test_the_error_for_a_bad_exponent_names_it():
    for kind in ("PrioritizedReplayBuffer", "MPPrioritizedReplayBuffer"):
        for options in ({"alpha": None}, {"eps": "0.5"}):
            with pytest.raises(TypeError, match=f"{next(iter(options))} must be a number, got "):
                getattr(cpprb_impl, kind)(4, FIELDS, **options)
