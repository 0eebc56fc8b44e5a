"""d3rlpy: the replay buffer of a library for offline learning, which keeps whole episodes.

The best known library of its kind, though it has far fewer users than Stable-Baselines3 or TorchRL; a buffer for
online learning is not what it is chosen for. Its `append` and `clip_episode` (page "Replay Buffer") take the steps of
one episode after the other and no next_obs: that is the obs of the step after, and zeros where an episode terminates.
So a row that brings a next_obs of its own is an episode of two steps here, of which one transition is kept in the
`FIFOBuffer`, and a `TransitionPicker` of ours, its own way to change what a transition is, tells whether it is
terminal. Whoever has whole episodes adds with less; sampling costs the same.

A batch is float32 throughout, images too: it is cast back to the fields' types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.promises import Promises


class D3rlpy(Adapter):
    name = "d3rlpy"
    distribution = "d3rlpy"
    environment = "d3rlpy"
    usage = "ReplayBuffer(FIFOBuffer(limit)), an Episode a row, sample_transition_batch (d3rlpy docs, Replay Buffer)"
    features = Features(
        batch_add="no: whole episodes",
        flexible_fields="no: observation (a tuple, too), action, reward; batches are float32",
        prioritized="no",
        weights="no",
        duplicates="yes",
        gives="columns",
        copies_on_add="yes",
        n_step="yes (MultiStepTransitionPicker)",
        processes="no",
        framework="PyTorch, Gymnasium",
        licence="MIT",
        disk="yes, dump and load: HDF5 [its source: ReplayBuffer.dump]",
        machines="no",
        last_release="2.8.1, 2025-03-02 [PyPI]",
        compression="no: next_obs is never stored twice, but lost where an episode terminates",
    )

    promises = Promises(
        round_trip="as 32 bits", shape="scalars as (1,)", seed="global seed", source="not documented; seen"
    )

    def __init__(self, spec: Spec) -> None:
        from d3rlpy import ActionSpace
        from d3rlpy.dataset import Episode, FIFOBuffer, ReplayBuffer, Signature, Transition

        self.fields = spec.fields
        if spec.fields["rew"].shape or spec.fields["done"].shape:
            raise NotImplementedError(f"{self.name} stores one reward a row: sequences are drawn from whole episodes")

        def signature(name: str) -> Any:
            return Signature([np.dtype(spec.fields[name].dtype)], [spec.fields[name].shape or (1,)])

        def pick(episode: Any, index: int) -> Any:
            return Transition(
                observation=episode.observations[0],
                action=episode.actions[0],
                reward=episode.rewards[0],
                next_observation=episode.observations[1],
                next_action=episode.actions[1],
                terminal=float(episode.terminated),
                interval=1,
                rewards_to_go=episode.rewards,
            )

        self.Episode = Episode
        discrete = not spec.fields["act"].shape
        self.buffer = ReplayBuffer(
            FIFOBuffer(spec.capacity),
            transition_picker=pick,
            observation_signature=signature("obs"),
            action_signature=signature("act"),
            reward_signature=signature("rew"),
            action_space=ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS,
            action_size=1 if discrete else spec.fields["act"].shape[0],
            cache_size=1,  # of an episode that is being appended step by step: none is
        )

    def add(self, steps: Sequence[Step]) -> None:
        append, Episode, array = self.buffer.buffer.append, self.Episode, np.array  # noqa: N806
        act_dtype, scalar = self.fields["act"].dtype, not self.fields["act"].shape
        number = not self.fields["obs"].shape
        for obs, act, rew, next_obs, done in steps:
            actions = array([[act], [act]] if scalar else [act, act], act_dtype)
            observations = array([[obs], [next_obs]] if number else [obs, next_obs])
            append(Episode(observations, actions, array([[rew], [0.0]], np.float32), done), 0)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        self.add([Step(*row) for row in zip(*(columns[name] for name in Step._fields), strict=True)])

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample_transition_batch(batch_size)
        batch = {
            "obs": drawn.observations,
            "act": drawn.actions,
            "rew": drawn.rewards,
            "next_obs": drawn.next_observations,
            "done": drawn.terminals,
        }
        return {name: column.astype(self.fields[name].dtype, copy=False) for name, column in batch.items()}

    def __len__(self) -> int:
        return self.buffer.transition_count
