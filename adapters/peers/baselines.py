"""OpenAI Baselines' deepq replay buffers: the code of the last release itself (`baselines.deepq.replay_buffer`).

Used as its training loop, `baselines.deepq.simple.learn`, does: positional `add`, `sample(batch_size, beta)`,
`update_priorities(batch_idxes, new_priorities)`. A priority for a new row is set right after its add, for want of
another way. Draws come from Python's global `random`. Odd: the row in the last occupied slot is never drawn by
priority, and rows are references to the caller's arrays, so what the caller changes afterwards changes the buffer.
"""

from __future__ import annotations

import random
from dataclasses import replace

from adapters import legacy
from adapters.base import Spec
from adapters.peers.baselines_style import BaselinesStyle


class Baselines(BaselinesStyle):
    name = "baselines"
    distribution = "baselines"
    environment = legacy.ENVIRONMENT
    usage = (
        "positional add, sample(batch, beta), update_priorities(idxes, priorities), as deepq.learn does; "
        "its buffers' modules alone, since importing the package needs TensorFlow 1"
    )
    features = replace(
        BaselinesStyle.features,
        framework="NumPy < 2 (the whole package: TensorFlow 1)",
        licence="MIT",
        last_release="0.1.5, 2018-02-26 [PyPI]",
    )

    def make_buffer(self, spec: Spec):
        code = legacy.load("baselines.deepq.replay_buffer", ("baselines", "baselines.common", "baselines.deepq"))
        random.seed(spec.seed)
        if spec.prioritized:
            return code.PrioritizedReplayBuffer(spec.capacity, spec.alpha)
        return code.ReplayBuffer(spec.capacity)
