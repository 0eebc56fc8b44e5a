"""RLlib's buffers of its new API stack, which store episodes; in this process and without a Ray cluster.

Used as the class docstrings of EpisodeReplayBuffer and PrioritizedEpisodeReplayBuffer show (RLlib docs, Episodes and
Replay Buffers): steps go into a SingleAgentEpisode, episodes into the buffer, which puts the parts of one together
again. A sample is a list of episodes of one step each; stacking them is the user's.

- One step is added as an EnvRunner does it that hands over after every step: the part goes in, `cut()` begins the next.
- A batch is cut into episodes where a row does not continue the one before it, and they go in as arrays in one call.
- One weight goes with one call, so rows that bring priorities are added step by step.
- New priorities are those of the last sample: `update_priorities` takes no indexes, and so ours here are places in it.
- Whole episodes are overwritten, so that fewer rows than the capacity are stored, or more where one is longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.peers.rllib.adapter import without_tensorflow
from adapters.promises import Promises


class RLlibEpisodes(Adapter):
    name = "rllib[episodes]"
    distribution = "ray"
    usage = "EpisodeReplayBuffer or PrioritizedEpisodeReplayBuffer of SingleAgentEpisodes, one-step samples stacked"
    whole_episodes = True
    promises = Promises(
        new_row_priority="the largest update",
        nan_priority="poisons",
        negative_priority="ignored",  # the least there is, instead
        infinite_priority="poisons",
        seed="none",
        source="docstrings of both buffers (a new step has the largest priority, of those from 0 to 1); bad "
        "priorities and seeds: not documented, seen",
    )
    features = Features(
        batch_add="yes, a list of episodes",
        flexible_fields="no: observations (nested), actions, rewards, infos, extra model outputs",
        prioritized="yes, on add one weight a call",
        weights="relative to the largest in the buffer",
        duplicates="yes",
        gives="rows (episodes of one step)",
        copies_on_add="yes (a deep copy)",
        n_step="yes, when sampling; also random n",
        processes="through a Ray actor",
        framework="Ray",
        licence="Apache-2.0",
        disk="yes, get_state and set_state, kept by its checkpoints [RLlib docs, Replay Buffers]",
        machines="through a Ray actor, anywhere in the cluster [Ray docs, Actors]",
        last_release="2.60.0, 2026-11-04 [PyPI]",
        compression="no, but next_obs is stored once, as the episode's next observation",
    )

    def __init__(self, spec: Spec) -> None:
        with without_tensorflow():
            from ray.rllib.env.single_agent_episode import SingleAgentEpisode
            from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

        self.Episode = SingleAgentEpisode
        self.prioritized, self.beta, self.fields = spec.prioritized, spec.beta, spec.fields
        if spec.prioritized:
            self.buffer = PrioritizedEpisodeReplayBuffer(spec.capacity, alpha=spec.alpha)
        else:
            self.buffer = EpisodeReplayBuffer(spec.capacity)
        self.episode = self.last_obs = None  # the part to come, and what it begins with

    def add(self, steps: Sequence[Step]) -> None:
        add = self.buffer.add
        for part in self._parts(steps):
            add(part)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add = self.buffer.add
        for part, priority in zip(self._parts(steps), priorities, strict=True):
            add(part, weight=priority)

    def _parts(self, steps: Iterable[Step]) -> Iterator:
        """Of episodes, a step each. A loop says `obs = next_obs` until its episode is over."""
        for obs, act, rew, next_obs, done in steps:
            part = self.episode
            if part is None or obs is not self.last_obs:
                part = self.Episode()
                part.add_env_reset(obs)
            part.add_env_step(next_obs, act, rew, terminated=done)
            yield part
            self.episode, self.last_obs = None if done else part.cut(), next_obs

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        episodes = _episodes(columns)
        if priorities is None:
            self.buffer.add(
                [
                    self.Episode(
                        observations=obs,
                        actions=list(act),
                        rewards=list(rew),
                        terminated=bool(done[-1]),
                        len_lookback_buffer=0,
                    ).to_numpy()
                    for obs, act, rew, done in episodes
                ]
            )
        else:
            steps = [
                step
                for obs, act, rew, done in episodes
                for step in map(Step, obs[:-1], act, rew.tolist(), obs[1:], done.tolist())
            ]
            self.add_with_priorities(steps, priorities.tolist())

    def sample(self, batch_size: int) -> Columns:
        if self.prioritized:
            drawn = self.buffer.sample(batch_size, n_step=1, beta=self.beta)
        else:
            drawn = self.buffer.sample(batch_size, n_step=1, sample_episodes=True)
        obs, next_obs = zip(*(episode.get_observations() for episode in drawn), strict=True)
        batch = {
            "obs": np.stack(obs),
            "act": np.stack([episode.get_actions(0) for episode in drawn]),
            "rew": np.array([episode.get_rewards(0) for episode in drawn], np.float32),
            "next_obs": np.stack(next_obs),
            "done": np.array([episode.is_terminated for episode in drawn]),
        }
        if self.prioritized:
            batch["weights"] = np.array([episode.get_extra_model_outputs("weights", 0) for episode in drawn])
            batch["indexes"] = np.arange(batch_size)
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(priorities)

    def __len__(self) -> int:
        return len(self.buffer)


def _episodes(columns: Columns) -> Iterator[tuple[list, np.ndarray, np.ndarray, np.ndarray]]:
    """Observations (one more than steps), actions, rewards and ends of rows that continue each other."""
    obs, act, rew, next_obs, done = (columns[name] for name in Step._fields)
    continued = (next_obs[:-1] == obs[1:]).all(axis=tuple(range(1, obs.ndim))) & ~done[:-1]
    ends = [*(np.flatnonzero(~continued) + 1).tolist(), len(done)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield [*obs[start:end], next_obs[end - 1]], act[start:end], rew[start:end], done[start:end]
