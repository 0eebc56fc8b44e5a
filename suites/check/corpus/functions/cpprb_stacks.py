"""cpprb: ReplayBuffer; stacked observations are stored with `next_of` and `stack_compress`.

In cpprb 9.0, `sample` raises IndexError at rows whose next observation is cached, and all releases mix stacks when the
ring wraps. Rows are therefore drawn from get_all_transitions(), of a ring that is too large to wrap.
"""

import cpprb
import numpy as np

IS_9 = not hasattr(cpprb, "MPReplayBuffer")
LARGE = 4096


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, stack):
    shape = (*obs_shape, stack) if stack > 1 else obs_shape
    fields = {"obs": {"shape": shape, "dtype": obs_dtype}, "act": {"shape": act_shape or 1, "dtype": act_dtype}}
    fields.update(rew={}, done={})
    if stack == 1:
        return {"buffer": cpprb.ReplayBuffer(capacity, {**fields, "next_obs": fields["obs"]}), "stack": 0}
    rows = LARGE if IS_9 else capacity
    return {"buffer": cpprb.ReplayBuffer(rows, fields, next_of="obs", stack_compress="obs"), "stack": stack}


def add(buffer, obs, act, rew, next_obs, done, truncated, first):
    if buffer["stack"]:
        frames = [obs] * buffer["stack"] if first else [*buffer["frames"][1:], obs]
        buffer["frames"], obs, next_obs = frames, np.stack(frames, -1), np.stack([*frames[1:], next_obs], -1)
    buffer["buffer"].add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done and not truncated)
    if done:
        buffer["buffer"].on_episode_end()


def sample(buffer, size):
    if not IS_9:
        return buffer["buffer"].sample(size)
    rows = buffer["buffer"].get_all_transitions()
    chosen = np.random.randint(len(rows["obs"]), size=size)
    return {name: column[chosen] for name, column in rows.items()}


def size(buffer):
    return buffer["buffer"].get_stored_size()
