"""Stable-Baselines3's HerReplayBuffer as far as plain rows: each step is an episode, and goals stay as they are."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

OPTIONAL = ("device",)
ANNOTATED = {"observation_space": "Dict"}
goals = dict.fromkeys(("achieved_goal", "desired_goal"), np.zeros((1, 1), "float32"))
env = SimpleNamespace(env_method=lambda *_, **__: [np.zeros(0)])  # rewards of the goals that are changed


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype):
    return Buffer(
        buffer_size=capacity,
        observation_space=spaces.Dict(
            {"observation": spaces.Box(0, 255, obs_shape, obs_dtype), **dict.fromkeys(goals, spaces.Box(-1, 1, (1,)))}
        ),
        action_space=spaces.Box(-1, 1, act_shape, act_dtype) if act_shape else spaces.Discrete(5),
        env=env,
        n_sampled_goal=0,
        device="cpu",
    )


def add(buffer, obs, act, rew, next_obs, terminated):
    buffer.add(
        obs={"observation": obs[None], **goals},
        next_obs={"observation": next_obs[None], **goals},
        action=np.array([act]),
        reward=np.array([rew]),
        done=np.array([True]),
        infos=[{"TimeLimit.truncated": not terminated}],
    )


def sample(buffer, n):
    b = buffer.sample(batch_size=n)
    return {
        "obs": b.observations["observation"],
        "act": b.actions,
        "rew": b.rewards,
        "next_obs": b.next_observations["observation"],
        "done": b.dones,
    }


def size(buffer):
    return buffer.size()
