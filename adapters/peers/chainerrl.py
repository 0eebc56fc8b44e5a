"""ChainerRL's replay buffers: the code of its last release (`chainerrl.replay_buffers`).

Used as its agents do (`chainerrl.replay_buffer.batch_experiences`): `append(state=..., ...)`, `sample(n)`, rows stacked
key by key, `update_errors(errors)`. Each row is a list of `num_steps` dicts, here one. Draws use NumPy's global random
state. Beta is constant and errors are not clipped (both are options), so that all peers do the same work with the same
priorities. Only the inner memory's method, `buffer.memory.append`, takes a priority with a row.

Oddities: a row keeps references to the caller's arrays. `sample` cannot be called twice without `update_errors`. An
index counts from the oldest row: if rows are added to a full buffer between a sample and its update, the errors go to
the wrong rows, and the sampled rows stay at priority 0 and are never drawn again.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from adapters import legacy
from adapters.base import Spec
from adapters.contract import Release, yes
from adapters.peers.chainerrl_style.adapter import ChainerRLStyle


class ChainerRL(ChainerRLStyle):
    name = "chainerrl"
    distribution = "chainerrl"
    venv = legacy.VENV
    usage = (
        "as in its agents: append(state=...), sample(n), rows stacked by key, update_errors(errors); "
        "only its buffers' modules are imported, since the package needs Chainer"
    )
    contract = replace(
        ChainerRLStyle.contract,
        framework="NumPy (the whole package: Chainer)",
        licence="MIT",
        disk=yes("save and load, as a pickle", "its source: ReplayBuffer.save"),
        release=Release("0.8.0", datetime.date(2020, 2, 14)),
    )

    def make_buffer(self, spec: Spec):
        code = legacy.load("chainerrl.replay_buffers", ("chainer", "chainerrl", "chainerrl.misc"))
        np.random.seed(spec.seed)
        if not spec.prioritized:
            return code.ReplayBuffer(spec.capacity)
        return code.PrioritizedReplayBuffer(
            spec.capacity,
            alpha=spec.alpha,
            beta0=spec.beta,
            betasteps=None,
            eps=self.contract.eps,
            error_min=None,
            error_max=None,
        )
