"""sb3-extra-buffers: Stable-Baselines3's replay buffer with compressed observations.

`CompressedReplayBuffer` takes the place of Stable-Baselines3's buffer, so it is used in the same way. Each observation
and each next observation is compressed separately, with the method that the README uses for LZ4. `dtypes` (see the
README) must be the dtype of the observations: by default, values are truncated to 8 bits.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.base import Spec
from adapters.contract import Release, RowFields, Stated, no
from adapters.peers.stable_baselines3 import StableBaselines3

METHOD = "lz4-frame/5"
CONTRACT = replace(
    StableBaselines3.contract,
    fields=Stated(RowFields.FIXED, "five fixed fields"),
    n_step=no(),
    compression=no("compresses each observation, and stores it twice"),
    framework="Stable-Baselines3, PyTorch, Gymnasium, LZ4",
    release=Release("0.5.0", datetime.date(2026, 5, 27)),
    source="its README; the rest is undocumented, only observed",
)


class ExtraBuffers(StableBaselines3):
    name = "sb3-extra-buffers"
    distribution = "sb3-extra-buffers"
    usage = (
        'as stable-baselines3 with CompressedReplayBuffer(compression_method="lz4-frame/5", dtypes=...) (its README)'
    )
    contract = CONTRACT

    def buffer_class(self, spec: Spec) -> tuple[type[Any], Mapping[str, Any]]:
        from sb3_extra_buffers.compressed import CompressedReplayBuffer

        class OneEnvironment(CompressedReplayBuffer):
            """Takes observations without the axis of the environments, as Stable-Baselines3's own buffer does."""

            def add(self, obs: Any, next_obs: Any, *rest: Any) -> None:
                super().add(np.asarray(obs)[np.newaxis], np.asarray(next_obs)[np.newaxis], *rest)

        dtypes = {"elem_type": np.dtype(spec.fields["obs"].dtype).type, "runs_type": np.uint16}
        return OneEnvironment, {"compression_method": METHOD, "dtypes": dtypes}
