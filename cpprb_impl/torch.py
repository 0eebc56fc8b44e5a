"""Samples as PyTorch tensors, on the CPU or copied to a different device.

Needs PyTorch, which the extra `torch` installs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch

from cpprb_impl.layout.fields import integer

INDEXES = "indexes"
SLOTS = 2  # one being copied, and one being filled
Draw = Callable[..., dict[str, np.ndarray]]
Shape = tuple[Any, ...]  # of a batch: the method that draws it, its size, and the options that determine its arrays


class Buffer(Protocol):
    """The interface that a sampler requires of a buffer: all classes of this package whose `sample` takes `out`."""

    def sample(self, batch_size: int, **options: Any) -> dict[str, np.ndarray]:
        """Return a sample as arrays, or in the arrays and tensors of the dict `out`."""


class TensorSampler:
    """Draw a buffer's samples as tensors on a device.

    For the CPU, tensors share the memory of the sample's arrays. For another device, the buffer writes a sample into
    pinned memory, and the copy to the device is queued on the current stream (CUDA C++ Best Practices Guide, section
    "Asynchronous and Overlapping Transfers with Computation"): `sample` does not wait for the copy, and work queued
    later on this stream runs after it. There are two sets of pinned memory for each method and batch size, so a sample
    can be drawn while the previous one is being copied.

    Parameters
    ----------
    buffer : ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer or MPPrioritizedReplayBuffer
        Or any other buffer whose `sample` takes `out`. Any number of samplers may draw from the same buffer.
    device : torch.device or str, default="cpu"

    Raises
    ------
    TypeError
        If `buffer` has no method `sample`.

    Examples
    --------
    >>> import numpy as np
    >>> from cpprb_impl import PrioritizedReplayBuffer
    >>> buffer = PrioritizedReplayBuffer(1000, {"obs": {"shape": 4}})
    >>> _ = buffer.add(obs=np.ones((10, 4)))
    >>> sampler = TensorSampler(buffer)
    >>> batch = sampler.sample(32, beta=0.4)
    >>> batch["obs"].shape
    torch.Size([32, 4])
    >>> buffer.update_priorities(batch["indexes"], torch.ones(32))
    """

    def __init__(self, buffer: Buffer, device: torch.device | str = "cpu") -> None:
        if not callable(getattr(buffer, "sample", None)):
            raise TypeError(f"buffer must have a method sample, got {type(buffer).__name__}")
        self._buffer = buffer
        self.device = torch.device(device)
        self._slots: dict[Shape, Iterator[_Slot]] = {}

    def sample(self, batch_size: int, **options: Any) -> dict[str, torch.Tensor]:
        """Return a sample: for each field, a tensor (batch_size, *shape) on the device.

        `options` are those of the buffer's `sample`, such as `beta`, except `out`. The tensors belong to the caller: no
        later sample writes to them. "indexes" stays on the CPU, where `update_priorities` needs it.

        Raises TypeError for `out` and for fields of Python objects, and the exceptions of the buffer's `sample`.
        """
        return self._draw("sample", batch_size, options)

    def sample_sequences(self, batch_size: int, **options: Any) -> dict[str, torch.Tensor]:
        """Return sequences, as the buffer's `sample_sequences` does: tensors (batch_size, steps, *shape) on the device.

        `options` are those of the buffer's method, such as `time_major`, except `out`. Otherwise like `sample`. Raises
        TypeError if the buffer has no such method.
        """
        return self._draw("sample_sequences", batch_size, options)

    def _draw(self, name: str, batch_size: int, options: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        if "out" in options:
            raise TypeError(f"a TensorSampler makes its own tensors: to fill existing ones, call the buffer's {name}")
        draw: Draw | None = getattr(self._buffer, name, None)
        if draw is None:
            raise TypeError(f"buffer must have a method {name}, got {type(self._buffer).__name__}")
        if self.device.type == "cpu":
            return _tensors(draw(batch_size, **options))
        count = integer("batch_size", batch_size)
        shape = name, count, bool(options.get("time_major")), options.get("frames"), options.get("size")
        if shape not in self._slots:
            like = _tensors(draw(count, **options))
            self._slots[shape] = itertools.cycle([_Slot(like) for _ in range(SLOTS)])
        return next(self._slots[shape]).sample(draw, count, self.device, options)


class _Slot:
    """Pinned memory for samples with the given sample's shapes and dtypes."""

    def __init__(self, like: Mapping[str, torch.Tensor]) -> None:
        self._columns = {name: pinned(column) for name, column in like.items() if name != INDEXES}
        self._indexes = like.get(INDEXES)
        self._copied: torch.Event | None = None

    def sample(
        self, draw: Draw, batch_size: int, device: torch.device, options: Mapping[str, Any]
    ) -> dict[str, torch.Tensor]:
        if self._copied is not None:
            self._copied.synchronize()
        # Not in the slot, since the caller may use the indexes long after the slot has been refilled.
        indexes = {} if self._indexes is None else {INDEXES: torch.empty_like(self._indexes)}
        draw(batch_size, **options, out=self._columns | indexes)
        copies, self._copied = start_copies(self._columns, device)
        return copies | indexes


def pinned(like: torch.Tensor) -> torch.Tensor:
    """Return pinned memory for a tensor like this one: only copies from pinned memory are asynchronous."""
    return torch.empty_like(like, pin_memory=True)


def start_copies(
    tensors: Mapping[str, torch.Tensor], device: torch.device
) -> tuple[dict[str, torch.Tensor], torch.Event]:
    """Queue copies of pinned tensors to the device; return the copies, and the event that marks their completion."""
    with torch.device(device):
        copies = {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}
        made = torch.Event(device)
        made.record()
    return copies, made


def _tensors(batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    for name, column in batch.items():
        if column.dtype == object:
            raise TypeError(f"{name} has Python objects, which tensors cannot hold")
    return {name: torch.from_numpy(column) for name, column in batch.items()}
