"""Assignments to the attributes of a buffer change the ring, as in the original class, or are refused."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from cpprb_impl import cleanrl, sb3
from tests.integrations.tasks import Goals
from tests.integrations.test_overrides import ACTION, GOALS, PAIRS, PARTS, Pair, steps
from tests.integrations.test_sb3 import BOX, STACK

ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
# attribute -> the value that is assigned, or a function of its present value. Ours must act as the original does.
HONOURED = {
    "pos": 5,
    "full": True,
    "device": torch.device("meta"),
    "handle_timeout_termination": False,
    "n_steps": 3,
    "gamma": 0.5,
    "env": lambda env: env,
    "copy_info_dict": True,
    "goal_selection_strategy": GoalSelectionStrategy.FINAL,
    "n_sampled_goal": 2,
    "her_ratio": 0.25,
    "infos": np.copy,
    "ep_start": np.copy,
    "ep_length": np.copy,
    "_current_ep_start": np.copy,
} | dict.fromkeys(ARRAYS, lambda now: {k: v + 1 for k, v in now.items()} if isinstance(now, dict) else now + 1)
REFUSED = {
    "buffer_size": 10,
    "observation_space": spaces.Box(0, 1, (3,)),
    "action_space": spaces.Box(0, 1, (3,)),
    "obs_shape": (2,),
    "action_dim": 3,
    "n_envs": 3,
    "optimize_memory_usage": True,
}
OF_FRAMES = {"pos", "full", "observations", "next_observations"}  # refused if frames are stored once
EXACT = {label: pair for label, pair in PAIRS.items() if "exact" in label or pair.ours.__name__[0] in "NH"}
EXACT["frames once"] = Pair(
    sb3.ReplayBuffer, theirs.ReplayBuffer, STACK, {"optimize_memory_usage": True, "exact": True}
)
MEMBERS = [
    pytest.param(pair, name, id=f"{label}, {name}")
    for label, pair in EXACT.items()
    for name in vars(pair.make(pair.original, 2))
]


def filled(pair, kind, n_envs=2, count=12):
    buffer = pair.make(kind, n_envs)
    for step in steps(pair.space, n_envs, count):
        buffer.add(*step)
    return buffer


def assign(buffer, name, value):
    setattr(buffer, name, value(getattr(buffer, name)) if callable(value) else value)


def seen(pair, buffer, n_envs=2):
    """Return the visible state of a buffer before and after more steps."""
    if pair.space is GOALS and buffer.env is None:  # any copy loses its env
        buffer.set_env(make_vec_env(Goals, n_envs, seed=0))
    found = []
    for step in (None, *steps(pair.space, n_envs, 3, seed=9)):
        if step is not None:
            buffer.add(*step)
        found.append((buffer.pos, buffer.full, buffer.size()))
        np.random.seed(3)
        batch = buffer.sample(32)
        for each in (batch.observations, batch.actions, batch.next_observations, batch.dones, batch.rewards):
            for part in each.values() if isinstance(each, dict) else [each]:
                found.append(part.device if part.device.type == "meta" else part.numpy())
    return found


def assert_same(ours, other):
    assert len(ours) == len(other)
    for one, expected in zip(ours, other, strict=True):
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize(("pair", "name"), MEMBERS)
def test_an_assignment_has_the_effect_that_it_has_in_the_original_or_is_refused(pair, name):
    ours = filled(pair, pair.ours)
    if name in REFUSED or (pair.space is STACK and name in OF_FRAMES):
        before = seen(pair, copy.deepcopy(ours))
        with pytest.raises(AttributeError, match=f"{name} cannot be (changed|assigned).*(create|make|pass|call)"):
            assign(ours, name, {**HONOURED, **REFUSED}[name] if pair.space is not STACK else REFUSED.get(name, 7))
        assert_same(seen(pair, ours), before)
        return
    other = filled(pair, pair.original)
    for buffer in (ours, other):
        assign(buffer, name, HONOURED[name])
    expected = seen(pair, other)
    for each in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours):
        assert_same(seen(pair, each), expected)


OWN = [
    (sb3.PrioritizedReplayBuffer, "alpha", 0.1),
    (sb3.PrioritizedReplayBuffer, "eps", 0.1),
    (sb3.PrioritizedReplayBuffer, "normalize", "buffer"),
    (sb3.PrioritizedReplayBuffer, "check_for_update", True),
    (sb3.PrioritizedReplayBuffer, "exact", True),
    (sb3.NStepReplayBuffer, "exact", False),
    (sb3.HerReplayBuffer, "exact", False),
]


@pytest.mark.parametrize(("kind", "name", "value"), OWN)
def test_options_that_need_another_buffer_cannot_be_assigned(kind, name, value):
    pair = next(pair for pair in PAIRS.values() if pair.ours is kind)
    buffer = pair.make(kind)
    kept = getattr(buffer, name)
    with pytest.raises(AttributeError, match=f"{name} cannot be changed from {kept!r} to {value!r}"):
        setattr(buffer, name, value)
    setattr(buffer, name, kept)
    assert getattr(buffer, name) == kept


@pytest.mark.parametrize(
    ("kind", "name", "value", "error"),
    [
        *((kind, "n_steps", 0, ValueError) for kind in (sb3.NStepReplayBuffer, sb3.PrioritizedReplayBuffer)),
        *((kind, "n_steps", -1, ValueError) for kind in (sb3.NStepReplayBuffer, sb3.PrioritizedReplayBuffer)),
        *((kind, "n_steps", 2.5, TypeError) for kind in (sb3.NStepReplayBuffer, sb3.PrioritizedReplayBuffer)),
        *((kind, "n_steps", None, TypeError) for kind in (sb3.NStepReplayBuffer, sb3.PrioritizedReplayBuffer)),
        *((sb3.PrioritizedReplayBuffer, name, float("nan"), ValueError) for name in ("gamma", "beta")),
        *((sb3.PrioritizedReplayBuffer, name, float("inf"), ValueError) for name in ("gamma", "beta")),
        *((sb3.PrioritizedReplayBuffer, name, -1, ValueError) for name in ("gamma", "beta")),
        *((sb3.PrioritizedReplayBuffer, name, "1", TypeError) for name in ("gamma", "beta")),
    ],
)
def test_a_wrong_number_is_refused_when_it_is_assigned(kind, name, value, error):
    buffer = next(pair for pair in PAIRS.values() if pair.ours is kind).make(kind)
    kept = getattr(buffer, name)
    with pytest.raises(error, match=f"{name} must be"):
        setattr(buffer, name, value)
    assert getattr(buffer, name) == kept
    setattr(buffer, name, np.float32(0.5) if name != "n_steps" else np.int64(4))
    assert getattr(buffer, name) in (0.5, 4)


def test_every_public_attribute_of_ours_is_in_the_original_or_listed():
    for pair in PAIRS.values():
        ours = {name for name in vars(pair.make(pair.ours)) if not name.startswith("_")}
        listed = {name for _, name, _ in OWN} | {"beta", "first_beta"} | REFUSED.keys() | HONOURED.keys()
        assert ours <= listed


KINDS = {
    "plain": (sb3.ReplayBuffer, {}),
    "exact": (sb3.ReplayBuffer, {"exact": True}),
    "n-step": (sb3.NStepReplayBuffer, {"n_steps": 1}),
    "prioritized": (sb3.PrioritizedReplayBuffer, {}),
    "CleanRL": (cleanrl.ReplayBuffer, {}),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request):
    kind, options = request.param
    return lambda size=40, n_envs=1: kind(size * n_envs, BOX, ACTION, device="cpu", n_envs=n_envs, **options)


def add(buffer, reward, count=1):
    n = buffer.n_envs
    obs = np.full((n, 3), reward % 9, np.float32)
    for _ in range(count):
        buffer.add(obs, obs, np.zeros((n, 2)), np.full(n, reward), np.zeros(n), [{}] * n)


def drawn(buffer):
    return set(buffer.sample(500).rewards.ravel().tolist())


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("count", [20, 40, 57])
def test_setting_pos_to_0_discards_the_steps_of_an_old_task(make, count, n_envs):
    buffer = make(n_envs=n_envs)
    add(buffer, -777, count)
    buffer.pos, buffer.full = 0, False
    assert (buffer.pos, buffer.full, buffer.size()) == (0, False, 0)
    with pytest.raises(ValueError, match=r"empty|high <= 0"):
        buffer.sample(1)
    add(buffer, 1, 10)
    assert (buffer.pos, buffer.full, buffer.size(), drawn(buffer)) == (10, False, 10, {1})
    add(buffer, 2, 40)
    assert (buffer.pos, buffer.full, drawn(buffer)) == (10, True, {2})


@pytest.mark.parametrize("n_envs", [1, 3])
def test_arrays_filled_in_place_count_once_pos_is_set(make, n_envs):
    buffer = make(n_envs=n_envs)
    buffer.rewards[:25] = 5
    buffer.pos = 25
    assert (buffer.size(), drawn(buffer)) == (25, {5})
    buffer.rewards[:] = 6
    buffer.full = True
    assert (buffer.pos, buffer.size(), drawn(buffer)) == (25, 40, {6})
    add(buffer, 7)
    assert (buffer.pos, buffer.full, drawn(buffer)) == (26, True, {6, 7})


@pytest.mark.parametrize("label", PAIRS)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_timeouts_written_by_the_user_survive_add(label, n_envs):
    """Without handle_timeout_termination, `add` changes no timeouts, even of an earlier lap or after a toggle."""
    pair = PAIRS[label]
    found = [filled(pair, kind, n_envs, 3) for kind in (pair.ours, pair.original)]
    for buffer in found:
        buffer.handle_timeout_termination = False
        for step, (obs, following, action, reward, done, infos) in enumerate(steps(pair.space, n_envs, 90)):
            if step < 50:
                buffer.timeouts[buffer.pos] = step % 3 == 0
            buffer.add(obs, following, action, reward, np.ones_like(done), infos)
        buffer.handle_timeout_termination = True
        buffer.add(obs, following, action, reward, done, infos)
    assert found[1].timeouts.any() and found[1].full
    np.testing.assert_array_equal(found[0].timeouts, found[1].timeouts)
    rows = found[0]._arrays(found[0]._ring.get(np.arange(found[0].buffer_size * n_envs)))
    np.testing.assert_array_equal(rows[3].ravel(), (found[1].dones * (1 - found[1].timeouts)).ravel())


def test_lowering_pos_hides_steps_that_can_return(make):
    buffer = make()
    for reward in range(30):
        add(buffer, reward)
    buffer.pos = 10
    assert drawn(buffer) == set(range(10))
    buffer.pos = 30
    assert max(drawn(buffer)) > 10
    buffer.pos = buffer.buffer_size
    assert (buffer.pos, buffer.full, buffer.size()) == (40, False, 40)
    for again in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer)), buffer):
        assert (again.pos, again.full) == (40, False)
        again.full = True
        add(again, 99)
        assert (again.pos, again.full, again.rewards[0, 0]) == (1, True, 99)


def test_a_copy_keeps_steps_that_a_larger_pos_makes_visible_again(make):
    buffer = make()
    add(buffer, 3, 30)
    buffer.pos = 10
    add(buffer, 4, 2)
    for again in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(copy.deepcopy(buffer)))):
        assert (again.size(), drawn(again)) == (12, {3, 4})
        again.pos = 30
        np.testing.assert_array_equal(again.rewards, [[3]] * 10 + [[4]] * 2 + [[3]] * 18 + [[0]] * 10)


def test_assigned_attributes_survive_copies(make):
    buffer = make()
    add(buffer, 3, 20)
    buffer.rewards = buffer.rewards * 2
    add(buffer, 5, 10)
    for again in (buffer, copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert drawn(again) == {5, 6}


def write_in_place(array):
    array[:7] = 1


def write_one_of_the_last(array):
    array[-2] = 1


def assign_a_part(parts, part):
    parts[part] = np.ones(parts[part].shape)


def update_a_part(parts, part):
    parts.update({part: np.ones(parts[part].shape)})


WRITES = [
    pytest.param(name, part, write, id=f"{name}, {part}, {write.__name__}")
    for name in ARRAYS
    for part in (("a", "b") if "observations" in name else (None,))
    for write in (write_in_place, write_one_of_the_last, *([assign_a_part, update_a_part] if part else []))
]


@pytest.mark.parametrize("count", [0, 3, 12])
@pytest.mark.parametrize("base", [sb3.DictReplayBuffer, sb3.PrioritizedReplayBuffer, sb3.HerReplayBuffer])
@pytest.mark.parametrize(("name", "part", "write"), WRITES)
def test_values_written_to_an_array_survive_copies(base, count, name, part, write):
    """The buffer cannot observe writes to an array that it handed out, or to a part of an observation."""
    pair = next(pair for pair in PAIRS.values() if pair.ours is base and pair.space in (PARTS, GOALS))
    if pair.space is GOALS and part:
        part = {"a": "observation", "b": "desired_goal"}[part]
    buffer = filled(pair, base, n_envs=1, count=count)
    values = getattr(buffer, name)
    write(values, part) if write in (assign_a_part, update_a_part) else write(values[part] if part else values)
    for again in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(copy.deepcopy(buffer)))):
        assert again.pos == buffer.pos
        found, expected = getattr(again, name), getattr(buffer, name)
        np.testing.assert_array_equal(found[part] if part else found, expected[part] if part else expected)
        if pair.space is PARTS:
            again.pos = again.buffer_size
            assert again.size() == again.buffer_size


@pytest.mark.parametrize("read", [False, True])
def test_a_large_buffer_with_few_steps_has_a_small_pickle(make, read):
    buffer = make(size=100_000)
    add(buffer, 3, 5)
    assert not read or (buffer.rewards[:5] == 3).all()
    assert len(pickle.dumps(buffer)) < 30_000


def test_a_training_hands_out_none_of_the_arrays():
    """Once an array was handed out, copies inspect all of the memory."""
    model = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.ReplayBuffer, buffer_size=500, device="cpu")
    model.learn(110)
    buffers = [model.replay_buffer]
    for kind in (sb3.PrioritizedReplayBuffer, cleanrl.ReplayBuffer):
        buffers.append(
            kind(40, BOX, ACTION, device="cpu", **({"n_steps": 3} if kind is not cleanrl.ReplayBuffer else {}))
        )
        add(buffers[-1], 1, 9)
        buffers[-1].sample(4)
    assert [buffer._views.handed_out for buffer in buffers] == [False] * 3


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros(20), ValueError, r"rewards must have the shape \(40, 1\), got \(20,\)"),
        (np.full((40, 1), 1e300), ValueError, "rewards must have values that fit float32"),
        (np.full((40, 1), "1"), ValueError, "rewards must have values that fit float32"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(make, value, error, message):
    buffer = make()
    add(buffer, 1, 3)
    with pytest.raises(error, match=message):
        buffer.rewards = value
    assert drawn(buffer) == {1}


@pytest.mark.parametrize("label", [label for label in PAIRS if "frames" not in label])
@pytest.mark.parametrize("name", ARRAYS)
def test_assigning_an_array_of_a_wider_dtype_warns_if_the_space_determined_the_dtype(label, name):
    """In the original, later steps take the dtype of the array. Relabelled rewards may have any float dtype."""
    pair = PAIRS[label]
    buffer = filled(pair, pair.ours)
    values = getattr(buffer, name)
    for dtype, warns in ((np.float64, name in ARRAYS[:3]), (np.float32, False), (np.float16, False), (bool, False)):
        given = {k: v.astype(dtype) for k, v in values.items()} if isinstance(values, dict) else values.astype(dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                setattr(buffer, name, given)
        messages = [each for each in caught if f"the dtype of {name}" in str(each.message)]
        assert len(messages) == (len(values) if isinstance(values, dict) else 1) * warns
        for each in messages:
            assert "stays float" in str(each.message) and "the float64 values assigned" in str(each.message)
            assert each.filename == __file__


@pytest.mark.parametrize("label", [label for label in PAIRS if "frames" not in label])
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("mode", ["w+", "r+", "r", "c"])
def test_a_memory_mapped_file_that_add_would_not_write_is_refused(label, name, mode, tmp_path):
    pair = PAIRS[label]
    buffer = filled(pair, pair.ours)
    values = getattr(buffer, name)

    def mapped(part, array):
        np.memmap(tmp_path / part, array.dtype, "w+", shape=array.shape)[:] = 1
        return np.memmap(tmp_path / part, array.dtype, mode, shape=array.shape)

    given = {k: mapped(k, v) for k, v in values.items()} if isinstance(values, dict) else mapped("all", values)
    if mode in ("r", "c"):
        setattr(buffer, name, given)
        again = getattr(buffer, name)
        assert all((part == 1).all() for part in (again.values() if isinstance(again, dict) else [again]))
        return
    with pytest.raises(ValueError, match=f"{name}.* must be an array in memory, got a writable memory-mapped file"):
        setattr(buffer, name, given)


def test_an_integer_that_would_wrap_is_refused():
    buffer = sb3.ReplayBuffer(3, STACK, spaces.Discrete(4), device="cpu")
    buffer.observations = np.full(buffer.observations.shape, 255)
    assert (buffer.observations == 255).all()
    for wrong in (256, -1, 0.5):
        with pytest.raises(ValueError, match="observations must have values that fit uint8"):
            buffer.observations = np.full(buffer.observations.shape, wrong)


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (41, ValueError), (1.5, TypeError), ("3", TypeError), (None, TypeError)]
)
def test_a_wrong_pos_is_refused(make, value, error):
    buffer = make()
    add(buffer, 1, 3)
    with pytest.raises(error):
        buffer.pos = value
    assert buffer.pos == 3


def test_parts_of_observations_are_assigned_to_the_ring():
    buffer = sb3.DictReplayBuffer(10, PARTS, ACTION, device="cpu", exact=True)
    buffer.pos = 4
    buffer.observations["a"] = np.full((10, 1, 3), 2.0)
    buffer.next_observations.update(b=np.full((10, 1, 2), 3))
    buffer.observations |= {"b": np.full((10, 1, 2), 4.0)}
    batch = buffer.sample(5)
    assert (batch.observations["a"] == 2).all() and (batch.observations["b"] == 4).all()
    assert (batch.next_observations["b"] == 3).all()
    with pytest.raises(KeyError, match="observations must only have the parts a, b, got c"):
        buffer.observations["c"] = 1
    with pytest.raises(ValueError, match="observations must be a dict of a, b, got a"):
        buffer.observations = {"a": buffer.observations["a"]}
    with pytest.raises(ValueError, match=r"observations\['b'\] must have the shape"):
        buffer.observations = {"a": np.zeros((10, 1, 3)), "b": 1}
    assert (buffer.observations["a"] == 2).all(), "nothing is assigned unless all of it fits"
    for remove in (lambda d: d.pop("a"), lambda d: d.clear(), lambda d: d.popitem(), lambda d: d.setdefault("c", 1)):
        with pytest.raises(TypeError, match="always has the parts a, b"):
            remove(buffer.observations)
    with pytest.raises(TypeError, match="always has the parts"):
        del buffer.observations["a"]
    assert type(copy.deepcopy(buffer.observations)) is dict


def test_frames_stored_once_cannot_be_written():
    buffer = sb3.ReplayBuffer(10, STACK, spaces.Discrete(4), device="cpu", optimize_memory_usage=True)
    with pytest.raises(TypeError, match="optimize_memory_usage=False"):
        buffer.observations[0] = 1


@pytest.mark.parametrize("base", [sb3.ReplayBuffer, sb3.PrioritizedReplayBuffer, cleanrl.ReplayBuffer])
def test_an_add_may_write_the_arrays_itself(base):
    class Writer(base):
        def add(self, obs, next_obs, action, reward, done, infos):
            self.observations[self.pos] = obs
            self.rewards[self.pos] = 7
            self.pos += 1
            if self.pos == self.buffer_size:
                self.full, self.pos = True, 0

    buffer, expected = Writer(10, BOX, ACTION, device="cpu"), theirs.ReplayBuffer(10, BOX, ACTION, device="cpu")
    for _ in range(23):
        add(buffer, 1)
        add(expected, 1)
        assert (buffer.pos, buffer.full, buffer.size()) == (expected.pos, expected.full, expected.size())
        assert drawn(buffer) == {7}


def test_rows_revealed_by_pos_have_the_largest_priority_and_can_be_updated():
    buffer = sb3.PrioritizedReplayBuffer(40, BOX, ACTION, device="cpu", alpha=1.0, eps=0.0)
    add(buffer, 1, 10)
    buffer.update_priorities(np.arange(10), np.full(10, 3.0))
    buffer.pos = 20
    np.testing.assert_allclose(buffer._ring._get_leaves(np.arange(20)), 3)
    buffer.pos = 5
    buffer.pos = 8
    np.testing.assert_allclose(buffer._ring._get_leaves(np.arange(8)), 3)
    buffer.update_priorities(np.arange(8), np.arange(8) + 1.0)
    counts = np.bincount(buffer.sample(36_000).indexes, minlength=8)
    np.testing.assert_allclose(counts, 1000 * (np.arange(8) + 1), rtol=0.2)
    buffer.full = True
    assert len(np.unique(buffer.sample(2000).indexes)) == 40


NAMES = [*ARRAYS, "pos", "full"]


@pytest.mark.parametrize("base", [sb3.ReplayBuffer, sb3.HerReplayBuffer, cleanrl.ReplayBuffer])
@pytest.mark.parametrize("name", [*NAMES, *REFUSED])
def test_a_subclass_cannot_keep_the_state_of_the_ring_elsewhere(base, name):
    pair = next(pair for pair in PAIRS.values() if pair.ours is base)
    kind = type("Elsewhere", (base,), {name: property(lambda self: 1, lambda self, value: None)})
    with pytest.raises(TypeError, match=f"Elsewhere must not define {name}"):
        pair.make(kind)


def test_a_buffer_may_be_cleared_between_two_tasks():
    model = SAC("MlpPolicy", "Pendulum-v1", replay_buffer_class=sb3.ReplayBuffer, buffer_size=500, device="cpu")
    model.learn(90)
    model.replay_buffer.rewards[:] = -777
    model.replay_buffer.pos, model.replay_buffer.full = 0, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.learn(30, reset_num_timesteps=False)
    assert model.replay_buffer.size() == 30
    assert -777 not in drawn(model.replay_buffer)


FLAGS = {
    sb3.ReplayBuffer: ("optimize_memory_usage", "handle_timeout_termination", "exact"),
    sb3.PrioritizedReplayBuffer: ("optimize_memory_usage", "handle_timeout_termination", "check_for_update"),
    cleanrl.ReplayBuffer: ("optimize_memory_usage", "handle_timeout_termination", "exact"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FLAGS.items() for name in names])
def test_a_string_is_refused_as_a_flag(kind, name):
    with pytest.raises(TypeError, match=f"{name} must be a bool, got 'no'"):
        kind(8, BOX, ACTION, device="cpu", **{name: "no"})


def test_a_string_is_refused_as_a_flag_of_prioritized_dqn():
    with pytest.raises(TypeError, match="double must be a bool, got 'no'"):
        sb3.PrioritizedDQN("MlpPolicy", "CartPole-v1", double="no")
