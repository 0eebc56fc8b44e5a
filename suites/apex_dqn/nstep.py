"""N-step transitions with initial priorities, as an explorer of Ape-X computes them (Horgan et al. 2018, section 3)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from adapters.base import Array, Field


class Transition(NamedTuple):
    """One row of the buffer. The learner's target is `rew + discount * max Q(next_obs)`."""

    obs: Array
    act: int
    rew: float  # the discounted sum of up to n rewards
    next_obs: Array
    discount: float  # gamma^k after k steps; 0 if the episode terminated within them


def fields_of(obs_shape: tuple[int, ...]) -> dict[str, Field]:
    """Return the buffer's fields for observations of this shape."""
    return {
        "obs": Field(obs_shape, "float32"),
        "act": Field((), "int32"),
        "rew": Field((), "float32"),
        "next_obs": Field(obs_shape, "float32"),
        "discount": Field((), "float32"),
    }


class _Step(NamedTuple):
    obs: Array
    act: int
    rew: float
    values: Array  # Q(obs, each action)


class NStepWindow:
    """Turns one environment's steps into n-step transitions.

    The priority of a transition is its absolute TD error under the explorer's own network, whose action values the
    explorer has computed anyway in order to act. A window that is cut by the end of an episode yields transitions of
    fewer steps; if the episode was truncated rather than terminated, they still bootstrap from its last observation.
    """

    def __init__(self, n: int, gamma: float) -> None:
        self.n, self.gamma = n, gamma
        self._steps: deque[_Step] = deque()

    def step(self, obs: Array, values: Array, act: int, rew: float) -> tuple[Transition, float] | None:
        """Add a step that was taken from `obs`, whose action values are `values`. Return the transition that `obs`
        completes, and its priority."""
        done = self._first(obs, values, self.gamma**self.n) if len(self._steps) == self.n else None
        self._steps.append(_Step(obs, act, rew, values))
        return done

    def end(self, obs: Array, values: Array, terminated: bool) -> list[tuple[Transition, float]]:
        """End the episode at its last observation; return the remaining transitions and their priorities."""
        left = []
        while self._steps:
            left.append(self._first(obs, values, 0.0 if terminated else self.gamma ** len(self._steps)))
        return left

    def _first(self, obs: Array, values: Array, discount: float) -> tuple[Transition, float]:
        """Remove the oldest step, and return its transition, which leads to `obs`."""
        rew = sum(self.gamma**k * step.rew for k, step in enumerate(self._steps))
        first = self._steps.popleft()
        error = rew + discount * float(np.max(values)) - float(first.values[first.act])
        return Transition(first.obs, first.act, rew, obs, discount), abs(error)
