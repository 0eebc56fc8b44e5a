"""keras-rl's SequentialMemory: steps without next observations, drawn as windows of frames."""

import numpy as np

OPTIONAL = ("window_length",)
STORES_FINAL_OBS = True
WAYS = {"window_length": {"stack": 4}}


def make(capacity, stack):
    return Buffer(limit=capacity, window_length=stack)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.append(observation=obs, action=act, reward=rew, terminal=done)
    if done:  # its agents append the last observation, too
        buffer.append(observation=next_obs, action=0, reward=0.0, terminal=False)


def frames(windows):
    windows = np.moveaxis(windows, 1, -1)
    return windows if windows.shape[-1] > 1 else windows[..., 0]


def sample(buffer, n):
    rows = buffer.sample(batch_size=n)
    return {
        "obs": frames([row.state0 for row in rows]),
        "act": [row.action for row in rows],
        "rew": [row.reward for row in rows],
        "next_obs": frames([row.state1 for row in rows]),
        "done": [row.terminal1 for row in rows],
    }


def size(buffer):
    return buffer.nb_entries
