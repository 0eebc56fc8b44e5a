"""d3rlpy: the replay buffer of a library for offline learning, which stores whole episodes.

It is the best-known library for offline reinforcement learning, with far fewer users than Stable-Baselines3 or TorchRL,
and is not commonly used for online learning. Its `append` and `clip_episode` (page "Replay Buffer") accept steps in
order, one episode after another, and without next_obs: a batch's next_obs is the obs of the following step, or zeros
where an episode terminates. A row with its own next_obs is therefore stored as an episode of two steps, of which the
`FIFOBuffer` keeps one transition. A `TransitionPicker`, the library's own way to define a transition, is implemented
here to report whether the transition is terminal. A user who adds whole episodes pays less per step for adding, and the
same for sampling.

A batch is float32 throughout, images included, and is cast back to the dtypes of the fields.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import RoundTrip, Seed, Shape
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes


class D3rlpy(Adapter):
    name = "d3rlpy"
    distribution = "d3rlpy"
    venv = "d3rlpy"
    usage = "ReplayBuffer(FIFOBuffer(limit)), one Episode per row, sample_transition_batch (d3rlpy docs, Replay Buffer)"
    contract = Contract(
        batch_add=no("whole episodes"),
        fields=Stated(RowFields.FIXED, "observation (which may be a tuple), action and reward; batches are float32"),
        priorities=no(),
        returns=Stated(Returns.COLUMNS),
        n_step=yes("MultiStepTransitionPicker"),
        disk=yes("dump and load: HDF5", "its source: ReplayBuffer.dump"),
        compression=no("next_obs is never stored twice, but lost where an episode terminates"),
        framework="PyTorch, Gymnasium",
        licence="MIT",
        release=Release("2.8.1", datetime.date(2025, 3, 2)),
        round_trip=RoundTrip.AS_32_BITS,
        shape=Shape.SCALARS_HAVE_AN_AXIS,
        seed=Seed.GLOBAL,
    )

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        if spec.is_plain and (spec.fields["rew"].shape or spec.fields["done"].shape):
            return f"{cls.name} stores only one reward per row: it builds sequences from whole episodes"
        return super().refusal(spec)

    def __init__(self, spec: Spec) -> None:
        from d3rlpy import ActionSpace
        from d3rlpy.dataset import Episode, FIFOBuffer, ReplayBuffer, Signature, Transition

        self.fields = spec.fields

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
            cache_size=1,  # only used if episodes are appended step by step, which this adapter never does
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
