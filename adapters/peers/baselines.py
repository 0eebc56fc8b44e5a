"""OpenAI Baselines' deepq replay buffers: the code of the last release (`baselines.deepq.replay_buffer`).

Used as its training loop, `baselines.deepq.simple.learn`, does: positional `add`, `sample(batch_size, beta)`,
`update_priorities(batch_idxes, new_priorities)`. `add` takes no priority, so a new row's priority is set immediately
after the add. Draws use Python's global `random`. Two oddities: the row in the last occupied slot is never drawn by
priority, and rows are references to the caller's arrays, so changing such an array changes the buffer.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import replace

from adapters import legacy
from adapters.base import Spec
from adapters.contract import Release
from adapters.peers.baselines_style import BaselinesStyle


class Baselines(BaselinesStyle):
    name = "baselines"
    distribution = "baselines"
    venv = legacy.VENV
    usage = (
        "positional add, sample(batch, beta), update_priorities(idxes, priorities), as deepq.learn does; "
        "only its buffers' modules are imported, since the package needs TensorFlow 1"
    )
    contract = replace(
        BaselinesStyle.contract,
        framework="NumPy < 2 (the whole package: TensorFlow 1)",
        licence="MIT",
        release=Release("0.1.5", datetime.date(2018, 2, 26)),
    )

    def make_buffer(self, spec: Spec):
        code = legacy.load("baselines.deepq.replay_buffer", ("baselines", "baselines.common", "baselines.deepq"))
        random.seed(spec.seed)
        if spec.prioritized:
            return code.PrioritizedReplayBuffer(spec.capacity, spec.alpha)
        return code.ReplayBuffer(spec.capacity)
