"""ChainerRL's replay buffers: the code of its last release itself (`chainerrl.replay_buffers`).

Used as its agents do (`chainerrl.replay_buffer.batch_experiences`): `append(state=..., ...)`, `sample(n)`, rows stacked
key by key, `update_errors(errors)`. Each row is a list of `num_steps` dicts, here one. Draws come from NumPy's global
random state. Beta is held still and errors are not clipped, so that every peer does the same work at the same
priorities (both are options); a priority goes with a row only through the inner memory, `buffer.memory.append`.

Odd: a row keeps references to the caller's arrays; `sample` after `sample` is refused until `update_errors`; and an
index counts from the oldest row, so adding to a full buffer between the two gives the errors to the wrong rows, while
the rows that were out stay at priority 0 and are never drawn again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adapters import legacy
from adapters.base import Spec
from adapters.peers.chainerrl_style import ChainerRLStyle


class ChainerRL(ChainerRLStyle):
    name = "chainerrl"
    distribution = "chainerrl"
    environment = legacy.ENVIRONMENT
    usage = (
        "as its agents: append(state=...), sample(n), rows stacked by key, update_errors(errors); "
        "its buffers' modules alone, since importing the package needs Chainer"
    )
    features = replace(
        ChainerRLStyle.features,
        n_step="yes, num_steps",
        framework="NumPy (the whole package: Chainer)",
        licence="MIT",
        disk="yes, save and load: a pickle [its source: ReplayBuffer.save]",
        last_release="0.8.0, 2020-02-14 [PyPI]",
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
            eps=self.eps,
            error_min=None,
            error_max=None,
        )
