"""TorchRL: replay buffers composed of a storage, a sampler and a writer, which hold TensorDicts.

- "torchrl" is what its reference calls composable (page "Replay Buffers": `ReplayBuffer`, `LazyTensorStorage`,
  `PrioritizedSampler`): `extend` with a TensorDict around the caller's arrays, `sample(return_info=True)`,
  `update_priority(index, priority)`.
- "torchrl[TensorDictReplayBuffer]" uses the classes that the page presents first. They set an index in each TensorDict,
  so that calls take up to 1.5 times as long.
- "torchrl[memmap]" keeps the rows in files (`LazyMemmapStorage`).
- "torchrl[naive]" keeps them in the default `ListStorage`, as the tutorial "Using Replay Buffers" does at the
  beginning.

`variants.py` adds prefetching and compiled functions, `shared.py` a buffer for several processes. Priorities are
float32; float64 raises an error ("expected scalar type Float but found Double").
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, References
from adapters.contract import Contract, Processes, Release, Returns, RowFields, Stated, yes

CONTRACT = Contract(
    batch_add=yes(),
    fields=Stated(RowFields.ANY, "any keys, nested too"),
    priorities=yes("priorities on add (in a second call, or as the key td_error) and later"),
    returns=Stated(Returns.COLUMNS, "TensorDict"),
    n_step=yes("the transform MultiStepTransform"),
    processes=Stated(Processes.ANY, "shared=True (prioritized: with sync=False); remote and Ray buffers"),
    machines=yes("RemoteReplayBuffer (RPC) and RayReplayBuffer", "TorchRL docs, Replay Buffers"),
    disk=yes("dumps and loads; LazyMemmapStorage keeps it in files", "TorchRL docs, Replay Buffers"),
    framework="PyTorch",
    licence="MIT",
    release=Release("0.14.1", datetime.date(2026, 10, 10)),
    eps=1e-8,  # its default
    nan_priority=BadPriority.POISONS,
    negative_priority=BadPriority.POISONS,
    infinite_priority=BadPriority.RULES_EVERY_DRAW,
    source="docstring of PrioritizedSampler (proportional draws; weights relative to the smallest priority, in its "
    "example; new rows get the largest priority so far); bad priorities, seeds and copies: undocumented, only observed",
    remarks={"duplicates": "optionally without, if uniform"},
)


class TorchRL(Adapter):
    name = "torchrl"
    distribution = "torchrl"
    venv = "torch"
    usage = "ReplayBuffer(LazyTensorStorage, PrioritizedSampler), extend(TensorDict), sample (TorchRL, Replay Buffers)"
    contract = CONTRACT

    def __init__(self, spec: Spec) -> None:
        import torch

        self._prepare(spec)
        self.buffer = self.make_buffer(spec, torch.Generator().manual_seed(spec.seed))
        self.extend, self.draw = self.buffer.extend, partial(self.buffer.sample, return_info=True)

    def _prepare(self, spec: Spec) -> None:
        import torch
        from tensordict import TensorDict

        torch.set_num_threads(1)
        self.fields, self.prioritized = spec.fields, spec.prioritized
        self.TensorDict, self.as_tensor = TensorDict, torch.as_tensor
        self.dtypes = {name: getattr(torch, field.dtype) for name, field in spec.fields.items()}

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from torchrl.data import ReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        sampler = PrioritizedSampler(spec.capacity, spec.alpha, spec.beta) if spec.prioritized else None
        return ReplayBuffer(storage=self.storage(spec), sampler=sampler, generator=generator, **self.options())

    def options(self) -> dict[str, Any]:
        """Return further arguments for the buffer's constructor."""
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
        # Without a device, the storage moves each tensor to its own device, which was measured to take 1.6 times as
        # long.
        index = self.extend(self.TensorDict(rows, batch_size=[len(next(iter(columns.values())))], device="cpu"))
        if priorities is not None:
            self.buffer.update_priority(index, self.as_tensor(priorities.astype(np.float32)))

    def sample(self, batch_size: int) -> Columns:
        drawn, info = self.draw(batch_size)
        batch = {name: drawn.get(name).numpy() for name in self.dtypes}
        if self.prioritized:
            # In a batch of one row, the weights lack an axis.
            batch["weights"], batch["indexes"] = info["priority_weight"].view(-1).numpy(), info["index"].numpy()
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priority(self.as_tensor(indexes), self.as_tensor(priorities.astype(np.float32)))

    def __len__(self) -> int:
        return len(self.buffer)


class TorchRLTensorDict(TorchRL):
    name = "torchrl[TensorDictReplayBuffer]"
    usage = "as torchrl with TensorDictReplayBuffer and TensorDictPrioritizedReplayBuffer (page Replay Buffers)"

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from torchrl.data import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

        if spec.prioritized:
            return TensorDictPrioritizedReplayBuffer(
                alpha=spec.alpha, beta=spec.beta, storage=self.storage(spec), generator=generator
            )
        return TensorDictReplayBuffer(storage=self.storage(spec), generator=generator)


class TorchRLMemmap(TorchRL):
    name = "torchrl[memmap]"
    usage = "as torchrl on LazyMemmapStorage(scratch_dir=...), in files of the adapter (tutorial Using Replay Buffers)"

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import LazyMemmapStorage

        self.folder = tempfile.mkdtemp(prefix="replaybench-torchrl-")
        return LazyMemmapStorage(spec.capacity, scratch_dir=self.folder)

    def close(self) -> None:
        del self.buffer, self.extend, self.draw
        shutil.rmtree(self.folder, ignore_errors=True)


class TorchRLNaive(TorchRL):
    name = "torchrl[naive]"
    usage = "as torchrl on ListStorage, the default storage (tutorial Using Replay Buffers)"
    contract = replace(CONTRACT, references=References.KEPT)

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import ListStorage

        return ListStorage(spec.capacity)
