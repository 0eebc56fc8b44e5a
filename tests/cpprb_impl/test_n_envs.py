"""Buffers to which several environments add in turn."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

STACK = {"obs": {"shape": (8, 8, 4), "dtype": np.uint8}, "id": {"dtype": np.int64}}
SHARED = {"next_of": "obs", "stack_compress": "obs"}
STEPS = {
    "obs": {},
    "rew": {"dtype": np.float64},
    "next_obs": {},
    "done": {"dtype": bool},
    "truncated": {"dtype": bool},
    "discount": {"dtype": np.float64},
}
NSTEP = {"size": 3, "gamma": 0.9, "rew": "rew", "next": "next_obs", "truncated": "truncated", "discount": "discount"}


def frames(n_envs: int, steps: int, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Yield steps of environments whose observations are stacks of random frames; episodes end at random."""
    random = np.random.default_rng(seed)
    obs = random.integers(0, 255, (n_envs, 8, 8, 4), np.uint8)
    for step in range(steps):
        new = random.integers(0, 255, (n_envs, 8, 8, 1), np.uint8)
        next_obs = np.concatenate([obs[..., 1:], new], axis=-1)
        yield {"obs": obs, "next_obs": next_obs, "id": step * n_envs + np.arange(n_envs)}
        ended = random.random(n_envs) < 0.05
        obs = next_obs.copy()
        obs[ended] = random.integers(0, 255, (ended.sum(), 8, 8, 4), np.uint8)


def numbers(n_envs: int, steps: int, seed: int = 0) -> Iterator[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    for step in range(steps):
        obs = 1000.0 * np.arange(n_envs) + step
        ends = random.random((2, n_envs)) < 0.15
        yield {
            "obs": obs,
            "rew": random.normal(size=n_envs),
            "next_obs": obs + 1,
            "done": ends[0],
            "truncated": ends[1] & ~ends[0],
        }


def filled(n_envs: int, size: int = 1000, **options) -> tuple[ReplayBuffer, dict[int, dict[str, np.ndarray]]]:
    """Return a full buffer, to which more steps were added than fit, and the values of each id."""
    buffer, added = ReplayBuffer(size, STACK, n_envs=n_envs, **SHARED, **options), {}
    for step in frames(8, 200):
        buffer.add(**step)
        added |= {int(i): {name: step[name][place] for name in step} for place, i in enumerate(step["id"])}
    return buffer, added


@pytest.mark.parametrize("n_envs", [1, 2, 8])
def test_samples_contain_the_added_rows(n_envs):
    buffer, added = filled(n_envs)
    for rows in (buffer.sample(500), buffer.get_all_transitions()):
        for place, number in enumerate(rows["id"].ravel()):
            for name in ("obs", "next_obs"):
                np.testing.assert_array_equal(rows[name][place], added[int(number)][name])
    assert set(rows["id"].ravel()) == set(range(600, 1600))


def test_environments_share_frames_with_their_own_steps_only():
    def bytes_per_row(buffer: ReplayBuffer) -> float:
        _, stored, *_ = buffer._get_frames("obs")
        return stored / buffer.get_stored_size()

    assert bytes_per_row(filled(8)[0]) < 1.5  # in frames; the first step of an episode needs 5
    assert bytes_per_row(filled(1)[0]) > 4  # the control: consecutive steps belong to different environments


def test_nbytes_includes_frames():
    buffer, _ = filled(8)
    empty = ReplayBuffer(1000, STACK, n_envs=8, **SHARED)
    assert 1000 * 64 < buffer.nbytes - empty.nbytes < 4 * 1000 * 64


def expected(n_envs: int, steps: int) -> list[dict[str, float]]:
    """Return the transitions of each environment, by a loop over its steps."""
    columns = {name: np.array([step[name] for step in numbers(n_envs, steps)]) for name in STEPS if name != "discount"}
    found = []
    for first in range(steps):
        for env in range(n_envs):
            total, discount, last = 0.0, 1.0, first
            for last in range(first, min(first + NSTEP["size"], steps)):
                total += discount * columns["rew"][last, env]
                discount *= NSTEP["gamma"]
                if columns["done"][last, env] or columns["truncated"][last, env]:
                    break
            found.append(
                {
                    "obs": columns["obs"][first, env],
                    "rew": total,
                    "next_obs": columns["next_obs"][last, env],
                    "done": columns["done"][last, env],
                    "truncated": columns["truncated"][last, env],
                    "discount": discount,
                }
            )
    return found


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_each_environment_has_its_own_window(n_envs, at_once, kind):
    buffer = kind(3000, STEPS, Nstep=NSTEP, n_envs=n_envs)
    steps = [*numbers(n_envs, 210)]
    for first in range(0, len(steps), at_once):
        some = steps[first : first + at_once]
        buffer.add(**{name: np.concatenate([step[name] for step in some]) for name in some[0]})
    buffer.on_episode_end()
    rows, wanted = buffer.get_all_transitions(), expected(n_envs, 210)
    for name in STEPS:
        np.testing.assert_allclose(rows[name].ravel(), [row[name] for row in wanted], rtol=1e-12)


def test_copies_and_files_continue_within_windows():
    original = PrioritizedReplayBuffer(30, STEPS, Nstep=NSTEP, n_envs=3, seed=0)
    steps = [*numbers(3, 60)]
    for step in steps[:25]:
        original.add(**step, priorities=np.arange(1.0, 4.0))
    file = io.BytesIO()
    original.save_transitions(file)
    file.seek(0)
    loaded = PrioritizedReplayBuffer(30, STEPS, Nstep=NSTEP, n_envs=3, seed=1)
    loaded.load_transitions(file)
    copies = [loaded, pickle.loads(pickle.dumps(original))]
    for step in steps[25:]:
        for buffer in (original, *copies):
            buffer.add(**step)
    for copy in copies:
        for name, column in original.sample(50).items():
            np.testing.assert_array_equal(column, copy.sample(50)[name]) if name == "obs" else None
        break
    for copy in copies:
        for name, column in original.get_all_transitions().items():
            np.testing.assert_array_equal(column, copy.get_all_transitions()[name])


def test_a_file_with_a_different_number_of_environments_is_refused():
    file = io.BytesIO()
    ReplayBuffer(30, STEPS, Nstep=NSTEP, n_envs=3).save_transitions(file)
    file.seek(0)
    with pytest.raises(ValueError, match=r"Nstep is .*'n_envs': 3.* in the file"):
        ReplayBuffer(30, STEPS, Nstep=NSTEP, n_envs=2).load_transitions(file)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_envs": 0}, ValueError, "n_envs must be at least 1, got 0"),
        ({"n_envs": 7}, ValueError, "size must be a multiple of n_envs=7, got 30"),
        ({"n_envs": 1.5}, TypeError, "n_envs must be an int, got 1.5"),
        ({"Nstep": {**NSTEP, "discount": "done"}}, TypeError, "discount must name a field of floating dtype"),
        ({"Nstep": {**NSTEP, "discount": "rew"}}, TypeError, "discount must name a field of floating dtype"),
        ({"Nstep": {**NSTEP, "discount": ["obs", "discount"]}}, ValueError, "discount must name one field"),
        ({"Nstep": {**NSTEP, "truncated": "cut"}}, KeyError, "truncated must name fields of env_dict, got 'cut'"),
    ],
)
def test_the_error_for_a_bad_option_names_it(options, error, message):
    with pytest.raises(error, match=message):
        ReplayBuffer(30, STEPS, **options)


def test_rows_of_too_few_environments_are_refused():
    buffer = ReplayBuffer(30, STACK, n_envs=3)
    with pytest.raises(ValueError, match=r"one row per environment \(n_envs=3\), or a multiple, got 2 rows"):
        buffer.add(obs=np.zeros((2, 8, 8, 4)), id=[1, 2])
    assert buffer.get_stored_size() == 0


def test_buffers_with_objects_support_only_one_environment():
    with pytest.raises(ValueError, match="need a buffer without fields of Python objects"):
        ReplayBuffer(30, {"info": {"dtype": object}}, n_envs=3)


def test_a_file_with_an_incomplete_step_is_refused(tmp_path):
    """The error names the file, and is raised before the first row is added."""
    saved = ReplayBuffer(20, {"x": {}})
    saved.add(x=np.arange(20))
    saved.save_transitions(tmp_path / "rows")
    buffer = ReplayBuffer(60, {"x": {}}, n_envs=3)
    buffer.add(x=np.arange(3))
    with pytest.raises(ValueError, match=r"rows\.npz: .*must be a multiple of n_envs=3, got 20"):
        buffer.load_transitions(tmp_path / "rows")
    assert buffer.get_stored_size() == 3
