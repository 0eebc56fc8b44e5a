"""TorchRL: replay buffers put together from a storage, a sampler and a writer, that hold TensorDicts.

"torchrl" is what its reference calls composable (page "Replay Buffers": `ReplayBuffer`, `LazyTensorStorage`,
`PrioritizedSampler`): `extend` with a TensorDict around the caller's arrays, `sample(return_info=True)`,
`update_priority(index, priority)`. "[TensorDictReplayBuffer]" are the classes that the page offers first; they set an
index in each TensorDict, which takes up to half as long again. "[memmap]" keeps the rows in files
(`LazyMemmapStorage`); "[naive]" in the default `ListStorage`, as the tutorial "Using Replay Buffers" begins.

Prefetching and compiled functions are rows of their own (`variants.py`). Priorities are float32; float64 is
an error ("expected scalar type Float but found Double").
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.promises import Promises

FEATURES = {
    "batch_add": "yes",
    "flexible_fields": "yes, any keys, nested too",
    "prioritized": "yes, priorities on add (in a second call, or as the key td_error) and later",
    "weights": "relative to the largest in the buffer",
    "duplicates": "yes (without, an option where uniform)",
    "gives": "columns (TensorDict)",
    "n_step": "yes (the transform MultiStepTransform)",
    "processes": "yes (shared=True; prioritized with sync=False; remote and Ray buffers)",
    "framework": "PyTorch",
    "licence": "MIT",
    "disk": "yes, dumps and loads; LazyMemmapStorage keeps it in files [TorchRL docs, Replay Buffers]",
    "machines": "yes, RemoteReplayBuffer (RPC) and RayReplayBuffer [TorchRL docs, Replay Buffers]",
    "last_release": "0.14.1, 2026-10-10 [PyPI]",
}

PROMISES = Promises(
    nan_priority="poisons",
    negative_priority="poisons",
    infinite_priority="rules every draw",
    source="docstring of PrioritizedSampler (proportional draws; weights relative to the least priority, in its "
    "example; the largest since it was made); bad priorities, seeds and copies: not documented, seen",
)


class TorchRL(Adapter):
    name = "torchrl"
    distribution = "torchrl"
    environment = "torch"
    any_fields = True
    eps = 1e-8  # its default
    usage = "ReplayBuffer(LazyTensorStorage, PrioritizedSampler), extend(TensorDict), sample (TorchRL, Replay Buffers)"
    promises = PROMISES
    features = Features(copies_on_add="yes", **FEATURES)

    def __init__(self, spec: Spec) -> None:
        import torch
        from tensordict import TensorDict

        torch.set_num_threads(1)
        self.fields, self.prioritized = spec.fields, spec.prioritized
        self.TensorDict, self.as_tensor = TensorDict, torch.as_tensor
        self.dtypes = {name: getattr(torch, field.dtype) for name, field in spec.fields.items()}
        self.buffer = self.make_buffer(spec, torch.Generator().manual_seed(spec.seed))
        self.extend, self.draw = self.buffer.extend, partial(self.buffer.sample, return_info=True)

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from torchrl.data import ReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        sampler = PrioritizedSampler(spec.capacity, spec.alpha, spec.beta) if spec.prioritized else None
        return ReplayBuffer(storage=self.storage(spec), sampler=sampler, generator=generator, **self.options())

    def options(self) -> dict[str, Any]:
        """Of the buffer, beside its parts."""
        return {}

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import LazyTensorStorage

        return LazyTensorStorage(spec.capacity)

    def add(self, steps: Iterable[Step]) -> None:
        add, TensorDict, as_tensor = self.buffer.add, self.TensorDict, self.as_tensor  # noqa: N806
        obs_dtype, act_dtype, rew_dtype = self.dtypes["obs"], self.dtypes["act"], self.dtypes["rew"]
        for obs, act, rew, next_obs, done in steps:
            row = {
                "obs": as_tensor(obs, dtype=obs_dtype),
                "act": as_tensor(act, dtype=act_dtype),
                "rew": as_tensor(rew, dtype=rew_dtype),
                "next_obs": as_tensor(next_obs, dtype=obs_dtype),
                "done": as_tensor(done),
            }
            add(TensorDict(row, device="cpu"))

    def add_dicts(self, steps: Sequence[dict]) -> None:
        add, TensorDict, as_tensor, dtypes = self.buffer.add, self.TensorDict, self.as_tensor, self.dtypes  # noqa: N806
        for step in steps:
            row = {name: as_tensor(value, dtype=dtypes[name]) for name, value in step.items()}
            add(TensorDict(row, device="cpu"))

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add, update, TensorDict = self.buffer.add, self.buffer.update_priority, self.TensorDict  # noqa: N806
        as_tensor, obs_dtype = self.as_tensor, self.dtypes["obs"]
        act_dtype, rew_dtype = self.dtypes["act"], self.dtypes["rew"]
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            row = {
                "obs": as_tensor(obs, dtype=obs_dtype),
                "act": as_tensor(act, dtype=act_dtype),
                "rew": as_tensor(rew, dtype=rew_dtype),
                "next_obs": as_tensor(next_obs, dtype=obs_dtype),
                "done": as_tensor(done),
            }
            update(add(TensorDict(row, device="cpu")), priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        rows = {name: self.as_tensor(column) for name, column in columns.items()}
        # Of a TensorDict that names no device the storage moves each tensor to its own: 1.6 times as long, measured.
        index = self.extend(self.TensorDict(rows, batch_size=[len(next(iter(columns.values())))], device="cpu"))
        if priorities is not None:
            self.buffer.update_priority(index, self.as_tensor(priorities.astype(np.float32)))

    def sample(self, batch_size: int) -> Columns:
        drawn, info = self.draw(batch_size)
        batch = {name: drawn.get(name).numpy() for name in self.dtypes}
        if self.prioritized:
            # Of a batch of one the weight has no axis.
            batch["weights"], batch["indexes"] = info["priority_weight"].view(-1).numpy(), info["index"].numpy()
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priority(self.as_tensor(indexes), self.as_tensor(priorities.astype(np.float32)))

    def __len__(self) -> int:
        return len(self.buffer)


class TorchRLTensorDict(TorchRL):
    name = "torchrl[TensorDictReplayBuffer]"
    usage = "the same with TensorDictReplayBuffer and TensorDictPrioritizedReplayBuffer (page Replay Buffers)"

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from torchrl.data import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

        if spec.prioritized:
            return TensorDictPrioritizedReplayBuffer(
                alpha=spec.alpha, beta=spec.beta, storage=self.storage(spec), generator=generator
            )
        return TensorDictReplayBuffer(storage=self.storage(spec), generator=generator)


class TorchRLMemmap(TorchRL):
    name = "torchrl[memmap]"
    usage = (
        "the same on LazyMemmapStorage(scratch_dir=...), whose files are the adapter's (tutorial Using Replay Buffers)"
    )

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import LazyMemmapStorage

        self.folder = tempfile.mkdtemp(prefix="replaybench-torchrl-")
        return LazyMemmapStorage(spec.capacity, scratch_dir=self.folder)

    def close(self) -> None:
        del self.buffer, self.extend, self.draw
        shutil.rmtree(self.folder, ignore_errors=True)


class TorchRLNaive(TorchRL):
    name = "torchrl[naive]"
    usage = "the same on ListStorage, which is what one gets without naming a storage (tutorial Using Replay Buffers)"
    promises = replace(PROMISES, references="keeps references")
    features = Features(copies_on_add="no: keeps references to the caller's arrays", **FEATURES)

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import ListStorage

        return ListStorage(spec.capacity)
