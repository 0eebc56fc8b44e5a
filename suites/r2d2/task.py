"""A task that needs memory: answer with a cue that was seen 11 to 21 steps before."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from adapters.base import Array

ROUNDS = 4  # of an episode
DELAYS = (10, 20)  # the fewest and the most steps between a cue and its question
OBS, ACTIONS = 3, 2
BEST = float(ROUNDS)  # the return of an agent that remembers each cue; guesses yield half of it
SOLVED = 0.9 * BEST  # the mean return over 100 greedy episodes at which the task counts as solved


class Recall(gymnasium.Env):
    """Each round shows a cue, then noise, then a question; the answer that equals the cue is rewarded with 1.

    An observation is (signal, is it a cue?, is it a question?), float32 (3,). The signal is -1 or 1 at random at every
    step, so that only the flag distinguishes a cue from noise. The actions are the answers 0 for -1 and 1 for 1; they
    have no effect except at questions. An episode is terminated after `ROUNDS` rounds.
    """

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (OBS,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict]:
        super().reset(seed=seed)
        self.round, self.left = 0, -1
        return self._observe(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict]:
        is_question = self.left == 0
        reward = float(is_question and action == self.answer)
        if is_question:
            self.round, self.left = self.round + 1, -1
        else:
            self.left -= 1
        ended = self.round == ROUNDS
        return np.zeros(OBS, np.float32) if ended else self._observe(), reward, ended, False, {}

    def _observe(self) -> Array:
        signal = int(self.np_random.integers(2))
        is_cue = self.left == -1
        if is_cue:
            self.answer, self.left = signal, int(self.np_random.integers(*DELAYS, endpoint=True)) + 1
        return np.array([2 * signal - 1, is_cue, self.left == 0], np.float32)


def environments(count: int) -> SyncVectorEnv:
    return SyncVectorEnv([Recall] * count, autoreset_mode=AutoresetMode.DISABLED)
