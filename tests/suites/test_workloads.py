from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from suites import workloads
from suites.workloads import cartpole, recording
from suites.workloads.recipes import RECIPES
from suites.workloads.recording import Slices

from .conftest import needs_atari

COUNT = 300
#: Rows that take long to record, since each has a picture or eighty steps.
ROWS = {"CartPole-v1/image": 60, "CartPole-v1/slices": 60}
NAMES = [pytest.param(name, marks=needs_atari if name.startswith("ALE/") else ()) for name in workloads.NAMES]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return the cache of tests that read a recording of COUNT rows."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_a_function_of_its_seed(name, cache, tmp_path):
    rows = ROWS.get(name, COUNT)
    first = workloads.load(name, rows, cache=cache)
    again = workloads.load(name, rows, cache=tmp_path)
    other = workloads.load(name, rows, seed=2, cache=tmp_path)
    assert first.sha256 == again.sha256 != other.sha256
    assert all(np.array_equal(first.columns[key], again.columns[key]) for key in first.columns)
    assert first.transitions == rows
    assert first.row_bytes == sum(column.nbytes for column in first.columns.values()) // rows


@pytest.mark.parametrize("name", NAMES)
def test_the_cache_returns_the_recording(name, tmp_path, monkeypatch):
    recorded = workloads.load(name, 20, cache=tmp_path)
    monkeypatch.setattr(workloads, "record", None)
    cached = workloads.load(name, 20, cache=tmp_path)
    assert cached.sha256 == recorded.sha256
    assert all(np.array_equal(recorded.columns[key], cached.columns[key]) for key in recorded.columns)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "swapped"])
def test_a_damaged_recording_in_the_cache_is_replaced(damage, tmp_path, capfd):
    sound = workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    if damage == "flipped":
        file.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    elif damage == "cut":
        file.write_bytes(whole[:-100])
    elif damage == "empty":
        file.write_bytes(b"")
    else:  # a complete file with a wrong checksum
        raw = dict(np.load(file))
        raw["rew"] = raw["rew"] + 1
        np.savez_compressed(file, **raw)
    again = workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    assert again.sha256 == sound.sha256
    assert "recording it again" in capfd.readouterr().err
    workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    assert capfd.readouterr().err == ""


def test_a_workload_that_cannot_be_recorded_on_this_machine_is_left_out_and_reported(monkeypatch, capfd):
    name = "ALE/Seaquest-v5"
    monkeypatch.setitem(RECIPES, name, replace(RECIPES[name], needs="no_such_module"))
    assert workloads.possible(["CartPole-v1", name, "certified"]) == ["CartPole-v1", "certified"]
    assert capfd.readouterr().err == f"{name} is left out: no_such_module is not installed\n"


@needs_atari
def test_seaquest_matches_the_stacks_of_gymnasium(tmp_path):
    from gymnasium.wrappers import FrameStackObservation

    workload = workloads.load("ALE/Seaquest-v5", 800, seed=3, cache=tmp_path)
    assert workload.fields["obs"].shape == (84, 84, 4) and workload.fields["obs"].dtype == "uint8"
    assert workload.columns["done"].any(), "the recording should span episodes"
    env = FrameStackObservation(RECIPES[workload.name].make(), stack_size=4)
    obs, _ = env.reset(seed=3)
    for row in range(workload.transitions):
        assert np.array_equal(np.moveaxis(obs, 0, -1), workload.columns["obs"][row])
        obs, rew, terminated, truncated, _ = env.step(workload.columns["act"][row])
        assert np.array_equal(np.moveaxis(obs, 0, -1), workload.columns["next_obs"][row])
        assert rew == workload.columns["rew"][row]
        assert (terminated or truncated) == workload.columns["done"][row]
        if terminated or truncated:
            obs, _ = env.reset()


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_the_rows_of_the_columns(name, cache):
    workload = workloads.load(name, rows := ROWS.get(name, COUNT), cache=cache)
    steps = [step._asdict() if workload.is_plain else step for step in workload.steps()]
    assert len(steps) == rows
    for row, step in enumerate(steps):
        for key, value in step.items():
            column = workload.columns[key]
            assert np.array_equal(value, column[row])
            if column.ndim == 1:
                assert type(value) in (bool, int, float)
            else:
                assert value.base is None and value.dtype == column.dtype
    following = {key: key.replace("next_", "") for key in steps[0] if key.startswith("next_")}
    assert all(steps[0][key] is steps[1][now] for key, now in following.items())
    assert bool(following) == (name != "CartPole-v1/slices")


def test_slices_overlap_by_forty_steps_and_stay_within_their_episode(cache):
    rows = workloads.load("CartPole-v1/slices", COUNT, cache=cache).columns
    mask, done = rows["mask"], rows["done"]
    lengths = mask.sum(axis=1)
    assert {name: column.shape for name, column in rows.items()} == {
        "obs": (COUNT, 80, 4),
        **dict.fromkeys(("act", "rew", "done", "mask"), (COUNT, 80)),
    }
    assert all(mask[row, :length].all() for row, length in enumerate(lengths))  # padding is at the end
    assert all(not column[~mask].any() for column in rows.values())
    ends = done.any(axis=1)
    assert np.array_equal(ends[ends], done[ends, lengths[ends] - 1])  # a slice that ends an episode has its last step
    assert (lengths[~ends] == 80).all() and (lengths[ends] > 0).all() and 1 < ends.sum() < COUNT
    for row in np.flatnonzero(~ends)[:-1]:  # the next slice continues the same episode
        assert lengths[row + 1] > 40, "a slice of nothing but steps that the one before it has"
        for name in ("obs", "act", "rew", "done"):
            assert np.array_equal(rows[name][row, 40:], rows[name][row + 1, :40])
        assert not np.array_equal(rows["obs"][row, 39:79], rows["obs"][row + 1, :40])


@pytest.mark.parametrize(("steps", "begins"), [(1, [0]), (80, [0]), (81, [0, 40]), (120, [0, 40]), (121, [0, 40, 80])])
def test_slices_of_an_episode_begin_at_multiples_of_the_stride(steps, begins):
    assert list(Slices(80, 40).of_episode(steps)) == begins


def test_dictionary_observations_match_the_environment(tmp_path):
    workload = workloads.load("CartPole-v1/image", 60, seed=3, cache=tmp_path)
    columns = workload.columns
    assert tuple(columns) == ("obs.image", "obs.state", "act", "rew", "next_obs.image", "next_obs.state", "done")
    env = RECIPES[workload.name].make()
    obs, _ = env.reset(seed=3)
    for row in range(60):
        assert all(np.array_equal(obs[part], columns[f"obs.{part}"][row]) for part in ("image", "state"))
        obs, _, terminated, truncated, _ = env.step(columns["act"][row])
        assert all(np.array_equal(obs[part], columns[f"next_obs.{part}"][row]) for part in ("image", "state"))
        assert (terminated or truncated) == columns["done"][row]
        if terminated or truncated:
            obs, _ = env.reset()
    assert columns["done"].any() and len(np.unique(columns["obs.image"], axis=0)) > 10


@pytest.mark.parametrize(("name", "observed", "acted"), [("HalfCheetah-v5", 17, 6), ("Humanoid-v4", 376, 17)])
def test_mujoco_has_continuous_actions_and_is_stored_as_float32(name, observed, acted, cache):
    columns = workloads.load(name, COUNT, cache=cache).columns
    assert columns["obs"].shape == (COUNT, observed) and columns["act"].shape == (COUNT, acted)
    assert {column.dtype.name for column in columns.values()} == {"float32", "bool"}


def test_the_first_rows_of_a_longer_recording_are_those_of_the_shorter_one(cache):
    for name in ("CartPole-v1", "CartPole-v1/slices"):
        long, short = (workloads.load(name, rows, cache=cache).columns for rows in (COUNT, 100))
        assert all(np.array_equal(long[key][:100], short[key]) for key in long)


def test_observations_of_an_environment_that_reuses_arrays_are_copied():
    class Reusing(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1e9, 1e9, (2,), np.float64)
        action_space = gymnasium.spaces.MultiBinary(3)

        def reset(self, *, seed=None, options=None):
            self.obs = np.zeros(2)
            return self.obs, {}

        def step(self, action):
            self.obs += 1
            return self.obs, 0.5, self.obs[0] == 5, False, {}

    columns = recording.columns_of(recording.record(Reusing(), 7, seed=0))
    assert columns["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert columns["next_obs"][:, 0].tolist() == [1, 2, 3, 4, 5, 1, 2]
    assert columns["obs"].dtype == np.float32 and columns["act"].shape == (7, 3) and columns["act"].dtype == np.int8


def test_parts_of_nested_spaces_have_names_and_unshaped_parts_are_reported():
    from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple

    parts = Dict({"arm": Tuple((Discrete(3), Box(0, 1, (2,), np.float64))), "eye": Box(0, 255, (4, 4), np.uint8)})
    assert recording.dtypes_of(parts, "obs") == {"obs.arm.0": np.int32, "obs.arm.1": np.float32, "obs.eye": np.uint8}
    assert recording.dtypes_of(MultiDiscrete([2, 3]), "act") == {"act": np.int32}
    with pytest.raises(recording.CannotBeStored, match=r"obs\.mission must have a space of fixed shape .*, got Text"):
        recording.dtypes_of(Dict({"mission": Text(10)}), "obs")


def test_the_error_for_an_unknown_workload_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"unknown workload 'Pong'.*CartPole-v1.*Pendulum-v1.*ALE/Seaquest-v5"):
        workloads.load("Pong", cache=tmp_path)


def test_cartpole_distinguishes_real_steps_from_torn_ones(cache):
    rows = workloads.load("CartPole-v1", COUNT, cache=cache).columns
    assert cartpole.is_step(rows).all()
    for key in ("obs", "next_obs"):
        torn = rows | {key: np.roll(rows[key], 1, axis=0)}
        assert not cartpole.is_step(torn).any()
    assert not cartpole.is_step(rows | {"act": 1 - rows["act"]}).any()
    assert not cartpole.is_step(rows | {"done": ~rows["done"]}).any()
    assert not cartpole.is_step({key: np.zeros_like(column) for key, column in rows.items()}).any()
    as_columns = {key: column.reshape(COUNT, -1) for key, column in rows.items()}
    assert cartpole.is_step(as_columns).all()
