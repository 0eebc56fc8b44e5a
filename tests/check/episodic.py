"""A sound buffer that knows about time (episodic_functions.py), and faults planted in its text, one change each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOUND = (Path(__file__).parent / "episodic_functions.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Planted:
    """A fault: `old` is replaced by `new`; `check` must find it, and say `word`."""

    old: str
    new: str
    check: str
    word: str

    @property
    def source(self) -> str:
        assert SOUND.count(self.old) == 1, self.old
        return SOUND.replace(self.old, self.new)


AT_LAST = '"done": self.get(env, last, "terminated")'
DRAWABLE = "if max(self.get(env, p"
NEWEST = 'newest = self.get(env, last, "next_obs")'
FAULTS = {
    "a time limit is terminal": Planted(AT_LAST, '"done": self.is_end(env, last)', "time_limits", "stored as terminal"),
    "an n-step window that ends at a time limit is terminal": Planted(
        AT_LAST,
        '"done": self.get(env, last, "terminated") or (last > p and self.is_end(env, last))',
        "n_step_bootstrap",
        "not at time limits",
    ),
    "done is never set": Planted(AT_LAST, '"done": False', "done_flag", "not at terminal steps"),
    "done is that of the first step of a window": Planted(
        AT_LAST, '"done": self.get(env, p, "terminated")', "n_step_bootstrap", "at terminal steps"
    ),
    "the action is that of the next step": Planted(
        'for name in ("act", "info")}\n        return step | {\n            "obs"',
        'for name in ("act", "info")}\n        step["act"] = self.get(env, min(p + 1, self.counts[env] - 1), "act")\n'
        '        return step | {\n            "obs"',
        "step_fields",
        "fields of different steps",
    ),
    "info is that of the step before": Planted(
        'for name in ("act", "info")}\n        return step | {\n            "obs"',
        'for name in ("act", "info")}\n        step["info"] = self.get(env, max(p - 1, self.held(env)[0]), "info")\n'
        '        return step | {\n            "obs"',
        "info",
        "of another step",
    ),
    "the next observation of a time limit is the next row's": Planted(
        ' and not self.get(env, last, "truncated"):', ":", "next_observation", "of the next episode"
    ),
    "the next observation of the newest row is the oldest row's": Planted(
        "if self.once and last + 1 < self.counts[env] and",
        "if self.once and all(self.rings[env]) and",
        "n_step_next",
        "of another episode",
    ),
    "the last step of an episode is never drawn": Planted(
        "if max(self.get(env, p",
        "if not self.get(env, p, 'terminated') and max(self.get(env, p",
        "episode_ends",
        "last steps are never drawn",
    ),
    "windows of n steps go on after an episode's end": Planted(
        "while last + 1 < min(p + self.n_step, self.counts[env]) and not self.is_end(env, last):",
        "while last + 1 < min(p + self.n_step, self.counts[env]):",
        "n_step_rewards",
        "mixes episodes",
    ),
    "windows of n steps go on after a time limit": Planted(
        "self.counts[env]) and not self.is_end(env, last):",
        'self.counts[env]) and not self.get(env, last, "terminated"):',
        "n_step_rewards",
        "mixes episodes",
    ),
    "windows of n steps go on after the newest step": Planted(
        "while last + 1 < min(p + self.n_step, self.counts[env]) and",
        "while last + 1 < p + self.n_step and self.rings[env][-1] and",
        "n_step_rewards",
        "mixes the newest and the oldest steps",
    ),
    "rewards are discounted once too often": Planted(
        "self.gamma ** (q - p) * self", "self.gamma ** (q - p + 1) * self", "n_step_rewards", "another sum"
    ),
    "the discount is that of n steps": Planted(
        "self.gamma ** (last + 1 - p)", "self.gamma**self.n_step", "n_step_discount", "another"
    ),
    "the next observation is that of the first step": Planted(
        "self.next_obs(env, last)", "self.next_obs(env, p)", "n_step_next", "of another step"
    ),
    "stacks go on before the episode's first frame": Planted(
        'self.get(env, max(q, begin), "obs")',
        'self.get(env, max(q, min(begin, self.held(env)[0])), "obs")',
        "stack_frames",
        "mixes episodes",
    ),
    "stacks have frames that are overwritten by younger ones": Planted(
        'if max(self.get(env, p, "begin"), p - self.stack + 1) in held',
        "if p in held",
        "stack_frames",
        "has frames of younger steps",
    ),
    "stacks repeat the newest frame in front of an episode": Planted(
        'self.get(env, max(q, begin), "obs")',
        'self.get(env, q if q >= begin else p, "obs")',
        "stack_padding",
        "other frames",
    ),
    "stacks are cut at the ring's first slot": Planted(
        'self.get(env, max(q, begin), "obs")',
        'self.get(env, max(q, begin, p - p % self.rows), "obs")',
        "stack_frames",
        "misses frames of its episode",
    ),
    "the next stack is the same but for its newest frame": Planted(
        "np.stack([*self.frames(env, last), newest][1:], -1)",
        "np.stack([*self.frames(env, last)[:-1], newest], -1)",
        "stack_next",
        "other frames before the newest",
    ),
    "environments share one ring": Planted(
        "def add(self, env, **step):\n",
        "def add(self, env, **step):\n        env = 0\n",
        "environments",
        "mixes environments",
    ),
    "an end ends the episodes of all environments": Planted(
        'self.fresh[env] = step["terminated"] or step["truncated"]',
        'end = self.fresh[env] = step["terminated"] or step["truncated"]\n'
        "        self.fresh = [each or end for each in self.fresh]",
        "environments",
        "wrong rows with several environments",
    ),
    "windows go on after an episode's end": Planted(
        ' and self.get(env, p + length - 1, "begin") <= p', "", "window_steps", "cross ends unseen"
    ),
    "windows go on after a terminal step": Planted(
        'self.get(env, p + length - 1, "begin") <= p',
        'not any(self.get(env, q, "truncated") for q in range(p, p + length - 1))',
        "window_steps",
        "cross ends, which they show",
    ),
    "windows go on after the newest step": Planted(
        "if p + length <= self.counts[env] and",
        "if (p + length <= self.counts[env] or self.counts[env] > self.rows) and",
        "window_steps",
        "continue with older steps",
    ),
    "windows never end at a terminal step": Planted(
        "if p + length <= self.counts[env] and",
        "if p + length <= self.counts[env] and not self.is_end(env, p + length - 1) and",
        "window_ends",
        "some are never drawn",
    ),
    "windows begin more often at even steps": Planted(
        "picked = [starts[k] for k in",
        "starts += [each for each in starts if each[1] % 2]\n        picked = [starts[k] for k in",
        "window_starts",
        "uneven",
    ),
    "reading by indexes moves them": Planted(
        "        rows = [self.row(env, p) for env, p in indexes]\n",
        "        rows = [self.row(env, p) for env, p in indexes]\n        if hasattr(indexes, 'shape'):\n"
        "            indexes += 1\n",
        "reading",
        "changes the caller's indexes",
    ),
    "the indexes of a batch are those of the next rows": Planted(
        '"indexes": (env, p),',
        '"indexes": (env, max(p - 1, self.held(env)[0])),',
        "reading",
        "its indexes are those of other rows",
    ),
    "reading changes the action": Planted(
        "        last = p\n        while last + 1 < min",
        '        self.rings[env][p % self.rows]["act"] = (self.get(env, p, "act") + 1) % 5\n'
        "        last = p\n        while last + 1 < min",
        "reading",
        "changes rows",
    ),
    "goals are of any later step": Planted(
        "while last + 1 < self.counts[env] and not self.is_end(env, last):",
        "while last + 1 < self.counts[env]:",
        "goals",
        "of another episode",
    ),
    "cut episodes are joined with the next": Planted(
        '["truncated"] = self.fresh[env] = True', '["truncated"] = True', "cut_episodes", "joined with the next"
    ),
    "a step after a cut is not the next episode's": Planted(
        '["truncated"] = self.fresh[env] = True',
        '["info"] = self.fresh[env] = True',
        "goals",
        "of the episode after a cut one",
    ),
    "with n-step returns, the last step of an episode is never drawn": Planted(
        DRAWABLE,
        "if (self.n_step == 1 or not self.get(env, p, 'terminated')) and max(self.get(env, p",
        "n_step_ends",
        "last steps are never drawn",
    ),
    "with stacks, the last step of an episode is never drawn": Planted(
        DRAWABLE,
        "if (self.stack == 1 or not self.get(env, p, 'terminated')) and max(self.get(env, p",
        "stack_ends",
        "last steps are never drawn",
    ),
    "with stacks, the action is that of the step before": Planted(
        'for name in ("act", "info")}\n        return step | {\n            "obs"',
        'for name in ("act", "info")}\n        before = p if self.stack == 1 else max(p - 1, self.held(env)[0])\n'
        '        step["act"] = self.get(env, before, "act")\n        return step | {\n            "obs"',
        "stack_fields",
        "of another step",
    ),
    "within windows, the action is that of the step before": Planted(
        '        return step | {"done": self.get(env, p, "terminated")}',
        '        step["act"] = self.get(env, max(p - 1, self.held(env)[0]), "act")\n'
        '        return step | {"done": self.get(env, p, "terminated")}',
        "window_fields",
        "of other steps",
    ),
    "the first place of a window is empty": Planted(
        "        return {name: np.array([[row[name] for row in window] for window in steps]) for name in steps[0][0]}",
        "        found = {name: np.array([[row[name] for row in window] for window in steps])"
        " for name in steps[0][0]}\n"
        '        found["obs"][:, 0] = 0\n        return found',
        "window_padding",
        "without a mask",
    ),
    "a reset step replaces the reward of the step before": Planted(
        "        p = self.counts[env]\n        begin",
        "        p = self.counts[env]\n"
        '        if p and np.array_equal(step["obs"], self.get(env, p - 1, "next_obs")) and self.fresh[env]:\n'
        '            self.rings[env][(p - 1) % self.rows]["rew"] = step["rew"]\n        begin',
        "reset_steps",
        "changed",
    ),
}
