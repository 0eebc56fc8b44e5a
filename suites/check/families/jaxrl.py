"""jaxrl's ReplayBuffer: made for spaces, passed masks, and drawn as a namedtuple of columns."""

from gymnasium import spaces


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype):
    return Buffer(
        observation_space=spaces.Box(0, 255, obs_shape, obs_dtype),
        action_space=spaces.Box(-1, 1, act_shape, act_dtype) if act_shape else spaces.Discrete(5),
        capacity=capacity,
    )


def make__number(capacity, obs_shape, obs_dtype):
    return Buffer(observation_space=spaces.Box(0, 255, obs_shape, obs_dtype), action_dim=1, capacity=capacity)


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    buffer.insert(
        observation=obs,
        action=act,
        reward=rew,
        mask=1.0 - terminated,
        done_float=float(terminated or truncated),
        next_observation=next_obs,
    )


def sample(buffer, n):
    b = buffer.sample(batch_size=n)
    return {
        "obs": b.observations,
        "act": b.actions,
        "rew": b.rewards,
        "next_obs": b.next_observations,
        "done": b.masks == 0,
    }


def size(buffer):
    return len(buffer)
