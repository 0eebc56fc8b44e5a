"""RLlib's episode buffers, part of its new API stack, used within this process without a Ray cluster.

Used as the docstrings of EpisodeReplayBuffer and PrioritizedEpisodeReplayBuffer show (RLlib docs, Episodes and Replay
Buffers): steps go into a SingleAgentEpisode, episodes into the buffer, which joins the parts of one episode. A sample
is a list of episodes of one step each, which the user stacks.

- Single steps are added as an EnvRunner that returns after every step would add them: each call adds a part of an
  episode, and `cut()` starts the next part.
- A batch is split into episodes where a row does not continue the previous one. They are added as arrays in one call.
- A call takes one weight, so rows with priorities are added step by step.
- `update_priorities` takes no indexes and applies to the last sample, so indexes here are positions in that sample.
- Whole episodes are overwritten, so fewer rows than the capacity are stored, or more if an episode is longer than the
  capacity.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, NewRowPriority, Seed
from adapters.contract import Contract, Processes, Release, Returns, RowFields, Stated, no, yes
from adapters.peers.rllib.adapter import without_tensorflow


class RLlibEpisodes(Adapter):
    name = "rllib[episodes]"
    distribution = "ray"
    last_python = (3, 14)
    usage = "EpisodeReplayBuffer or PrioritizedEpisodeReplayBuffer of SingleAgentEpisodes, one-step samples stacked"
    contract = Contract(
        batch_add=yes("a list of episodes"),
        fields=Stated(RowFields.FIXED, "observations (may be nested), actions, rewards, infos, extra model outputs"),
        priorities=yes("priorities on add (one weight per call) and later"),
        returns=Stated(Returns.ROWS, "episodes of one step"),
        n_step=yes("when sampling; also random n"),
        processes=Stated(Processes.ANY, "through a Ray actor"),
        machines=yes("through a Ray actor, anywhere in the cluster", "Ray docs, Actors"),
        disk=yes("get_state and set_state, saved by its checkpoints", "RLlib docs, Replay Buffers"),
        compression=no("next_obs is always stored once, as the episode's next observation; frames are not"),
        framework="Ray",
        licence="Apache-2.0",
        release=Release("2.60.0", datetime.date(2026, 11, 4)),
        whole_episodes=True,
        new_row_priority=NewRowPriority.LARGEST_UPDATE,
        nan_priority=BadPriority.POISONS,
        negative_priority=BadPriority.IGNORED,  # replaced by the smallest priority possible
        infinite_priority=BadPriority.POISONS,
        seed=Seed.NONE,
        source="docstrings of both buffers (a new step has the largest priority, within 0 to 1); bad priorities and "
        "seeds: undocumented, only observed",
        remarks={"copies_on_add": "a deep copy"},
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
        self.episode = self.last_obs = None  # the next part, and its first observation

    def add(self, steps: Sequence[Step]) -> None:
        add = self.buffer.add
        for part in self._parts(steps):
            add(part)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add = self.buffer.add
        for part, priority in zip(self._parts(steps), priorities, strict=True):
            add(part, weight=priority)

    def _parts(self, steps: Iterable[Step]) -> Iterator:
        """Yield parts of episodes, one step each. A step whose `obs` is the same object as the `next_obs`
        of the step before continues that step's episode."""
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
    """Yield, for each run of consecutive rows: observations (one more than rows), actions, rewards and ends."""
    obs, act, rew, next_obs, done = (columns[name] for name in Step._fields)
    continued = (next_obs[:-1] == obs[1:]).all(axis=tuple(range(1, obs.ndim))) & ~done[:-1]
    ends = [*(np.flatnonzero(~continued) + 1).tolist(), len(done)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield [*obs[start:end], next_obs[end - 1]], act[start:end], rew[start:end], done[start:end]
