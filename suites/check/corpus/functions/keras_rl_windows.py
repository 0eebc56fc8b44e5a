"""keras-rl: SequentialMemory. After the last step of an episode, its final observation is appended, too."""

import numpy as np
from stubs import hollow, mock

hollow("rl")
mock("keras", "keras.backend", "matplotlib", "gym")
from rl.memory import SequentialMemory  # noqa: E402


def make(capacity, stack):
    return SequentialMemory(limit=capacity, window_length=stack)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.append(obs, act, rew, done)
    if done:
        buffer.append(next_obs, 0, 0.0, False)


def _stacked(frames):
    return np.stack(frames, axis=-1) if len(frames) > 1 else frames[0]


def sample(buffer, size):
    rows = buffer.sample(size)
    obs, next_obs = ([_stacked(frames) for frames in column] for column in zip(*((r.state0, r.state1) for r in rows)))
    names = {"obs": obs, "act": [r.action for r in rows], "rew": [r.reward for r in rows]}
    return {**names, "next_obs": next_obs, "done": [r.terminal1 for r in rows]}


def size(buffer):
    return buffer.nb_entries
