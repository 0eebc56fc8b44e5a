"""Dopamine: OutOfGraphReplayBuffer, which stores frames and stacks them when it draws."""

import sys
import types

import numpy as np
from stubs import hollow, mock


class Gin(types.ModuleType):
    """Decorators that change nothing."""

    __path__ = ()
    REQUIRED = None

    @staticmethod
    def configurable(*args, **_):
        return args[0] if args and callable(args[0]) else lambda decorated: decorated


sys.modules["gin"], sys.modules["gin.tf"] = Gin("gin"), Gin("gin.tf")
mock("tensorflow", "tensorflow.compat.v1", "absl", "absl.logging")
hollow("dopamine", "dopamine.tf", "dopamine.tf.replay_memory")
from dopamine.tf.replay_memory.circular_replay_buffer import OutOfGraphReplayBuffer  # noqa: E402


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, n_step, gamma, stack):
    shapes = {"observation_shape": obs_shape, "action_shape": act_shape, "update_horizon": n_step, "gamma": gamma}
    dtypes = {"observation_dtype": np.dtype(obs_dtype), "action_dtype": np.dtype(act_dtype)}
    return OutOfGraphReplayBuffer(stack_size=stack, replay_capacity=capacity, batch_size=1, **shapes, **dtypes)


def add(buffer, obs, act, rew, terminated, truncated):
    buffer.add(obs, act, rew, terminated, episode_end=terminated or truncated)


def sample(buffer, size):
    obs, act, rew, next_obs, _, _, done, _ = buffer.sample_transition_batch(size)
    if buffer._stack_size == 1:
        obs, next_obs = obs[..., 0], next_obs[..., 0]
    return {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done}
