"""d3rlpy's ReplayBuffer: steps of episodes, without next observations."""

import numpy as np
from d3rlpy import ActionSpace
from d3rlpy.dataset import FIFOBuffer, Signature


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype):
    shapes = {"observation": (obs_shape, obs_dtype), "action": (act_shape or (1,), act_dtype), "reward": ((1,), "f4")}
    signatures = {name: Signature([np.dtype(dtype)], [shape]) for name, (shape, dtype) in shapes.items()}
    return Buffer(
        buffer=FIFOBuffer(capacity),
        observation_signature=signatures["observation"],
        action_signature=signatures["action"],
        reward_signature=signatures["reward"],
        action_space=ActionSpace.CONTINUOUS if act_shape else ActionSpace.DISCRETE,
        action_size=5,
    )


def add(buffer, obs, act, rew, terminated, truncated):
    buffer.append(observation=obs, action=act, reward=rew)
    if terminated or truncated:
        buffer.clip_episode(terminated=terminated)


def sample(buffer, n):
    b = buffer.sample_transition_batch(batch_size=n)
    discrete = buffer.dataset_info.action_space is ActionSpace.DISCRETE
    act = b.actions.astype(int) if discrete else b.actions  # drawn as floats
    columns = {"obs": b.observations, "act": act, "rew": b.rewards}
    return columns | {"next_obs": b.next_observations, "done": b.terminals}


def size(buffer):
    return buffer.transition_count
