"""keras-rl's SequentialMemory: steps without next observations, drawn as windows of frames."""

import numpy as np

OPTIONAL = ("window_length",)
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
    names = {"act": "action", "rew": "reward", "done": "terminal1"}
    columns = {name: [getattr(row, key) for row in rows] for name, key in names.items()}
    windows = {"obs": [row.state0 for row in rows], "next_obs": [row.state1 for row in rows]}
    return columns | {name: frames(each) for name, each in windows.items()}


def size(buffer):
    return buffer.nb_entries
