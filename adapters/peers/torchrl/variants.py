"""TorchRL's options for speed: batches that threads fetch ahead, and functions that torch.compile compiles.

"torchrl[prefetch]" is the buffer of `adapter.py` with `prefetch=3`, as TorchRL's own implementations of SAC and
others have it. Whatever the next batch's size, the batches fetched ahead have the size before: here they are dropped.

"torchrl[compile]" compiles `extend` and `sample`, as TorchRL's benchmark of its replay buffers does, with storage and
writer made compilable. Each new shape is compiled anew, which takes seconds (13 for the first `extend`, 3 for
`sample`) and is no part of the throughput figures. It is uniform only: to the compiler the sum of all priorities is a
constant, so that each prioritized sample is compiled anew. Single rows are added by a plain `add`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.base import Columns, Features, Spec
from adapters.peers.torchrl.adapter import FEATURES, PROMISES, TorchRL

PREFETCHED = 3
COMPILATIONS = 64  # of one function, before torch gives up and runs it as it is: one for each shape and buffer


class TorchRLPrefetch(TorchRL):
    name = "torchrl[prefetch]"
    usage = "as torchrl with prefetch=3: batches fetched ahead by threads (TorchRL reference, ReplayBuffer; its SAC)"
    batches_ahead = PREFETCHED
    promises = replace(PROMISES, seed="none")
    features = Features(
        copies_on_add="yes",
        **FEATURES | {"prioritized": "yes, priorities on add (in a second call) and later; shows 3 batches late"},
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.batch_size = 0

    def options(self) -> dict[str, Any]:
        return {"prefetch": PREFETCHED, "batch_size": 32}  # it must be told some size

    def sample(self, batch_size: int) -> Columns:
        if self.batch_size not in (0, batch_size):
            for _ in range(PREFETCHED):
                self.draw(batch_size)
        self.batch_size = batch_size
        return super().sample(batch_size)

    def close(self) -> None:
        self.buffer.shutdown()


class TorchRLCompile(TorchRL):
    name = "torchrl[compile]"
    usage = (
        "as torchrl with compilable=True; extend and sample compiled by torch.compile (TorchRL's benchmark of "
        "replay buffers); compiled anew for each shape, before timing"
    )
    compiles = True
    promises = replace(PROMISES, seed="global seed")  # a generator of its own can't be compiled
    features = Features(
        copies_on_add="yes",
        **FEATURES | {"prioritized": "no, not compiled: each sample would be compiled anew"},
    )

    def __init__(self, spec: Spec) -> None:
        import torch

        torch._inductor.config.compile_threads = 1  # no helper processes
        torch._dynamo.config.recompile_limit = COMPILATIONS
        super().__init__(spec)
        self.extend = torch.compile(lambda rows: self.buffer.extend(rows))
        self.draw = torch.compile(lambda batch_size: self.buffer.sample(batch_size, return_info=True))

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        return super().make_buffer(spec, None)

    def options(self) -> dict[str, Any]:
        from torchrl.data import RoundRobinWriter

        return {"compilable": True, "writer": RoundRobinWriter(compilable=True)}

    def storage(self, spec: Spec) -> Any:
        from torchrl.data import LazyTensorStorage

        return LazyTensorStorage(spec.capacity, compilable=True)

    def close(self) -> None:
        import torch

        del self.buffer, self.extend, self.draw
        torch.compiler.reset()  # what was compiled holds the buffer
