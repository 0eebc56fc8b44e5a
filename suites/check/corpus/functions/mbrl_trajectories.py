"""mbrl-lib: ReplayBuffer, which also draws whole trajectories. Since 0.1.2, `add` takes `truncated`."""

import inspect

import numpy as np
from stubs import hollow, mock

hollow("mbrl", "mbrl.util")
mock("omegaconf", "hydra", "gym")
from mbrl.util.replay_buffer import ReplayBuffer  # noqa: E402

LONGEST = 64  # steps of an episode
TAKES_TRUNCATED = "truncated" in inspect.signature(ReplayBuffer.add).parameters


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed):
    return ReplayBuffer(capacity, obs_shape, act_shape, obs_dtype, act_dtype, np.random.default_rng(seed), LONGEST)


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    more = [truncated] if TAKES_TRUNCATED else []
    buffer.add(obs, act, next_obs, rew, terminated, *more)
    if truncated and not more and not terminated:
        buffer.close_trajectory()


def _columns(batch):
    obs, act, next_obs, rew, done = batch.astuple()[:5]
    return {"obs": obs, "act": act, "next_obs": next_obs, "rew": rew, "done": done}


def sample(buffer, size):
    return _columns(buffer.sample(size))


def windows(buffer, size, length):
    drawn = []
    for _ in range(100 * size):
        episode = buffer.sample_trajectory()
        if episode is not None and len(episode.obs) >= length:
            start = np.random.randint(len(episode.obs) - length + 1)
            drawn.append({name: each[start : start + length] for name, each in _columns(episode).items()})
        if len(drawn) == size:
            return {name: np.stack([each[name] for each in drawn]) for name in drawn[0]}
    raise RuntimeError(f"no episode of {length} steps is stored")


def size(buffer):
    return len(buffer)
