"""Explorers' real environments, played with random actions, and checks of the resulting rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from adapters.base import Array, Columns
from suites.workloads import Workload, cartpole
from suites.workloads.recipes import RECIPES

Transition = tuple[Array, int, float, Array, bool]  # obs, act, rew, next_obs, done


def play(workload: str, stack: int, seed: int) -> Iterator[Transition]:
    """Yield an endless series of transitions of the workload's environment; the last axis of an observation is its
    `stack`."""
    import gymnasium

    env = RECIPES[workload].make()
    if stack > 1:
        stacked = gymnasium.wrappers.FrameStackObservation(env, stack, padding_type="reset")
        env = gymnasium.wrappers.TransformObservation(stacked, lambda obs: np.moveaxis(obs, 0, -1), None)
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    while True:
        act = env.action_space.sample()
        next_obs, rew, terminated, truncated, _ = env.step(act)
        yield obs, act, float(rew), next_obs, terminated
        obs = env.reset()[0] if terminated or truncated else next_obs


def frames_follow(rows: Columns) -> Array:
    """Return, for each row, whether next_obs is obs without its oldest frame, followed by a new one. A row that was
    never written is black, unlike any of Seaquest's frames."""
    follow = np.all(rows["obs"][..., 1:] == rows["next_obs"][..., :-1], axis=(1, 2, 3))
    return follow & rows["obs"].any(axis=(1, 2, 3))


def check_of(recording: Workload) -> tuple[Callable[[Columns], Array], str]:
    """Return a function that checks which rows are whole, and a description of such rows."""
    if recording.stack > 1:
        return frames_follow, "pairs of successive stacks of frames"
    return cartpole.is_step, "steps of CartPole"
