"""The training loop: which functions it calls, in which order, with which arguments."""

from __future__ import annotations

import logging

import gymnasium
import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer, train

FIELDS = {"obs": {}, "act": {}, "rew": {}, "next_obs": {}, "done": {}}


class Walk:
    """Episodes of `length` steps. obs is the number of the step; rew is 1, 2, 3, ... over all steps."""

    def __init__(self, length=3, api="gymnasium", truncate=False):
        self.length, self.api, self.truncate = length, api, truncate
        self.at = self.steps = self.resets = 0

    def reset(self):
        self.at, self.resets = 0, self.resets + 1
        obs = np.array([0.0])
        return (obs, {}) if self.api == "gymnasium" else obs

    def step(self, action):
        self.at, self.steps = self.at + 1, self.steps + 1
        end = self.at >= self.length
        obs, rew = np.array([float(self.at)]), float(self.steps)
        if self.api == "gymnasium":
            return obs, rew, end and not self.truncate, end and self.truncate, {}
        return obs, rew, end, {}


def act(obs, step, episode, is_warmup):
    return 0


def ones(sample, step, episode):
    return np.ones(len(sample["obs"]))


class Recorder:
    """A buffer with all methods that `train` needs."""

    def __init__(self):
        self.calls = []

    def add(self, **row):
        self.calls.append(("add", float(row["obs"][0]), row["rew"], bool(row["done"])))

    def sample(self, batch_size):
        self.calls.append(("sample", batch_size))
        return {"obs": np.zeros(batch_size)}

    def on_episode_end(self):
        self.calls.append(("end",))


@pytest.mark.parametrize("api", ["gymnasium", "gym"])
def test_train_calls_its_functions_in_order(api):
    buffer = Recorder()

    def get_action(*args):
        buffer.calls.append(("act", float(args[0][0]), *args[1:]))
        return 7

    def update(sample, step, episode):
        buffer.calls.append(("update", len(sample["obs"]), step, episode))

    def callback(*args):
        buffer.calls.append(("callback", *args))

    env = Walk(api=api)
    answer = train(
        buffer, env, get_action, update, max_steps=4, batch_size=5, n_warmups=2, episode_callback=callback
    )  # fmt: skip
    assert answer is None
    assert buffer.calls == [
        ("act", 0, 0, 0, True), ("add", 0, 1, False),
        ("act", 1, 1, 0, True), ("add", 1, 2, False),
        ("act", 2, 2, 0, False), ("add", 2, 3, True), ("sample", 5), ("update", 5, 2, 0),
        ("end",), ("callback", 0, 2, 6.0),
        ("act", 0, 3, 1, False), ("add", 0, 4, False), ("sample", 5), ("update", 5, 3, 1),
        ("end",),
    ]  # fmt: skip
    assert env.resets == 2


def test_rewards_are_summed_and_logged(caplog):
    """cpprb logs only the last reward."""
    seen = []
    with caplog.at_level(logging.INFO, "cpprb_impl"):
        train(ReplayBuffer(9, FIELDS), Walk(), act, ones, max_steps=7, episode_callback=lambda *a: seen.append(a))
    assert seen == [(0, 2, 6.0), (1, 2, 15.0)]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 and lines[1].startswith("episode 1: 3 steps (6 in all), reward 15, ")


def test_the_logger_of_the_caller_is_used(caplog):
    with caplog.at_level(logging.INFO, "mine"):
        train(ReplayBuffer(9, FIELDS), Walk(), act, ones, max_steps=3, logger=logging.getLogger("mine"))
    assert [record.name for record in caplog.records] == ["mine"]


def test_a_truncated_episode_ends_and_is_not_done():
    buffer = ReplayBuffer(9, {**FIELDS, "truncated": {"dtype": bool}})
    env = Walk(truncate=True)
    train(buffer, env, act, ones, max_steps=6)
    stored = buffer.get_all_transitions()
    assert stored["truncated"].ravel().tolist() == [False, False, True] * 2
    assert not stored["done"].any() and env.resets == 2
    assert stored["obs"].ravel().tolist() == [0, 1, 2, 0, 1, 2]


def test_the_callers_functions_replace_the_defaults():
    seen = []

    def after_step(obs, action, outcome, step, episode):
        seen.append(("after", float(obs[0]), action, len(outcome), step, episode))
        return {"x": step, "gain": 2.0}

    def rew_sum(total, transition):
        return total + transition["gain"]

    buffer = ReplayBuffer(9, {"x": {"dtype": int}})
    train(
        buffer,
        Walk(length=99),
        act,
        lambda sample, step, episode: seen.append(("update", step)),
        max_steps=4,
        after_step=after_step,
        rew_sum=rew_sum,
        done_check=lambda transition: transition["x"] == 1,
        obs_update=lambda transition: [transition["x"] + 10.0],
        episode_callback=lambda *args: seen.append(args),
    )
    assert seen == [
        ("after", 0, 0, 5, 0, 0), ("update", 0), ("after", 10, 0, 5, 1, 0), ("update", 1), (0, 1, 4.0),
        ("after", 0, 0, 5, 2, 1), ("update", 2), ("after", 12, 0, 5, 3, 1), ("update", 3),
    ]  # fmt: skip
    assert buffer.get_all_transitions()["x"].ravel().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("steps", "episodes", "done"), [(0, None, 0), (-1, None, 0), (5, 0, 0), (99, 2, 6), (5, 9, 5)])
def test_training_ends_at_the_limit_of_steps_or_episodes(steps, episodes, done):
    env = Walk()
    train(ReplayBuffer(9, FIELDS), env, act, ones, max_steps=steps, max_episodes=episodes)
    assert (env.steps, env.resets) == (done, -(-done // 3))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"max_steps": 2**64 - 1}, ValueError, "max_steps"),
        ({"max_steps": 2.5}, TypeError, "max_steps"),
        ({"max_steps": None}, TypeError, "max_steps"),
        ({"max_episodes": "2"}, TypeError, "max_episodes"),
        ({"beta": 0.5}, TypeError, "beta .* ReplayBuffer"),
    ],
)
def test_bad_options_are_refused_before_the_first_step(options, error, says):
    env = Walk()
    with pytest.raises(error, match=says):
        train(ReplayBuffer(9, FIELDS), env, act, ones, **options)
    assert env.resets == 0


def test_training_accepts_the_largest_number_of_steps():
    env = Walk()
    train(ReplayBuffer(9, FIELDS), env, act, ones, max_steps=2**64 - 2, max_episodes=1)
    assert env.steps == 3


@pytest.mark.parametrize(("name", "instead"), [("rew", "rew_sum"), ("done", "done_check"), ("next_obs", "obs_update")])
def test_the_error_names_a_field_missing_in_a_transition(name, instead):
    def after_step(obs, action, outcome, step, episode):
        row = {"obs": obs, "act": action, "rew": 1.0, "next_obs": outcome[0], "done": False}
        return {key: value for key, value in row.items() if key != name}

    with pytest.raises(KeyError, match=f"{name}.*{instead}"):
        train(ReplayBuffer(9, {"obs": {}}), Walk(), act, ones, max_steps=2, after_step=after_step)


def test_a_step_with_a_wrong_number_of_values_is_an_error():
    class Odd(Walk):
        def step(self, action):
            return super().step(action)[:3]

    with pytest.raises(ValueError, match="4 or 5 values"):
        train(ReplayBuffer(9, FIELDS), Odd(), act, ones, max_steps=2)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("summed", [True, False])
def test_training_agrees_with_cpprb(summed):
    """Uses Gym's old interface, the only one that cpprb 11.0.0 supports. Its reward is that of the last step."""
    cpprb = pytest.importorskip("cpprb")
    results = []
    for module in (cpprb, cpprb_impl):
        seen, buffer = [], module.PrioritizedReplayBuffer(50, FIELDS)

        def get_action(obs, *args, seen=seen):
            seen.append(("act", float(obs[0]), *args))
            return len(seen)

        def update(sample, *args, seen=seen):
            seen.append(("update", sample["weights"].shape, *args))
            return np.ones(len(sample["obs"]))

        options = {"rew_sum": lambda total, transition: total + transition["rew"]} if summed else {}
        module.train(
            buffer,
            Walk(4, api="gym"),
            get_action,
            update,
            max_steps=30,
            max_episodes=6,
            batch_size=7,
            n_warmups=5,
            episode_callback=lambda *args, seen=seen: seen.append(("callback", *args)),
            **options,
        )
        results.append((seen, buffer.get_all_transitions()))
    (theirs, their_rows), (ours, our_rows) = results
    assert all(np.array_equal(our_rows[name], their_rows[name]) for name in FIELDS)
    rewards = [[call[3] for call in seen if call[0] == "callback"] for seen in (theirs, ours)]
    assert rewards[1] == [10, 26, 42, 58, 74, 90]
    assert rewards[0] == (rewards[1] if summed else [4, 8, 12, 16, 20, 24])
    assert [call[:3] for call in ours] == [call[:3] for call in theirs]


def test_training_runs_in_a_real_environment():
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(0)
    buffer = PrioritizedReplayBuffer(500, cpprb_impl.create_env_dict(env))
    lengths = []
    train(
        buffer,
        env,
        lambda *_: env.action_space.sample(),
        lambda sample, *_: np.abs(sample["rew"].ravel()),
        max_steps=300,
        n_warmups=20,
        beta=lambda step: min(1.0, 0.4 + step / 500),
        episode_callback=lambda episode, last, reward: lengths.append((last + 1, reward)),
    )
    assert buffer.get_stored_size() == 300
    assert len(lengths) > 3 and all(length == reward for length, reward in lengths)
    assert buffer.get_all_transitions()["done"].sum() == len(lengths)
