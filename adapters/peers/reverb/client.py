"""A client that draws batches from a table of Reverb, as `adapter.py` describes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from adapters.base import Columns
from adapters.peers.reverb.server import TABLE

#: one per CPU thread, as the docstring of TrajectoryDataset advises
WORKERS = min(8, os.cpu_count() or 1)


def limit_threads() -> None:
    """Let TensorFlow use one thread, like all peers. Has no effect once it is running."""
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        pass


class Client:
    """Draws batches of a table's items, and updates their priorities."""

    workers: int = WORKERS  # per dataset; -1: Reverb chooses
    in_flight: int = 2  # batches requested by each worker

    def _use(self, address: str, prioritized: bool, beta: float) -> None:
        """Use the server at this address."""
        import reverb
        import tensorflow as tf

        self.address, self.reverb = address, reverb
        # Otherwise tf.data adds a queue to the end of the pipeline, which was observed to grow to 67 batches.
        self.options = tf.data.Options()
        self.options.experimental_optimization.inject_prefetch = False
        self.prioritized, self.beta = prioritized, beta
        self.client = reverb.Client(address)
        self.batch_size, self.batches = 0, None

    def _dataset(self, batch_size: int) -> Any:
        """Return a dataset of single items."""
        return self.reverb.TrajectoryDataset.from_table_signature(
            self.address,
            TABLE,
            max_in_flight_samples_per_worker=self.in_flight * batch_size,
            num_workers_per_iterator=self.workers,
        )

    def _batches(self, batch_size: int) -> Any:
        """Return an endless iterator of batches. Only one exists at a time, since each prefetches."""
        if batch_size != self.batch_size:
            self.batches = None
            self.batch_size = batch_size
            dataset = self._dataset(batch_size).batch(batch_size)
            self.batches = dataset.with_options(self.options).as_numpy_iterator()
        return self.batches

    def sample(self, batch_size: int) -> Columns:
        drawn = next(self._batches(batch_size))
        batch = dict(drawn.data)
        if self.prioritized:
            batch["weights"] = self._weights(drawn.info.probability)
            batch["indexes"] = drawn.info.key
        return batch

    def _weights(self, probability: np.ndarray) -> np.ndarray:
        return ((probability / probability.min()) ** -self.beta).astype(np.float32)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.client.mutate_priorities(TABLE, dict(zip(indexes.tolist(), priorities.tolist(), strict=True)))
