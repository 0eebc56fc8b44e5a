"""The training loop with every kind of buffer: prioritized, shared, and one that stores late."""

from __future__ import annotations

import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, train

from .test_training import FIELDS, Walk, act, ones


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_priorities_go_back(kind):
    buffer = kind(9, FIELDS, alpha=1.0, eps=0.0, seed=1)
    # From the second step on the transition of obs 1 is worth nine of the others.
    train(buffer, Walk(), act, lambda sample, *_: 1.0 + 8 * (sample["obs"].ravel() == 1), max_steps=9, batch_size=200)
    batch = buffer.sample(2000, beta=1.0)
    is_one = batch["obs"].ravel() == 1
    assert batch["weights"][is_one] == pytest.approx(1 / 9)
    assert batch["weights"][~is_one] == pytest.approx(1)
    buffer.close()


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_no_td_errors_for_a_prioritized_buffer(kind):
    buffer = kind(9, FIELDS)
    with pytest.raises(TypeError, match="update_policy"):
        train(buffer, Walk(), act, lambda *_: None, max_steps=3)
    buffer.close()


def test_no_td_errors_for_others():
    train(ReplayBuffer(9, FIELDS), Walk(), act, lambda *_: None, max_steps=3)


@pytest.mark.parametrize(("beta", "wanted"), [(0.7, [0.7] * 3), (lambda step: step / 10, [0, 0.1, 0.2]), (None, [])])
def test_beta(beta, wanted):
    seen = []

    class Watched(PrioritizedReplayBuffer):
        def sample(self, batch_size, **options):
            seen.extend(options.values())
            return super().sample(batch_size, **options)

    train(Watched(9, FIELDS), Walk(), act, ones, max_steps=3, beta=beta)
    assert seen == pytest.approx(wanted)


@pytest.mark.parametrize("lock", ["buffer", "critical"])
def test_shared_buffers(lock):
    buffer = MPReplayBuffer(9, FIELDS, lock=lock)
    updates = []
    train(buffer, Walk(), act, lambda sample, step, _: updates.append(step), max_steps=5)
    assert buffer.get_stored_size() == 5 and updates == [0, 1, 2, 3, 4]
    assert buffer.get_current_episode_len() == 0
    buffer.close()


def test_nothing_is_sampled_before_something_is_stored():
    """As with hindsight: the buffer gets its transitions, and needs a goal, when the episode ends."""

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
