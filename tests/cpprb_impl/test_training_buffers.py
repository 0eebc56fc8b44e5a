"""The training loop with every kind of buffer: prioritized, shared, and one that stores with a delay."""

from __future__ import annotations

import pytest

from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    train,
)

from .test_training import FIELDS, Walk, act, ones


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_td_errors_become_priorities(kind):
    buffer = kind(9, FIELDS, alpha=1.0, eps=0.0, seed=1)
    # From the second step on, the transition of obs 1 has nine times the priority of any other.
    train(buffer, Walk(), act, lambda sample, *_: 1.0 + 8 * (sample["obs"].ravel() == 1), max_steps=9, batch_size=200)
    batch = buffer.sample(2000, beta=1.0)
    is_one = batch["obs"].ravel() == 1
    assert batch["weights"][is_one] == pytest.approx(1 / 9)
    assert batch["weights"][~is_one] == pytest.approx(1)
    buffer.close()


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_missing_td_errors_for_a_prioritized_buffer_are_refused(kind):
    buffer = kind(9, FIELDS)
    with pytest.raises(TypeError, match="update_policy"):
        train(buffer, Walk(), act, lambda *_: None, max_steps=3)
    buffer.close()


def test_other_buffers_need_no_td_errors():
    train(ReplayBuffer(9, FIELDS), Walk(), act, lambda *_: None, max_steps=3)


@pytest.mark.parametrize(("beta", "wanted"), [(0.7, [0.7] * 3), (lambda step: step / 10, [0, 0.1, 0.2]), (None, [])])
def test_beta_can_be_chosen(beta, wanted):
    """In cpprb, beta is fixed."""
    seen = []

    class Watched(PrioritizedReplayBuffer):
        def sample(self, batch_size, **options):
            seen.extend(options.values())
            return super().sample(batch_size, **options)

    train(Watched(9, FIELDS), Walk(), act, ones, max_steps=3, beta=beta)
    assert seen == pytest.approx(wanted)


@pytest.mark.parametrize("lock", ["buffer", "critical", "none"])
def test_train_accepts_shared_buffers(lock):
    """In cpprb, train refuses cpprb's own MP buffers."""
    buffer = MPReplayBuffer(9, FIELDS, lock=lock)
    updates = []
    train(buffer, Walk(), act, lambda sample, step, _: updates.append(step), max_steps=5)
    assert buffer.get_stored_size() == 5 and updates == [0, 1, 2, 3, 4]
    assert buffer.get_current_episode_len() == 0
    buffer.close()


def test_nothing_is_sampled_from_an_empty_buffer():
    """This includes hindsight buffers, which need a goal and store their transitions when an episode ends."""

    class Late(ReplayBuffer):
        waiting = ()

        def add(self, **row):
            self.waiting = [*self.waiting, row]

        def on_episode_end(self, goal):
            for row in self.waiting:
                super().add(**{**row, "rew": goal})
            self.waiting = ()

    updates, buffer = [], Late(9, FIELDS)
    train(
        buffer,
        Walk(),
        act,
        lambda sample, step, episode: updates.append(step),
        max_steps=5,
        end_episode=lambda buffer, last: buffer.on_episode_end(float(last["next_obs"][0])),
    )
    assert updates == [3, 4]
    assert buffer.get_all_transitions()["rew"].ravel().tolist() == [3, 3, 3, 2, 2]


def with_goal(obs, action, outcome, step, episode):
    next_obs, rew, done, truncated, _ = outcome
    ending = {"done": done, "truncated": truncated}
    return {"obs": obs, "act": action, "rew": rew, "next_obs": next_obs, "goal": 3.0, **ending}


def hindsight(**options):
    fields = {"obs": {}, "act": {}, "next_obs": {}}
    return HindsightReplayBuffer(99, fields, 5, lambda s, a, g: -1.0 * (s != g), strategy="final", **options)


@pytest.mark.parametrize("prioritized", [True, False])
def test_hindsight_takes_its_goal_from_the_last_transition(prioritized):
    """In cpprb, train does not support HER."""
    buffer, updates = hindsight(prioritized=prioritized), []

    def update(sample, step, episode):
        updates.append(step)
        return ones(sample, step, episode) if prioritized else None

    train(buffer, Walk(), act, update, max_steps=5, after_step=with_goal)
    assert updates == [3, 4]  # nothing is stored before the end of the first episode
    rows = buffer.get_all_transitions()
    assert rows["goal"].ravel().tolist() == [3] * 3 + [3] * 3 + [3] * 2 + [2] * 2
    assert rows["rew"].ravel().tolist() == [-1, -1, 0, -1, -1, 0, -1, -1, -1, 0]


def test_hindsight_without_a_goal_is_refused():
    with pytest.raises(KeyError, match=r"goal.*end_episode"):
        train(hindsight(), Walk(), act, ones, max_steps=5)
    buffer = hindsight()
    train(buffer, Walk(), act, ones, max_steps=5, end_episode=lambda buffer, last: buffer.on_episode_end(7.0))
    assert buffer.get_stored_size() == 10


def test_beta_requires_priorities_in_hindsight_buffers_too():
    with pytest.raises(TypeError, match="beta"):
        train(hindsight(prioritized=False), Walk(), act, ones, max_steps=5, after_step=with_goal, beta=0.5)
    train(hindsight(), Walk(), act, ones, max_steps=5, after_step=with_goal, beta=lambda step: 0.5)


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_train_accepts_n_step_buffers(kind):
    buffer, updates = kind(99, FIELDS, Nstep={"size": 2, "rew": "rew", "gamma": 1.0, "next": "next_obs"}), []

    def update(sample, step, episode):
        updates.append(step)
        return ones(sample, step, episode)

    train(buffer, Walk(), act, update, max_steps=5)
    assert updates == [1, 2, 3, 4]
    rows = buffer.get_all_transitions()
    assert rows["rew"].ravel().tolist() == [3, 5, 3, 9, 5]
    assert rows["done"].ravel().tolist() == [0, 1, 1, 0, 0]
    assert rows["next_obs"].ravel().tolist() == [2, 3, 3, 2, 2]
