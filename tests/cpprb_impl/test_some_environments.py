"""Rows of several environments never share a window, even if each call of `add` has rows of only some environments."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import cpprb_impl as m

FIELDS = {"obs": {"shape": 2}, "next_obs": {"shape": 2}, "rew": {}, "done": {}, "truncated": {}, "discount": {}}
N_ENVS = 3
CLASSES = [m.ReplayBuffer, m.PrioritizedReplayBuffer, m.MPReplayBuffer, m.MPPrioritizedReplayBuffer]
NSTEP = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs", "truncated": "truncated", "discount": "discount"}
STORED_ONCE = {"next_of": "obs"}


def fields(nstep, once):
    left_out = (() if nstep else ("discount",)) + (("next_obs",) if once else ())
    return {name: field for name, field in FIELDS.items() if name not in left_out}


def make(kind, nstep=NSTEP, once=False, n_envs=N_ENVS, **options):
    more = STORED_ONCE if once else {}
    return kind(600, fields(nstep, once), Nstep=nstep, n_envs=n_envs, **more, **options)


class Environment:
    """Episodes of various lengths. obs contains environment and time, so that no two are equal."""

    def __init__(self, number: int) -> None:
        self.number, self.time, self.left = number, 0, 4 + number

    def step(self) -> dict[str, np.ndarray]:
        self.left -= 1
        row = {
            "obs": [self.number, self.time],
            "next_obs": [self.number, self.time + 1],
            "rew": self.time % 7,
            "done": self.left == 0 and self.time % 2,
            "truncated": self.left == 0 and not self.time % 2,
        }
        self.time += 1
        if self.left == 0:
            self.left, self.time = 3 + self.time % 5, self.time + 1
        return {name: np.array(value, np.float32) for name, value in row.items()}


def calls(count=60, seed=0):
    """Return the arguments of each call of add: environments, and a row of each."""
    random = np.random.default_rng(seed)
    environments = [Environment(number) for number in range(N_ENVS)]
    for call in range(count):
        size = random.integers(1, N_ENVS + 1) if call > 5 else N_ENVS  # at first all environments, as in a usual loop
        ids = random.choice(N_ENVS, size, replace=False) if size < N_ENVS else np.arange(N_ENVS)
        rows = [environments[number].step() for number in ids]
        yield ids, {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def contents(*buffers):
    rows = []
    for buffer in buffers:
        columns = buffer.get_all_transitions()
        rows += [
            tuple(np.concatenate([columns[name][i].ravel() for name in sorted(columns)]).tolist())
            for i in range(buffer.get_stored_size())
        ]
    return sorted(rows)


def alone(kind, nstep, once):
    """Return one buffer per environment, with the same rows."""
    buffers = [make(kind, nstep, once, n_envs=1) for _ in range(N_ENVS)]
    for ids, rows in calls():
        for at, number in enumerate(ids):
            buffers[number].add(**{name: value[at] for name, value in rows.items()})
    return buffers


def as_mask(ids, rows):
    mask = np.zeros(N_ENVS, bool)
    mask[ids] = True
    order = np.argsort(ids)
    return mask, {name: value[order] for name, value in rows.items()}


def as_mask_of_all(ids, rows):
    mask, _ = as_mask(ids, rows)
    whole = {name: np.full((N_ENVS, *value.shape[1:]), 77, value.dtype) for name, value in rows.items()}
    for name, value in rows.items():
        whole[name][ids] = value
    return mask, whole


WAYS = {"ids": lambda ids, rows: (ids, rows), "list": lambda ids, rows: (ids.tolist(), rows), "mask": as_mask}
WAYS["mask of all"] = as_mask_of_all


STACKS = {"stack_compress": "obs"}
FEW = {"stacks": STACKS, "stacks and their next": {**STACKS, "next_of": "obs"}, "next": {"next_of": "obs"}}
FEW_CASES = [(kind, options) for kind in CLASSES for options in FEW.values()]
FEW_CASES += [(kind, {**FEW["stacks and their next"], "compress": "lz4"}) for kind in CLASSES[:2]]


@pytest.mark.parametrize(("kind", "options"), FEW_CASES)
def test_the_first_rows_may_belong_to_few_environments(kind, options):
    """There are then fewer rows than environments that could share frames."""
    buffer = kind(30, {"obs": {"shape": 4}, "id": {}}, n_envs=3, **options)
    for _ in range(2):
        random, added = np.random.default_rng(0), []
        for number in range(50):
            obs = np.arange(4.0) + number
            row = {"obs": obs, "id": number} | ({"next_obs": obs + 1} if "next_of" in options else {})
            buffer.add(env_ids=[1 if number < 20 else random.integers(3)], **row)
            added.append(row)
            stored = buffer.get_all_transitions()
            for at, old in enumerate(stored["id"].ravel().astype(int)):
                for name, value in added[old].items():
                    np.testing.assert_array_equal(stored[name][at].ravel(), value)
        assert buffer.get_stored_size() == 30
        buffer.clear()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_rows_are_those_of_a_buffer_for_each_environment(kind, nstep, once, way):
    buffer = make(kind, nstep, once)
    for ids, rows in calls():
        env_ids, given = WAYS[way](ids, rows)
        buffer.add(env_ids=env_ids, **given)
    others = alone(kind, nstep, once)
    assert contents(buffer) == contents(*others)
    for each in (buffer, *others):
        each.on_episode_end()
    assert contents(buffer) == contents(*others)


def saved_and_loaded(buffer):
    stream = io.BytesIO()
    buffer.save_transitions(stream)
    stream.seek(0)
    twin = make(type(buffer), (buffer.is_Nstep() and NSTEP) or None)
    twin.load_transitions(stream)
    return twin


@pytest.mark.parametrize("way", [copy.deepcopy, copy.copy, lambda b: pickle.loads(pickle.dumps(b)), saved_and_loaded])
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES[:2])
def test_copies_and_files_keep_the_pending_steps_of_each_environment(kind, nstep, way):
    buffer = make(kind, nstep)
    for ids, rows in calls():
        buffer.add(env_ids=ids, **rows)
        buffer = way(buffer)
    others = alone(kind, nstep, False)
    for each in (buffer, *others):
        each.on_episode_end()
    assert contents(buffer) == contents(*others)


@pytest.mark.parametrize("kind", CLASSES)
def test_clear_discards_the_pending_steps(kind):
    buffer = make(kind)
    for ids, rows in calls(8):
        buffer.add(env_ids=ids, **rows)
    buffer.clear()
    buffer.on_episode_end()
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize(
    ("env_ids", "rows", "error", "words"),
    [
        ([0, 3], 2, IndexError, r"env_ids\[1\] must be from 0 to 2, got 3"),
        ([-1], 1, IndexError, r"env_ids\[0\] must be from 0 to 2, got -1"),
        ([0], 2, ValueError, "env_ids must have one value per row, got 1 values for 2 rows"),
        ([[0, 1]], 2, ValueError, "env_ids must have the shape"),
        ([0.0, 1.0], 2, TypeError, "env_ids must be ints, or a mask of 3 bools"),
        ([True, False], 1, ValueError, r"env_ids must have the shape \(3,\) as a mask"),
    ],
)
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_bad_env_ids_change_nothing(kind, nstep, env_ids, rows, error, words):
    buffer = make(kind, nstep)
    row = {name: value[:rows] for name, value in next(iter(calls()))[1].items()}
    with pytest.raises(error, match=words):
        buffer.add(env_ids=env_ids, **row)
    buffer.on_episode_end()
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("options", [{}, {"autoreset": "next_step"}], ids=str)
@pytest.mark.parametrize("dtype", ["list", "uint8", "int64"])
@pytest.mark.parametrize("mask", [[1, 0, 1], [0, 0, 0], [0, 1, 0, 1], [1, 1]], ids=str)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_mask_that_does_not_contain_bools_is_refused(kind, mask, dtype, options):
    """Otherwise, its zeros and ones would be taken as environments, whose rewards are summed."""
    buffer = kind(24, {"rew": {}, "done": {}}, n_envs=len(mask), Nstep={"size": 2, "rew": "rew"}, **options)
    given = mask if dtype == "list" else np.array(mask, dtype)
    with pytest.raises(ValueError, match=r"env_ids look like an integer mask, got .*: pass a mask as bools or, if"):
        buffer.add(env_ids=given, rew=np.ones(len(mask)), done=np.zeros(len(mask)))
    buffer.on_episode_end()
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("options", [{}, {"autoreset": "next_step"}], ids=str)
@pytest.mark.parametrize(
    ("n_envs", "ids"),
    [
        (1, [0]),
        (2, [0, 1]),
        (2, [1, 0]),
        (2, [1, 1, 1]),
        (3, [0, 0]),
        (3, [0, 2, 0]),
        (3, [1, 1, 1, 0]),
        (3, [2, 2, 2]),
    ],
)
@pytest.mark.parametrize("kind", CLASSES)
def test_env_ids_may_contain_an_environment_several_times(kind, n_envs, ids, options):
    """The rows of that environment are then in chronological order."""
    fields = {"env": {}, "rew": {}, "done": {}}
    buffer = kind(24, fields, n_envs=n_envs, Nstep={"size": 2, "rew": "rew", "gamma": 1.0}, **options)
    buffer.add(env_ids=ids, env=ids, rew=10.0 ** np.arange(len(ids)), done=np.zeros(len(ids)))
    buffer.on_episode_end()
    kept = buffer.get_all_transitions()
    windows = []
    for env in range(n_envs):
        rewards = [10.0**at for at, number in enumerate(ids) if number == env]
        windows += [(env, sum(rewards[first : first + 2])) for first in range(len(rewards))]
    assert sorted(zip(kept["env"].ravel(), kept["rew"].ravel(), strict=True)) == sorted(windows)


def test_rows_of_some_environments_without_env_ids_are_refused():
    buffer = make(m.ReplayBuffer)
    with pytest.raises(ValueError, match="pass env_ids"):
        buffer.add(**{name: value[:2] for name, value in next(iter(calls()))[1].items()})


@pytest.mark.parametrize("option", [{"n_envs": 2}, {"autoreset": "next_step"}])
def test_hindsight_buffers_refuse_several_environments(option):
    env_dict = {"obs": {}, "act": {}, "next_obs": {}, "done": {}}
    with pytest.raises(
        ValueError, match=f"{next(iter(option))} must not be given.*one episode at a time: make one buffer per env"
    ):
        m.HindsightReplayBuffer(100, env_dict, 10, lambda s, a, g: s[:, 0], prioritized=False, **option)


def next_step_calls(count=60):
    """Return all rows of environments that begin a new episode in the step after the end of the previous one."""
    environments, over = [Environment(number) for number in range(N_ENVS)], [None] * N_ENVS
    for _ in range(count):
        rows, real = [], []
        for number, environment in enumerate(environments):
            if over[number] is None:
                row = environment.step()
                real.append(True)
                over[number] = row if row["done"] or row["truncated"] else None
            else:
                new = np.array([number, environment.time], np.float32)
                row = {**over[number], "obs": over[number]["next_obs"], "next_obs": new, "rew": np.float32(0)}
                row |= {"done": np.float32(0), "truncated": np.float32(0)}
                real.append(False)
                over[number] = None
            rows.append(row)
        yield np.array(real), {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("way", [lambda b: b, lambda b: pickle.loads(pickle.dumps(b))])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("nstep", [None, NSTEP])
@pytest.mark.parametrize("kind", CLASSES)
def test_autoreset_skips_the_step_after_each_episode(kind, nstep, once, way):
    if "MP" in kind.__name__:
        way = lambda b: b  # noqa: E731
    buffer, other = make(kind, nstep, once, autoreset="next_step"), make(kind, nstep, once)
    for real, rows in next_step_calls():
        buffer.add(**rows)
        other.add(env_ids=real, **rows)
        buffer = way(buffer)
    assert contents(buffer) == contents(other)
    obs, next_obs = (buffer.get_all_transitions()[name] for name in ("obs", "next_obs"))
    assert (obs[:, 0] == next_obs[:, 0]).all() and len(obs) > 100


def test_files_record_which_episodes_are_over():
    options = {"nstep": None, "autoreset": "next_step"}
    buffer, other = make(m.ReplayBuffer, **options), make(m.ReplayBuffer, **options)
    for _, rows in next_step_calls():
        buffer.add(**rows)
        other.add(**rows)
        stream = io.BytesIO()
        buffer.save_transitions(stream)
        stream.seek(0)
        buffer = make(m.ReplayBuffer, **options)
        buffer.load_transitions(stream)
    assert contents(buffer) == contents(other)


@pytest.mark.parametrize("kind", CLASSES)
def test_bad_values_of_autoreset_are_refused(kind):
    with pytest.raises(ValueError, match="autoreset must be 'next_step' or None, got 'same_step'"):
        make(kind, autoreset="same_step")
    with pytest.raises(ValueError, match="autoreset needs a field that marks the end of an episode"):
        kind(6, {"x": {}}, autoreset="next_step")
