"""CartPole-v1's dynamics, for checking whether a stored row is a step of the real environment."""

from __future__ import annotations

import numpy as np

from adapters.base import Columns, Field

#: The fields of a row.
FIELDS = {
    "obs": Field((4,), "float32"),
    "act": Field((), "int32"),
    "rew": Field((), "float32"),
    "next_obs": Field((4,), "float32"),
    "done": Field((), "bool"),
}

# The environment keeps its state in float64 and returns it as float32.
TOLERANCE = 5e-6


def next_state(obs: np.ndarray, act: np.ndarray) -> np.ndarray:
    """Take one Euler step for each row (Barto, Sutton and Anderson 1983, with Gymnasium's constants)."""
    gravity, cart, pole, half_length, push, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    x, x_dot, theta, theta_dot = obs.astype(np.float64).T
    force = np.where(act == 1, push, -push)
    cos, sin = np.cos(theta), np.sin(theta)
    common = (force + pole * half_length * theta_dot**2 * sin) / (cart + pole)
    theta_acc = (gravity * sin - cos * common) / (half_length * (4.0 / 3.0 - pole * cos**2 / (cart + pole)))
    x_acc = common - pole * half_length * theta_acc * cos / (cart + pole)
    return np.stack([x + tau * x_dot, x_dot + tau * x_acc, theta + tau * theta_dot, theta_dot + tau * theta_acc], 1)


def is_step(rows: Columns) -> np.ndarray:
    """Return, for each row, whether its obs, act, rew, next_obs and done belong together."""
    size = len(rows["obs"])
    obs, after = rows["obs"].reshape(size, 4), rows["next_obs"].reshape(size, 4)
    act, rew, done = (rows[key].reshape(size) for key in ("act", "rew", "done"))
    follows = np.isclose(next_state(obs, act), after, rtol=TOLERANCE, atol=TOLERANCE).all(axis=1)
    # How far the next state is beyond the limits. Very close to a limit, the result depends on rounding.
    beyond = np.maximum(np.abs(after[:, 0]) - 2.4, np.abs(after[:, 2]) - 12 * np.pi / 180)
    ended = (np.abs(beyond) < TOLERANCE) | ((beyond > 0) == done.astype(bool))
    return follows & ended & (rew == 1.0) & np.isin(act, (0, 1))
