"""Where the explorers' steps are stored, and how the learner draws sequences of them: a shared buffer, or Reverb."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from adapters.base import Array, Field
from cpprb_impl import MPPrioritizedReplayBuffer
from cpprb_impl.torch import TensorSampler
from suites.r2d2.explorer import ENVIRONMENTS, ExplorersBuffer
from suites.r2d2.learner import Agent
from suites.r2d2.over_reverb import ReverbReplay
from suites.r2d2.task import OBS

CAPACITY, BATCH, ALPHA, BETA = 50_000, 32, 0.9, 0.6
ITEMS = 1_500  # sequences in a table of Reverb: about as many as begin in `CAPACITY` steps
ETA, EPS = 0.9, 1e-4  # of the priorities, as the shared buffer computes them


class SequenceReplay(Protocol):
    """Used by the learner. The explorers add to `buffer`."""

    @property
    def buffer(self) -> ExplorersBuffer: ...

    def begin(self) -> None:
        """Called once, after the explorers were forked."""

    def sample(self) -> dict[str, Tensor]: ...

    def update(self, batch: dict[str, Tensor], errors: Tensor) -> None:
        """Set the priorities of the batch's sequences from their TD errors, (batch, steps)."""

    def close(self) -> None: ...


def fields_for(agent: Agent) -> dict[str, Field]:
    return {
        "obs": Field((OBS,), "float32"),
        "next_obs": Field((OBS,), "float32"),
        "act": Field((), "int64"),
        "rew": Field((), "float32"),
        "done": Field((), "bool"),
        "state": Field((2 * agent.units,), "float32"),
    }


def buffer_for(agent: Agent, seed: int) -> MPPrioritizedReplayBuffer:
    return MPPrioritizedReplayBuffer(
        CAPACITY,
        {name: {"shape": field.shape, "dtype": field.dtype} for name, field in fields_for(agent).items()},
        n_envs=ENVIRONMENTS,
        sequences={
            "size": agent.size,
            "burn_in": agent.burn_in,
            "period": agent.size // 2,
            "ends": "pad",
            "state": "state",
        },
        alpha=ALPHA,
        seed=seed,
    )


class SharedReplay:
    def __init__(self, agent: Agent, seed: int) -> None:
        self.buffer = buffer_for(agent, seed)

    def begin(self) -> None:
        self._sampler = TensorSampler(self.buffer)

    def sample(self) -> dict[str, Tensor]:
        return self._sampler.sample_sequences(BATCH, beta=BETA)

    def update(self, batch: dict[str, Tensor], errors: Tensor) -> None:
        self.buffer.update_priorities(batch["indexes"], errors)

    def close(self) -> None:
        self.buffer.close()


class OverReverb:
    def __init__(self, agent: Agent, _seed: int) -> None:
        self.burn_in, length = agent.burn_in, agent.burn_in + agent.size
        self.buffer = ReverbReplay(ITEMS, fields_for(agent), "state", length, agent.size // 2)

    def begin(self) -> None:
        self.buffer.begin(ALPHA, BETA)

    def sample(self) -> dict[str, Tensor]:
        columns = self.buffer.sample(BATCH)
        self._keys = columns.pop("indexes")
        return {name: torch.from_numpy(np.array(column)) for name, column in columns.items()}

    def update(self, batch: dict[str, Tensor], errors: Tensor) -> None:
        self.buffer.update_priorities(self._keys, self.priorities(batch["mask"], errors))

    def priorities(self, mask: Tensor, errors: Tensor) -> Array:
        learned = mask[:, self.burn_in :]
        sizes = errors[:, self.burn_in :].abs() * learned
        mean = sizes.sum(dim=1) / learned.sum(dim=1).clamp(min=1)
        priorities: Array = (ETA * sizes.amax(dim=1) + (1 - ETA) * mean + EPS).double().numpy()
        return priorities

    def close(self) -> None:
        self.buffer.close()


REPLAYS: dict[str, type[SharedReplay] | type[OverReverb]] = {"cpprb_impl": SharedReplay, "reverb": OverReverb}
