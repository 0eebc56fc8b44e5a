"""An environment that a newcomer may have: observations with an image and a state, 100 kB per transition."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

NAME = "PictureAndState-v0"
PICTURE, STATE, STEPS = (128, 128, 3), (16,), 200


class PictureAndState(gymnasium.Env):
    """An image of noise and a state; an episode has 200 steps."""

    observation_space = spaces.Dict(
        {"picture": spaces.Box(0, 255, PICTURE, np.uint8), "state": spaces.Box(-1, 1, STATE, np.float32)}
    )
    action_space = spaces.Box(-1, 1, (4,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observed(), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._observed(), float(np.sum(action)), False, self.steps >= STEPS, {}

    def _observed(self) -> dict[str, np.ndarray]:
        picture = self.np_random.integers(0, 256, PICTURE, np.uint8)
        return {"picture": picture, "state": self.np_random.uniform(-1, 1, STATE).astype(np.float32)}


gymnasium.register(NAME, PictureAndState)
