"""Refuse a loaded buffer that a model cannot fill, where it is loaded rather than later, in `learn`."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

if TYPE_CHECKING:
    from cpprb_impl.sb3.buffers import ReplayBuffer


def check_environments(buffer: ReplayBuffer) -> None:
    """Raise ValueError if a model with another number of environments is loading this buffer.

    To be called while the buffer is unpickled: `load_replay_buffer` replaces the buffer of its model right after that.
    It passes nothing of the model to a buffer, which is therefore looked up in the calling frames.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "load_replay_buffer":
        frame = frame.f_back
    model = None if frame is None else frame.f_locals.get("self")
    if isinstance(model, OffPolicyAlgorithm) and model.env is not None and model.n_envs != buffer.n_envs:
        raise ValueError(
            f"n_envs of the loaded buffer must be that of the model, {model.n_envs}, got {buffer.n_envs}: make the "
            "model with as many environments as the one that saved the buffer"
        )
