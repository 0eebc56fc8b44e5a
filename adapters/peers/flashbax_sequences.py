"""Flashbax's trajectory buffers, which draw sequences of each stream without regard to the ends of episodes.

As in `flashbax.py`, each function is compiled, and the buffer's state is donated (README, "In-place Updating of Buffer
State"). Each length of added steps and each batch size is compiled on first use, before anything is timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequenceBounds
from adapters.peers.flashbax import Flashbax
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class FlashbaxTrajectories(SequenceAdapter):
    name = "flashbax[trajectories]"
    distribution = "flashbax"
    venv = "jax"
    usage = (
        "make_(prioritised_)trajectory_buffer with period=1, functions compiled with jax.jit(..., donate_argnums=0) "
        "(README, In-place Updating of Buffer State); compiled for each batch size before timing"
    )
    contract = Flashbax.contract
    sequences = SequenceContract(
        bounds=SequenceBounds.ONE_STREAM,
        prioritized_bounds=SequenceBounds.ONE_STREAM,
        source="docstring of make_trajectory_buffer; ends of episodes: only observed",
    )

    def __init__(self, spec: SequenceSpec) -> None:
        import flashbax
        import jax
        import jax.numpy as jnp

        if any(np.dtype(field.dtype).itemsize == 8 for field in spec.fields.values()):
            jax.config.update("jax_enable_x64", True)
        self.flashbax, self.jax, self.spec = flashbax, jax, spec
        self.dtypes = {name: np.dtype(field.dtype) for name, field in spec.fields.items()}
        buffer = self._buffer(1)
        row = {name: jnp.zeros(field.shape, self.dtypes[name]) for name, field in spec.fields.items()}
        self.state, self.key = buffer.init(row), jax.random.PRNGKey(spec.seed)
        self._add = jax.jit(buffer.add, donate_argnums=0)
        self._set = jax.jit(buffer.set_priorities, donate_argnums=0) if spec.prioritized else None
        self.samplers: dict[int, Any] = {}

    def _buffer(self, batch_size: int) -> Any:
        """Return a buffer, which only consists of functions: those of all batch sizes share one state."""
        spec = self.spec
        sizes = {
            "add_batch_size": spec.streams,
            "sample_batch_size": batch_size,
            "sample_sequence_length": spec.length,
            "period": 1,
            "min_length_time_axis": spec.length,
            "max_length_time_axis": spec.capacity // spec.streams,
        }
        if spec.prioritized:
            return self.flashbax.make_prioritised_trajectory_buffer(**sizes, priority_exponent=spec.alpha, device="cpu")
        return self.flashbax.make_trajectory_buffer(**sizes)

    def add(self, columns: Columns) -> None:
        rows = {name: np.swapaxes(column, 0, 1).astype(self.dtypes[name]) for name, column in columns.items()}
        self.state = self.jax.block_until_ready(self._add(self.state, rows))

    def sample(self, batch_size: int) -> Columns:
        sampler = self.samplers.get(batch_size)
        if sampler is None:
            sampler = self.samplers[batch_size] = self._sampler(batch_size)
        batch, self.key = sampler(self.state, self.key)
        return {name: np.asarray(column) for name, column in batch.items()}

    def _sampler(self, batch_size: int) -> Any:
        jax, jnp, spec = self.jax, self.jax.numpy, self.spec
        buffer = self._buffer(batch_size)

        def draw(state, key):
            key, this = jax.random.split(key)
            drawn = buffer.sample(state, this)
            batch = dict(drawn.experience)
            if spec.prioritized:
                weights = (1.0 / drawn.probabilities) ** spec.beta
                batch["weights"], batch["indexes"] = weights / jnp.max(weights), drawn.indices
            return batch, key

        return jax.jit(draw)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        state = self._set(self.state, indexes, priorities.astype(np.float32))
        self.state = self.jax.block_until_ready(state)
