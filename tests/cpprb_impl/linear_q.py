"""The smallest learner that the examples need: Q is linear in the state."""

from __future__ import annotations

import numpy as np


class LinearQ:
    def __init__(self, state_len: int, actions: int, seed: int = 0) -> None:
        self.weights = np.random.default_rng(seed).normal(scale=0.1, size=(state_len + 1, actions))

    @staticmethod
    def _features(states: np.ndarray) -> np.ndarray:
        return np.hstack([states, np.ones((len(states), 1))])

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return self._features(states) @ self.weights

    def td(self, states, acts, targets) -> np.ndarray:
        return targets - self(states)[np.arange(len(states)), acts]

    def learn(self, states, acts, targets, weights=1.0, rate=0.01) -> float:
        """Take one gradient step, and return the weighted squared error."""
        error = np.clip(self.td(states, acts, targets), -1, 1)
        gradient = np.zeros_like(self.weights)
        np.add.at(gradient.T, acts, self._features(states) * (weights * error)[:, None])
        self.weights += rate * gradient / len(states)
        return float(np.mean(weights * error**2))
