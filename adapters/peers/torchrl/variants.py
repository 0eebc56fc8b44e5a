"""TorchRL's options for speed: batches that threads prefetch, and functions compiled by torch.compile.

"torchrl[prefetch]" is the buffer of `adapter.py` with `prefetch=3`, as in TorchRL's own implementations of SAC and
others. Prefetched batches have the size of the previous request; if another size is requested, they are dropped here.

"torchrl[compile]" compiles `extend` and `sample`, as TorchRL's benchmark of its replay buffers does, with a compilable
storage and writer. Each new shape is compiled again, which takes seconds (13 for the first `extend`, 3 for `sample`)
and is not part of the throughput figures. It is uniform only: the compiler treats the sum of all priorities as a
constant, so each prioritized sample would be compiled again. Single rows are added by a plain `add`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.base import Columns, Spec
from adapters.behaviours import Seed
from adapters.contract import no, yes
from adapters.peers.torchrl.adapter import CONTRACT, TorchRL

PREFETCHED = 3
COMPILATIONS = 64  # per function (one for each shape and buffer), after which torch runs it uncompiled


class TorchRLPrefetch(TorchRL):
    name = "torchrl[prefetch]"
    usage = "as torchrl with prefetch=3: batches prefetched by threads (TorchRL reference, ReplayBuffer; its SAC)"
    contract = replace(
        CONTRACT,
        priorities=yes("priorities on add (in a second call) and later"),
        batches_ahead=PREFETCHED,
        seed=Seed.NONE,
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.batch_size = 0

    def options(self) -> dict[str, Any]:
        return {"prefetch": PREFETCHED, "batch_size": 32}  # prefetching requires a size

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
        "replay buffers); compiled for each shape before timing"
    )
    contract = replace(
        CONTRACT,
        priorities=no("each sample would be compiled again"),
        compiles=True,
        seed=Seed.GLOBAL,  # a generator of the buffer's own cannot be compiled
    )

    def __init__(self, spec: Spec) -> None:
        import torch

        torch._inductor.config.compile_threads = 1  # no extra processes
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
        torch.compiler.reset()  # compiled functions hold references to the buffer
