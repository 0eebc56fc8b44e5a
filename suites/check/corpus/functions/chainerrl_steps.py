"""ChainerRL: ReplayBuffer of n-step rows, from environments that step in turn. Since 0.7, `append` takes `env_id`."""

import inspect

from stubs import hollow, mock

mock("chainer", "chainer.functional", "chainer.links", "chainer.cuda", "gym", "cached_property", "fastcache")
hollow("chainerrl", "chainerrl.misc")
mock("chainerrl.misc.batch_states")
from chainerrl.replay_buffer import ReplayBuffer  # noqa: E402

TAKES_ENV = "env_id" in inspect.signature(ReplayBuffer.append).parameters


def make(capacity, n_step, gamma, envs):
    buffer = ReplayBuffer(capacity, n_step)
    buffer.gamma = gamma
    return buffer


def add(buffer, obs, act, rew, next_obs, terminated, truncated, env):
    which = {"env_id": env} if TAKES_ENV else {}
    buffer.append(obs, act, rew, next_obs, None, terminated, **which)
    if truncated and not terminated:
        buffer.stop_current_episode(**which)


def sample(buffer, size):
    rows = buffer.sample(size)
    names = {"obs": [r[0]["state"] for r in rows], "act": [r[0]["action"] for r in rows]}
    names["rew"] = [sum(buffer.gamma**i * step["reward"] for i, step in enumerate(r)) for r in rows]
    names["next_obs"] = [r[-1]["next_state"] for r in rows]
    names["done"] = [any(step["is_state_terminal"] for step in r) for r in rows]
    return {**names, "discount": [buffer.gamma ** len(r) for r in rows]}


def size(buffer):
    return len(buffer)
