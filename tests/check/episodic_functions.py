"""A plain buffer that knows about time, and the functions through which it is checked.

Each environment has a ring of its own. Row `p` is its p-th step, in slot p % rows.
"""

import numpy as np

WAYS = {"once": {"once": True}, "stack=3, n_step=2": {"stack": 3, "n_step": 2}}


class Episodic:
    def __init__(self, capacity, seed, n_step, gamma, stack, envs, once=False):
        self.rows, self.n_step, self.gamma, self.stack, self.once = capacity // envs, n_step, gamma, stack, once
        self.random, self.counts = np.random.default_rng(seed), [0] * envs
        self.rings = [[None] * self.rows for _ in range(envs)]
        self.fresh = [True] * envs

    def get(self, env, p, name):
        return self.rings[env][p % self.rows][name]

    def is_end(self, env, p):
        return self.get(env, p, "terminated") or self.get(env, p, "truncated")

    def add(self, env, **step):
        p = self.counts[env]
        begin = p if self.fresh[env] else self.get(env, p - 1, "begin")
        self.rings[env][p % self.rows] = step | {"begin": begin}
        self.fresh[env] = step["terminated"] or step["truncated"]
        self.counts[env] += 1

    def cut(self):
        for env, count in enumerate(self.counts):
            if count and not self.is_end(env, count - 1):
                self.rings[env][(count - 1) % self.rows]["truncated"] = self.fresh[env] = True

    def held(self, env):
        return range(max(0, self.counts[env] - self.rows), self.counts[env])

    def drawable(self, env):
        held = self.held(env)
        rows = [p for p in held if max(self.get(env, p, "begin"), p - self.stack + 1) in held]
        return rows[:-1] if self.once else rows

    def frames(self, env, p):
        begin = self.get(env, p, "begin")
        return [self.get(env, max(q, begin), "obs") for q in range(p - self.stack + 1, p + 1)]

    def row(self, env, p):
        last = p
        while last + 1 < min(p + self.n_step, self.counts[env]) and not self.is_end(env, last):
            last += 1
        rew = sum(self.gamma ** (q - p) * self.get(env, q, "rew") for q in range(p, last + 1))
        step = {name: self.get(env, p, name) for name in ("act", "info")}
        return step | {
            "obs": np.stack(self.frames(env, p), -1) if self.stack > 1 else self.get(env, p, "obs"),
            "rew": rew,
            "next_obs": self.next_obs(env, last),
            "done": self.get(env, last, "terminated"),
            "discount": self.gamma ** (last + 1 - p),
            "desired_goal": self.goal(env, p),
            "indexes": (env, p),
        }

    def next_obs(self, env, last):
        newest = self.get(env, last, "next_obs")
        if self.once and last + 1 < self.counts[env] and not self.get(env, last, "truncated"):
            newest = self.get(env, last + 1, "obs")
        return np.stack([*self.frames(env, last), newest][1:], -1) if self.stack > 1 else newest

    def goal(self, env, p):
        if self.random.random() < 0.5:
            return self.get(env, p, "goal")
        last = p
        while last + 1 < self.counts[env] and not self.is_end(env, last):
            last += 1
        return self.get(env, int(self.random.integers(p, last + 1)), "achieved")

    def sample(self, size):
        rows = [(env, p) for env in range(len(self.counts)) for p in self.drawable(env)]
        return self.at([rows[k] for k in self.random.integers(len(rows), size=size)])

    def at(self, indexes):
        rows = [self.row(env, p) for env, p in indexes]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def windows(self, size, length):
        starts = [
            (env, p)
            for env in range(len(self.counts))
            for p in self.held(env)
            if p + length <= self.counts[env] and self.get(env, p + length - 1, "begin") <= p
        ]
        picked = [starts[k] for k in self.random.integers(len(starts), size=size)]
        steps = [[self.window_row(env, q) for q in range(p, p + length)] for env, p in picked]
        return {name: np.array([[row[name] for row in window] for window in steps]) for name in steps[0][0]}

    def window_row(self, env, p):
        step = {name: self.get(env, p, name) for name in ("obs", "next_obs", "act", "rew")}
        return step | {"done": self.get(env, p, "terminated")}


def make(capacity, seed, n_step, gamma, stack, envs, **options):
    return Episodic(capacity, seed, n_step, gamma, stack, envs, **options)


def add(buffer, obs, act, rew, next_obs, terminated, truncated, env, info, next_achieved_goal, desired_goal):
    more = {"terminated": terminated, "truncated": truncated, "info": info}
    goals = {"achieved": next_achieved_goal, "goal": desired_goal}
    buffer.add(env, obs=obs.copy(), act=act, rew=rew, next_obs=next_obs.copy(), **more, **goals)


def sample(buffer, size):
    return buffer.sample(size)


def windows(buffer, size, length):
    return buffer.windows(size, length)


def at(buffer, indexes):
    return buffer.at(indexes)


def cut(buffer):
    buffer.cut()


def size(buffer):
    return sum(len(buffer.drawable(env)) for env in range(len(buffer.counts)))
