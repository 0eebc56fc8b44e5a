"""The models of training runs, and rows from random play for their buffers."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from adapters.base import WrongAnswer
from adapters.training_arm import TrainingArm
from suites.paired_training.tasks import TrainingTask

Row = tuple[Any, ...]  # the arguments of a buffer's add: obs, next_obs, action, reward, done, infos
# Size of the buffer whose answers are checked. It is not full, since a full buffer may leave out one row.
ROWS, CAPACITY = 300, 512
BATCH = 128
BATCHES = 60  # enough to draw all rows, except in one of 10^8 checks


def make_env(task: TrainingTask, seed: int) -> Any:
    """Return one environment in the form that the algorithm sees. Atari's have stacks of four frames, channels first,
    as for DQN."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

    with contextlib.chdir(tempfile.gettempdir()):  # where MuJoCo may write its log
        if not task.learner.images:
            return make_vec_env(task.env, seed=seed)
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        return VecTransposeImage(VecFrameStack(make_atari_env(task.env, seed=seed), 4))


def make_model(task: TrainingTask, arm: type[TrainingArm], env: Any, seed: int, capacity: int | None = None) -> Any:
    """Return the untrained model, whose `replay_buffer` has this capacity, or the task's if it is None."""
    from stable_baselines3.common.logger import Logger

    kind, arguments = arm.algorithm(task.learner)
    options = {**task.options, **arguments}
    if capacity is not None:
        options["buffer_size"] = capacity
    model = kind(task.policy, env, seed=seed, device="cpu", **copy.deepcopy(options))
    model.set_logger(Logger(None, []))  # its own logger makes a folder for each training run
    return model


def play(env: Any, seed: int, count: int) -> list[Row]:
    """Return the rows that Stable-Baselines3 would add to its buffer in `count` steps with random actions."""
    env.action_space.seed(seed)
    obs, rows = env.reset().copy(), []
    for _ in range(count):
        action = np.array([env.action_space.sample()])
        new_obs, reward, done, infos = env.step(action)
        new_obs = new_obs.copy()
        next_obs = infos[0]["terminal_observation"][np.newaxis] if done[0] else new_obs
        rows.append((obs, next_obs, action, reward, done, infos))
        obs = new_obs
    return rows


def add(buffer: Any, row: Row) -> None:
    """Add copies of a row's arrays to a buffer, which might keep references to them."""
    buffer.add(*(each.copy() for each in row[:-1]), row[-1])


def returns_of(rows: list[Row], n_steps: int, gamma: float) -> Iterator[Row]:
    """Yield each row with the discounted rewards of up to `n_steps` steps, and with the observation and end that
    followed the last of them.

    The sum does not go beyond the end of an episode or the newest row.
    """
    for first in range(len(rows)):
        window = rows[first : first + n_steps]
        ends = (k for k, (*_, done, _) in enumerate(window, 1) if done[0])
        window = window[: next(ends, n_steps)]
        rewards = [np.float64(np.float32(reward[0])) * gamma**k for k, (_, _, _, reward, _, _) in enumerate(window)]
        obs, _, action, *_ = window[0]
        _, next_obs, _, _, done, infos = window[-1]
        yield obs, next_obs, action, np.array([sum(rewards)]), done, infos


def check_answers(task: TrainingTask, arm: type[TrainingArm], seed: int) -> None:
    """Raise `WrongAnswer` unless the buffer returns each row that was added, and no other rows."""
    env = make_env(task, seed)
    buffer = make_model(task, arm, env, seed, CAPACITY).replay_buffer
    added = set()
    rows = play(env, seed, ROWS)
    for row in rows:
        add(buffer, row)
    for row in returns_of(rows, arm.n_steps, task.options.get("gamma", 0.99)):
        added.add(_expected(task, arm, row))
    drawn: set[bytes] = set()
    for _ in range(BATCHES):
        drawn.update(_drawn(task, arm, buffer.sample(BATCH)))
    env.close()
    if wrong := drawn - added:
        raise WrongAnswer(f"{len(wrong)} of {len(drawn)} distinct sampled rows had never been added")
    if missing := added - drawn:
        raise WrongAnswer(
            f"{len(missing)} of {len(added)} distinct added rows were never drawn in {BATCHES * BATCH:,} draws"
        )


def _expected(task: TrainingTask, arm: type[TrainingArm], row: Row) -> bytes:
    obs, next_obs, action, reward, done, infos = row
    is_timeout = arm.handles_timeouts and infos[0].get("TimeLimit.truncated", False)
    return _bytes(task, arm, obs[0], action[0], next_obs[0], reward[0], float(done[0] and not is_timeout))


def _drawn(task: TrainingTask, arm: type[TrainingArm], batch: Any) -> Iterator[bytes]:
    columns = (batch.observations, batch.actions, batch.next_observations, batch.rewards, batch.dones)
    for row in zip(*(column.numpy() for column in columns), strict=True):
        yield _bytes(task, arm, *row)


def _bytes(
    task: TrainingTask, arm: type[TrainingArm], obs: Any, action: Any, next_obs: Any, reward: Any, done: Any
) -> bytes:
    kinds = task.shapes
    stored = arm.keeps_last_next_obs or not done
    parts = (
        np.asarray(obs, kinds.obs_dtype),
        np.asarray(action, kinds.act_dtype),
        np.asarray(next_obs if stored else 0, kinds.obs_dtype),
        np.asarray(reward, np.float32),
        np.asarray(done, np.float32),
    )
    return b"".join(part.tobytes() for part in parts)
