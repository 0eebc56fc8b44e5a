"""RLlib's EpisodeReplayBuffer, which fills rows of T timesteps with parts of episodes, as its DreamerV3 uses it.

A row continues with the start of another, random episode where its episode ends (docstring of EpisodeReplayBuffer). Its
timesteps are observations, each with the action that follows and the reward that precedes it. A sequence of n steps is
therefore taken from n + 1 timesteps, as views: `next_obs`, `rew` and `done` are those of the next timestep. Between the
last observation of an episode and the first of the next one, there is no step (`gaps`).

Each call adds a part of an episode as lists, and a call with more of that episode continues it, as the parts of
`SingleAgentEpisode.cut()` do. RLlib's default, episodes converted to arrays (`to_numpy`), is not used: from lists, it
samples faster, although it adds more slowly.

PrioritizedEpisodeReplayBuffer draws only single transitions ("only sequences of length 1 are possible", docstring of
its method `sample`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequenceBounds
from adapters.contract import no
from adapters.peers.rllib.adapter import without_tensorflow
from adapters.peers.rllib.episodes import RLlibEpisodes
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class RLlibRows(SequenceAdapter):
    name = "rllib[episode rows]"
    distribution = "ray"
    last_python = RLlibEpisodes.last_python
    usage = (
        "EpisodeReplayBuffer.sample(batch_size_B, batch_length_T), episodes as lists (docstring of "
        "EpisodeReplayBuffer); next_obs, rewards and ends are those of the next timestep, one more being drawn"
    )
    contract = replace(RLlibEpisodes.contract, priorities=no("single transitions only"))
    sequences = SequenceContract(bounds=SequenceBounds.JOINED, source="docstring of EpisodeReplayBuffer")

    def __init__(self, spec: SequenceSpec) -> None:
        with without_tensorflow():
            from ray.rllib.env.single_agent_episode import SingleAgentEpisode
            from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

        self.Episode, self.length = SingleAgentEpisode, spec.length
        self.buffer = EpisodeReplayBuffer(spec.capacity)
        self.ongoing: list[Any] = [None] * spec.streams  # the last part of each stream's episode, if it has not ended

    def add(self, columns: Columns) -> None:
        self.buffer.add([part for stream in range(len(self.ongoing)) for part in self._parts(columns, stream)])

    def _parts(self, columns: Columns, stream: int) -> Iterator[Any]:
        """Yield these steps of a stream as a part of each of their episodes."""
        obs, act, rew, next_obs, done = (columns[name][:, stream] for name in ("obs", "act", "rew", "next_obs", "done"))
        steps = len(done)
        ends = np.flatnonzero(done).tolist()
        for start, last in zip([0, *(end + 1 for end in ends)], [*ends, steps - 1], strict=True):
            if start > last:
                return
            stop, before = last + 1, self.ongoing[stream]
            continued = {} if before is None else {"id_": before.id_, "t_started": before.t}
            part = self.Episode(
                observations=[*obs[start:stop], next_obs[last]],
                actions=list(act[start:stop]),
                rewards=rew[start:stop].tolist(),
                terminated=bool(done[last]),
                len_lookback_buffer=0,
                **continued,
            )
            self.ongoing[stream] = None if done[last] else part
            yield part

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size_B=batch_size, batch_length_T=self.length + 1)
        return {
            "obs": drawn["obs"][:, :-1],
            "act": drawn["actions"][:, :-1],
            "rew": drawn["rewards"][:, 1:],
            "next_obs": drawn["obs"][:, 1:],
            "done": drawn["is_terminated"][:, 1:],
            "gaps": drawn["is_last"][:, :-1],
        }

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        raise NotImplementedError(f"{self.name} has no priorities")
