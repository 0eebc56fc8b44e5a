"""Reject a buffer that a model cannot fill when it is loaded, rather than later in `learn`."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm


def check_model(buffer: BaseBuffer) -> None:
    """Raise ValueError if the model that is loading this buffer has different environments.

    To be called while the buffer is being unpickled: `load_replay_buffer` replaces its model's buffer right afterwards.
    It does not pass the model to the buffer, so the model is looked up in the calling frames.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "load_replay_buffer":
        frame = frame.f_back
    model = None if frame is None else frame.f_locals.get("self")
    if not isinstance(model, OffPolicyAlgorithm):
        return
    if model.n_envs != buffer.n_envs:
        raise ValueError(
            f"n_envs of the loaded buffer must be that of the model, {model.n_envs}, got {buffer.n_envs}: create a "
            "model with as many environments as the one that saved the buffer"
        )
    for name in ("observation_space", "action_space"):
        wanted, given = getattr(model, name, None), getattr(buffer, name)
        if wanted is not None and not _fits(given, wanted):
            raise ValueError(f"{name} of the loaded buffer must be that of the model, {wanted}, got {given}")


def _fits(given: Any, wanted: Any) -> bool:
    """Return whether a model for the space `wanted` can use values from the space `given`; Box bounds may differ."""
    if isinstance(given, spaces.Dict) and isinstance(wanted, spaces.Dict):
        return given.keys() == wanted.keys() and all(_fits(given[name], wanted[name]) for name in wanted)
    return given.shape == wanted.shape and bool(np.all(_choices(given) <= _choices(wanted)))


def _choices(space: Any) -> Any:
    return getattr(space, "nvec", getattr(space, "n", 0))
