"""Small environments whose steps show what a buffer must store."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Goals(gym.Env[Any, Any]):
    """Steps towards a goal on a line, with the observations of a goal environment."""

    def __init__(self) -> None:
        box = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def _seen(self) -> dict[str, np.ndarray]:
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved: Any, desired: Any, _info: Any) -> Any:
        return -(np.abs(achieved - desired) > 0.5).astype(np.float32).reshape(-1)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.at, self.steps = np.zeros(1, np.float32), 0
        self.goal = self.np_random.uniform(-3, 3, 1).astype(np.float32)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = np.clip(self.at + action, -10, 10).astype(np.float32)
        self.steps += 1
        reward = float(self.compute_reward(self.at, self.goal, {})[0])
        return self._seen(), reward, reward == 0, self.steps >= 20, {}


class Pictures(gym.Env[Any, Any]):
    """Stacks of four small striped images, newest last, in episodes that terminate or reach a time limit."""

    observation_space = spaces.Box(0, 255, (4, 36, 36), np.uint8)
    action_space = spaces.Discrete(2)

    def _frame(self) -> np.ndarray:
        return self.np_random.integers(0, 255, (36, 1), dtype=np.uint8).repeat(36, axis=1)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.frames, self.steps = [self._frame()] * 4, 0
        return np.stack(self.frames), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.frames, self.steps = [*self.frames[1:], self._frame()], self.steps + 1
        done = self.np_random.random() < 0.02
        return np.stack(self.frames), float(action), bool(done), self.steps >= 30, {}


class Rooms(gym.Env[Any, Any]):
    """A corridor of five rooms: observations and actions are integers."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(2)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.room, self.steps = 0, 0
        return self.room, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.room, self.steps = max(0, self.room + (1 if action else -1)), self.steps + 1
        return self.room, float(self.room == 4), self.room == 4, self.steps >= 10, {}
