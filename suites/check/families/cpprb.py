"""cpprb's ReplayBuffer and PrioritizedReplayBuffer: a dict of fields, whose names are the caller's."""

import numpy as np

OPTIONAL = ("alpha", "beta", "next_of", "Nstep")
EPS = 1e-4
SHARED = Buffer.__name__.startswith("MP")
WAYS = {
    "next_of": {"next_of": "obs"},
    "stack_compress": {"stack": 4, "stack_compress": "obs", "kind": "Stacked"},
    "next_of and stack_compress": {"stack": 4, "next_of": "obs", "stack_compress": "obs", "kind": "Stacked"},
    "Nstep": {"n_step": 3, "Nstep": {"size": 3, "rew": "rew", "gamma": 0.99, "next": "next_obs"}},
}


class Stacked(Buffer):
    """A buffer that is passed single frames, and given stacks of four."""

    def add(self, obs, next_obs, **row):
        self.frames = [*getattr(self, "frames", [obs] * 4)[1:], obs]
        super().add(obs=np.stack(self.frames, -1), next_obs=np.stack([*self.frames[1:], next_obs], -1), **row)

    def on_episode_end(self):
        del self.frames
        super().on_episode_end()


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, alpha, next_of=None, kind="Buffer", **options):
    stacked = obs_shape if kind == "Buffer" else (*obs_shape, options.pop("stack"))
    obs = {"shape": stacked or 1, "dtype": obs_dtype}
    fields = {"obs": obs, "act": {"shape": act_shape or 1, "dtype": act_dtype}, "rew": {}, "done": {"dtype": bool}}
    fields |= {} if next_of else {"next_obs": obs}
    return globals()[kind](size=capacity, env_dict=fields, alpha=alpha, next_of=next_of, **options)


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=terminated)
    if terminated or truncated:
        buffer.on_episode_end()


def add__prioritized(buffer, obs, act, rew, next_obs, terminated, truncated, priority=None):
    buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=terminated, priorities=priority)
    if terminated or truncated:
        buffer.on_episode_end()


def sample(buffer, n, beta=0.4):
    return buffer.sample(batch_size=n, beta=beta)


def update(buffer, indexes, priorities):
    buffer.update_priorities(indexes, priorities)


def size(buffer):
    return buffer.get_stored_size()


def save(buffer, path):
    buffer.save_transitions(path)


def load(buffer, path):
    buffer.load_transitions(path)
