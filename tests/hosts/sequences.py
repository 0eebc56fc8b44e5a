"""Sequences of steps over several shards: what their tests have in common."""

from __future__ import annotations

from cpprb_impl.hosts.learner import Learner
from tests.cpprb_impl.test_shared_sequences import STEPS

ENVS, SIZE, EPISODE = 2, 4, 7
OPTIONS = {"size": 3000, "env_dict": STEPS, "n_envs": ENVS, "sequences": {"size": SIZE}}
Row = tuple[int, int, int]  # explorer, stream, step


def learner_of(learn, shards, **options) -> Learner:
    return learn(shards, **{"sequences": shards[0].buffer._layout.options["sequences"], **options})


def rows_in(shard) -> list[Row]:
    rows = shard.buffer.get_all_transitions()
    return [*zip(*(rows[name].ravel().tolist() for name in ("explorer", "stream", "step")), strict=True)]
