"""With autoreset or a mask, `add` accepts and refuses the same values as without them."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest

import cpprb_impl as m
from cpprb_impl.integrations.step_buffer import StepBuffer

CLASSES = [m.ReplayBuffer, m.PrioritizedReplayBuffer, m.MPReplayBuffer, m.MPPrioritizedReplayBuffer]
FIELDS = {"obs": {"shape": (2, 3)}, "rew": {}, "done": {}, "truncated": {}}
NSTEP = {"size": 2, "gamma": 0.5, "rew": "rew"}
N_ENVS = 4
OVER = np.array([1, 0, 0, 1])


class Tensor:
    """The part of a PyTorch tensor that `add` uses, in which `size` is a method."""

    def __init__(self, values) -> None:
        self._values = np.asarray(values)

    shape = property(lambda self: self._values.shape)

    def size(self):
        return self.shape

    def __len__(self) -> int:
        return len(self._values)

    def detach(self):
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype)


class NoArray(Tensor):
    """A tensor that NumPy refuses, such as one that needs gradients."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("cannot call numpy() on it")


def make(kind, nstep=None, **options):
    return kind(24, FIELDS, n_envs=N_ENVS, Nstep=nstep, **options)


def row(number=0, over=0, count=N_ENVS, **others):
    ends = np.zeros(count) + over
    obs = 10 * number + np.arange(6 * count).reshape(count, 2, 3)
    return {"obs": obs, "rew": np.arange(count), "done": ends, "truncated": 0 * ends} | others


def stored(buffer, name="obs"):
    return buffer.get_all_transitions()[name].reshape(buffer.get_stored_size(), -1)[:, 0].tolist()


@pytest.mark.parametrize("of", [Tensor, np.ndarray.tolist])
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_tensors_and_lists_are_rows_like_arrays(kind, nstep, of):
    buffers = [make(kind, nstep, autoreset="next_step") for _ in range(2)]
    for number, over in enumerate((OVER, 0, 0)):
        rows = row(number, over)
        buffers[0].add(**rows)
        buffers[1].add(**{name: of(value) for name, value in rows.items()})
    assert stored(buffers[0]) == stored(buffers[1]) and len(stored(buffers[0])) >= 6


@pytest.mark.parametrize("of", [Tensor, np.ndarray.tolist])
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_mask_selects_from_tensors_and_lists_of_all_environments(kind, nstep, of):
    buffer = make(kind, nstep)
    mask = np.array([False, True, False, True])
    buffer.add(env_ids=of(mask), **{name: of(value) for name, value in row().items()})
    buffer.on_episode_end()
    assert sorted(stored(buffer)) == [6, 18]


def test_a_mask_refuses_values_that_numpy_refuses():
    with pytest.raises(ValueError, match=r"obs: cannot call numpy\(\) on it"):
        make(m.ReplayBuffer).add(env_ids=np.arange(4) > 1, **row(obs=NoArray(np.zeros((4, 2, 3)))))


def test_a_mask_leaves_masked_arrays_masked():
    """`add` must treat masked numbers of some environments as it treats masked numbers of all environments."""
    obs = np.ma.masked_array(np.zeros((4, 2, 3)), np.ones((4, 2, 3), bool))
    mask = np.array([True, False, True, True])
    messages = []
    for given in (row(obs=obs), {name: value[mask] for name, value in row(obs=obs).items()}):
        buffer = make(m.ReplayBuffer)
        try:
            buffer.add(env_ids=mask, **given)
        except ValueError as error:
            messages.append(str(error))
        messages.append(stored(buffer))
    assert messages[: len(messages) // 2] == messages[len(messages) // 2 :]


def test_tensors_of_one_number_per_environment_may_have_any_shape():
    """The buffers for Stable-Baselines3 and CleanRL also take observations of a Discrete space as (n_envs, 1)."""
    buffer = StepBuffer.__new__(StepBuffer)
    buffer._shapes, buffer.n_envs = {"": (4,)}, 4
    assert buffer._fit("obs", "", Tensor(np.arange(4)[:, None])).tolist() == [0, 1, 2, 3]


GIVEN = {
    "a missing end": ({"done": None}, KeyError, "'done' missing"),
    "two missing": ({"obs": None, "truncated": None}, KeyError, "'obs', 'truncated' missing"),
    "truncated of another length": ({"truncated": np.zeros(3)}, ValueError, "truncated: 3 rows, but obs has 4"),
    "axes in another order": ({"obs": np.zeros((4, 3, 2))}, ValueError, r"obs: shape \(4, 3, 2\) does not hold rows"),
    "no numbers": ({"rew": ["a"] * 4}, ValueError, "rew"),
    "what NumPy refuses": ({"obs": NoArray(np.zeros((4, 2, 3)))}, ValueError, r"obs: cannot call numpy\(\) on it"),
    "env_ids None": ({"env_ids": None}, TypeError, "env_ids must be ints, or a mask of 4 bools, got None"),
    "too many": ({"env_ids": [3]}, ValueError, "env_ids must have one value per row, got 1 values for 4 rows"),
    "unknown": ({"env_ids": [0, 1, 2, 4]}, IndexError, r"env_ids\[3\] must be from 0 to 3, got 4"),
    "negative": ({"env_ids": [-1, 1, 2, 3]}, IndexError, r"env_ids\[0\] must be from 0 to 3, got -1"),
    "rows of some": (
        row(count=3),
        ValueError,
        r"add\(\) must be given one row per environment \(n_envs=4\), or a multiple, got 3 rows; to add rows of only "
        "some environments, pass env_ids",
    ),
}
PRIORITIES = {
    "one priority": ({"priorities": [1.0]}, "priorities must have one value per row, got 1 values for 4 rows"),
    "a negative one": ({"priorities": [1.0, 1.0, 1.0, -1.0]}, r"priorities\[3\] must be"),
}
GIVEN |= {name: (change, ValueError, words) for name, (change, words) in PRIORITIES.items()}


@pytest.mark.parametrize("over", [0, OVER, 1], ids=["no dummy step", "some", "only"])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_autoreset_refuses_what_add_refuses(kind, nstep, given, over):
    change, error, words = GIVEN[given]
    if given in PRIORITIES and "Prioritized" not in kind.__name__:
        return
    messages, sizes = [], []
    for options in ({}, {"autoreset": "next_step"}):
        buffer = make(kind, nstep, **options)
        buffer.add(**row(0, over))
        before = buffer.get_stored_size()
        with pytest.raises(error, match=words) as raised:
            buffer.add(
                **{name: value for name, value in (row(1) | change).items() if value is not None or "env" in name}
            )
        messages.append(str(raised.value))
        sizes.append(buffer.get_stored_size() - before)
        buffer.add(**row(2))
        assert buffer.get_stored_size() >= before
    assert messages[0] == messages[1] and sizes == [0, 0]


def saved_and_loaded(buffer, kind, nstep):
    stream = io.BytesIO()
    buffer.save_transitions(stream)
    twin = make(kind, nstep, autoreset="next_step")
    stream.seek(0)
    twin.load_transitions(stream)
    return twin


@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_files_record_which_environments_are_about_to_reset(kind, nstep):
    buffer = make(kind, nstep, autoreset="next_step")
    buffer.add(**row(0, OVER))
    twin = saved_and_loaded(buffer, kind, nstep)
    for each in (buffer, twin):
        each.add(**row(1))
        each.on_episode_end()
    assert sorted(stored(buffer)) == sorted(stored(twin)) == [0, 6, 12, 16, 18, 22]


@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_clear_does_not_forget_which_environments_are_about_to_reset(kind, nstep):
    buffer = make(kind, nstep, autoreset="next_step")
    buffer.add(**row(0, OVER))
    buffer.clear()
    buffer.add(**row(1))
    buffer.on_episode_end()
    assert sorted(stored(buffer)) == [16, 22]


def test_a_file_with_a_different_number_of_environments_is_refused():
    buffer = make(m.ReplayBuffer, autoreset="next_step")
    buffer.add(**row())
    stream = io.BytesIO()
    buffer.save_transitions(stream)
    stream.seek(0)
    other = m.ReplayBuffer(24, FIELDS, n_envs=2, autoreset="next_step")
    with pytest.raises(ValueError, match=r"over must be bool of shape \(2,\), got bool of shape \(4,\)"):
        other.load_transitions(stream)


@pytest.mark.parametrize("kind", CLASSES)
def test_only_private_buffers_require_whole_steps_in_a_file(kind):
    shared = "MP" in kind.__name__
    full = kind(10, {"x": {}}, n_envs=4) if shared else kind(12, {"x": {}}, n_envs=4)
    full.add(x=np.arange(8))
    full.add(env_ids=[0, 1, 2], x=[8, 9, 10])
    stream = io.BytesIO()
    full.save_transitions(stream)
    stream.seek(0)
    other = kind(16, {"x": {}}, n_envs=4)
    if shared:
        other.load_transitions(stream)
        assert stored(other, "x") == list(range(1, 11))
    else:
        with pytest.raises(ValueError, match="must be a multiple of n_envs=4, got 11"):
            other.load_transitions(stream)


ONE = {"obs": {}, "act": {}, "next_obs": {}, "done": {}}
OF_OBJECTS = {**ONE, "info": {"dtype": object}}
OF_ONE_ENVIRONMENT = {
    "hindsight": lambda: m.HindsightReplayBuffer(100, ONE, 10, lambda s, a, g: s[:, 0]),
    "hindsight of objects": lambda: m.HindsightReplayBuffer(100, OF_OBJECTS, 10, lambda s, a, g: s[:, 0]),
    "objects": lambda: m.ReplayBuffer(100, {**OF_OBJECTS, "rew": {}}),
    "prioritized objects": lambda: m.PrioritizedReplayBuffer(100, OF_OBJECTS),
    "n-step objects": lambda: m.ReplayBuffer(100, {**OF_OBJECTS, "rew": {}}, Nstep=NSTEP),
}


@pytest.mark.parametrize("make_one", OF_ONE_ENVIRONMENT.values(), ids=OF_ONE_ENVIRONMENT)
def test_the_error_for_env_ids_says_if_there_is_only_one_environment(make_one):
    buffer = make_one()
    rows = {"obs": 0, "act": 0, "next_obs": 0, "done": 0, "rew": 0, "info": None}
    for env_ids in ([0], np.ones(1, bool), None):
        with pytest.raises(ValueError, match=r"env_ids must not be given.*one environment.*make one buffer per"):
            buffer.add(env_ids=env_ids, **rows)
    assert buffer.get_stored_size() == 0


def test_env_ids_may_be_a_field():
    fields = {"env_ids": {}, "info": {"dtype": object}}
    buffer = m.ReplayBuffer(4, fields)
    buffer.add(env_ids=3, info=None)
    resetting = m.ReplayBuffer(4, {"env_ids": {}, "done": {}}, n_envs=2, autoreset="next_step")
    resetting.add(env_ids=[5, 6], done=[0, 1])
    resetting.add(env_ids=[7, 8], done=[0, 0])
    assert stored(buffer, "env_ids") == [3] and stored(resetting, "env_ids") == [5, 6, 7]


@pytest.mark.parametrize("call", ["_add_rows", "_add_of"])
def test_methods_without_env_ids_refuse_the_argument(call):
    buffer = m.ReplayBuffer(4, {"x": {}}, n_envs=2)
    with pytest.raises(RuntimeError, match="env_ids must be passed to"):
        getattr(buffer, call)(*([[0]] if call == "_add_of" else []), env_ids=[0], x=1)
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("kind", [m.ReplayBuffer, m.MPReplayBuffer])
def test_threads_may_each_add_the_steps_of_an_environment(kind):
    buffer = kind(40_000, {"step": {"dtype": int}, "done": {"dtype": bool}}, n_envs=4, autoreset="next_step")

    def play(environment: int) -> None:
        for _ in range(1_500):
            for step in range(5):
                buffer.add(step=step, done=step == 4, env_ids=[environment])
            buffer.add(step=-1, done=False, env_ids=[environment])  # only begins the next episode

    threads = [threading.Thread(target=play, args=(environment,)) for environment in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    steps = buffer.get_all_transitions()["step"]
    assert len(steps) == 4 * 1_500 * 5 and steps.min() == 0
