"""DreamerV3's replay of sequences: `embodied.replay.Uniform`, as released on PyPI in February 2023.

The project's repository has since replaced this replay by another one. That one is not in any release that pip can
install: `embodied` on PyPI, up to 1.2.0, lacks files that its setup.py reads. The package itself imports JAX and the
agent, so its folder is put on the path, as it does itself, and only `embodied` is imported.

Steps are added one by one. Each sequence of steps of a worker is an entry of a table, whether or not an episode ends in
it; the capacity counts entries, which refer to the same steps. Batches are stacked by `embodied.Batcher`, as the agent
does. Its threads (`data_loaders: 8`) were not faster here than none, the Batcher's default, and would hide a part of
the work between two calls. A step is kept as it is, so the adapter adds new arrays, as an environment returns them.
"""

from __future__ import annotations

import datetime
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from adapters import legacy
from adapters.base import Columns
from adapters.behaviours import References, SequenceBounds
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class DreamerV3Uniform(SequenceAdapter):
    name = "dreamerv3[Uniform]"
    distribution = "dreamerv3"
    venv = legacy.VENV
    usage = (
        "embodied.replay.Uniform of the release on PyPI: add, and batches by embodied.Batcher([replay.dataset] * n) "
        "(its source: jaxagent.py, train.py); the capacity counts sequences"
    )
    contract = Contract(
        batch_add=no("one step per call"),
        fields=Stated(RowFields.ANY, "any key; floats become float32, signed integers int64"),
        priorities=no(),
        returns=Stated(Returns.COLUMNS, "by its Batcher"),
        n_step=no("the agent computes returns"),
        disk=yes("a folder of chunks of steps", "its source: replay/saver.py"),
        framework="JAX (its agent)",
        licence="MIT",
        release=Release("1.5.0", datetime.date(2023, 2, 22)),
        references=References.KEPT,
        source="undocumented, only observed",
    )
    sequences = SequenceContract(bounds=SequenceBounds.ONE_STREAM, counts_sequences=True)

    def __init__(self, spec: SequenceSpec) -> None:
        package = importlib.util.find_spec("dreamerv3")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("No module named 'dreamerv3'")
        if (folder := str(Path(package.origin).parent)) not in sys.path:
            sys.path.append(folder)
        import embodied

        self.embodied, self.names = embodied, list(spec.fields)
        self.replay = embodied.replay.Uniform(spec.length, spec.capacity, seed=spec.seed)
        self.batches: dict[int, Any] = {}

    def add(self, columns: Columns) -> None:
        add = self.replay.add
        steps, streams = columns["done"].shape
        for step in range(steps):
            for stream in range(streams):
                add({name: np.array(columns[name][step, stream]) for name in self.names}, worker=stream)

    def sample(self, batch_size: int) -> Columns:
        if batch_size not in self.batches:
            self.batches[batch_size] = self.embodied.Batcher([self.replay.dataset] * batch_size)
        batch: Columns = next(self.batches[batch_size])
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        raise NotImplementedError(f"{self.name} has no priorities")
