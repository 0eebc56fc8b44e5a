"""Replay buffers inside Stable-Baselines3: its own, ours (`cpprb_impl.sb3`), and those of sb3-extra-buffers.

Each is used as its documentation says: through arguments of DQN and SAC, which call `add` and `sample` themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from adapters.behaviours import Seed
from adapters.contract import Returns, Stated, no, yes
from adapters.peers.cpprb_impl import CONTRACT as OUR_CONTRACT
from adapters.peers.sb3_extra_buffers import CONTRACT as EXTRA_BUFFERS
from adapters.peers.sb3_extra_buffers import METHOD
from adapters.peers.stable_baselines3 import StableBaselines3
from adapters.training_arm import TrainingArm, TrainingKind

THEIR_CONTRACT = replace(
    StableBaselines3.contract,
    batch_add=yes("one row of each parallel environment per call"),
    returns=Stated(Returns.COLUMNS, "PyTorch tensors"),
)


class InStableBaselines3(TrainingArm):
    venv = "torch"
    #: arguments of the algorithm
    arguments: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        import stable_baselines3

        return getattr(stable_baselines3, learner.algorithm), cls.arguments


class OwnBuffer(InStableBaselines3):
    name = "stable-baselines3[training]"
    distribution = "stable-baselines3"
    usage = "DQN or SAC of Stable-Baselines3 with its own ReplayBuffer, which is the default"
    contract = THEIR_CONTRACT


class OwnBufferOptimized(OwnBuffer):
    name = "stable-baselines3[training, optimized]"
    usage = (
        "as stable-baselines3[training], with optimize_memory_usage=True, which requires "
        "handle_timeout_termination=False: the learner then treats a time limit as the end of an episode"
    )
    handles_timeouts = False
    keeps_last_next_obs = False
    arguments: ClassVar[Mapping[str, Any]] = {
        "optimize_memory_usage": True,
        "replay_buffer_kwargs": {"handle_timeout_termination": False},
    }


class CpprbImplInSB3(InStableBaselines3):
    name = "cpprb_impl[SB3]"
    distribution = "cpprb-impl"
    usage = "DQN or SAC of Stable-Baselines3 with replay_buffer_class=cpprb_impl.sb3.ReplayBuffer"
    contract = replace(
        OUR_CONTRACT,
        batch_add=yes("one row of each parallel environment per call"),
        fields=StableBaselines3.contract.fields,
        priorities=no(),
        returns=Stated(Returns.COLUMNS, "PyTorch tensors"),
        n_step=yes("NStepReplayBuffer, when sampling"),
        disk=yes("the algorithm's save_replay_buffer: a pickle of what is stored"),
        compression=yes("optimize_memory_usage; the ends of episodes are detected in the data"),
        framework="Stable-Baselines3, PyTorch, Gymnasium",
        seed=Seed.OWN,
        source="docs/sb3.md",
    )
    options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        from cpprb_impl import sb3

        kind, arguments = super().algorithm(learner)
        return kind, {**arguments, "replay_buffer_class": sb3.ReplayBuffer, "replay_buffer_kwargs": cls.options}


class CpprbImplExact(CpprbImplInSB3):
    name = "cpprb_impl[SB3, exact]"
    usage = "as cpprb_impl[SB3], with exact=True, which draws the rows that Stable-Baselines3's own buffer would draw"
    contract = replace(CpprbImplInSB3.contract, seed=Seed.GLOBAL)
    exact = True
    options: ClassVar[Mapping[str, Any]] = {"exact": True}


class CpprbImplFramesOnce(CpprbImplInSB3):
    name = "cpprb_impl[SB3, frames once]"
    usage = (
        "as cpprb_impl[SB3], with optimize_memory_usage=True: each observation, and each frame of a stack, is stored "
        "once, and time limits are still handled"
    )
    arguments: ClassVar[Mapping[str, Any]] = {"optimize_memory_usage": True}


class CpprbImplCompressed(CpprbImplFramesOnce):
    name = "cpprb_impl[SB3, compressed]"
    usage = 'as cpprb_impl[SB3, frames once], with compress="lz4": the frames of images are compressed'
    options: ClassVar[Mapping[str, Any]] = {"compress": "lz4"}

    @classmethod
    def refusal(cls, learner: TrainingKind) -> str | None:
        return None if learner.images else f"{cls.name} compresses images only"


class CpprbImplPrioritized(CpprbImplInSB3):
    name = "cpprb_impl[SB3, prioritized]"
    usage = (
        "cpprb_impl.sb3.PrioritizedDQN: DQN with proportional prioritized replay (Schaul et al. 2015), with weights "
        "divided by the largest of their batch, and eps=0.01"
    )
    contract = replace(CpprbImplInSB3.contract, priorities=yes(), n_step=yes("n_steps, when sampling"), eps=0.01)

    @classmethod
    def refusal(cls, learner: TrainingKind) -> str | None:
        return None if learner.algorithm == "DQN" else f"{cls.name} is a DQN, and the task needs {learner.algorithm}"

    @classmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        from cpprb_impl import sb3

        return sb3.PrioritizedDQN, {**cls.arguments, "replay_buffer_kwargs": cls.options}


class CpprbImplBufferMaximum(CpprbImplPrioritized):
    name = "cpprb_impl[SB3, prioritized, buffer maximum]"
    usage = "as cpprb_impl[SB3, prioritized], with weights divided by the largest of the whole buffer, and eps=1e-6"
    contract = replace(CpprbImplPrioritized.contract, eps=1e-6)
    options: ClassVar[Mapping[str, Any]] = {"normalize": "buffer", "eps": 1e-6}


class CpprbImplThreeSteps(CpprbImplPrioritized):
    name = "cpprb_impl[SB3, prioritized, 3 steps]"
    usage = "as cpprb_impl[SB3, prioritized], with n_steps=3 and double=True: 3-step returns and double DQN"
    n_steps = 3
    arguments: ClassVar[Mapping[str, Any]] = {"n_steps": n_steps, "double": True}


class CpprbImplUniformThreeSteps(CpprbImplThreeSteps):
    name = "cpprb_impl[SB3, alpha 0, 3 steps]"
    usage = "as cpprb_impl[SB3, prioritized, 3 steps], with alpha=0, which draws uniformly"
    options: ClassVar[Mapping[str, Any]] = {"alpha": 0.0}


class ExtraBuffersLZ4(InStableBaselines3):
    name = "sb3-extra-buffers[lz4]"
    distribution = "sb3-extra-buffers"
    usage = (
        'DQN of Stable-Baselines3 with replay_buffer_class=CompressedReplayBuffer and compression_method="lz4-frame/5" '
        "(its README)"
    )
    contract = replace(EXTRA_BUFFERS, batch_add=THEIR_CONTRACT.batch_add, returns=THEIR_CONTRACT.returns)

    @classmethod
    def refusal(cls, learner: TrainingKind) -> str | None:
        return None if learner.images else f"{cls.name} compresses images; it would cut other observations to 8 bits"

    @classmethod
    def algorithm(cls, learner: TrainingKind) -> tuple[type[Any], Mapping[str, Any]]:
        from sb3_extra_buffers.compressed import CompressedReplayBuffer

        kind, arguments = super().algorithm(learner)
        options = {"compression_method": METHOD}
        return kind, {
            **arguments, "replay_buffer_class": CompressedReplayBuffer, "replay_buffer_kwargs": options
        }  # fmt: skip
