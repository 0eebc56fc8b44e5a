"""Our buffer for TorchRL (`cpprb_impl.torchrl`), used in the same way as "torchrl[TensorDictReplayBuffer]"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from adapters.base import Columns, Spec
from adapters.contract import Returns, Shape, Stated, no, yes
from adapters.peers.cpprb_impl import CONTRACT
from adapters.peers.torchrl.adapter import TorchRL


class CpprbImplForTorchRL(TorchRL):
    name = "cpprb_impl[TorchRL]"
    distribution = "cpprb-impl"
    usage = (
        "cpprb_impl.torchrl.TensorDictReplayBuffer or TensorDictPrioritizedReplayBuffer: extend(TensorDict), sample, "
        "update_priority"
    )
    contract = replace(
        CONTRACT,
        priorities=yes("priorities on add (the key td_error) and later"),
        returns=Stated(Returns.COLUMNS, "TensorDict"),
        n_step=no(),
        shape=Shape.KEPT,
        framework="PyTorch, tensordict",
        source="docs/torchrl.md",
    )

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

        if spec.prioritized:
            return TensorDictPrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, beta=spec.beta, seed=spec.seed)
        return TensorDictReplayBuffer(spec.capacity, seed=spec.seed)

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size)
        batch = {name: drawn.get(name).numpy() for name in self.dtypes}
        if self.prioritized:
            batch["weights"], batch["indexes"] = drawn["priority_weight"].numpy(), drawn["index"].numpy()
        return batch
