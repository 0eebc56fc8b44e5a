"""Write a pickle of each kind of buffer for other libraries, as tests/cpprb_impl/data/write.py does for our own.

The data was written by revision 49407d2 in PyTorch's environment: Python 3.11, NumPy 2.4, Stable-Baselines3 2.9 and
TorchRL 0.14; that of sequences, and "public_names_sb3", by the first revision with them in other libraries. To add a
kind, add it here and run

    .peers/torch/bin/python -m tests.integrations.data.write

which writes what is missing and never replaces a file.
"""

from __future__ import annotations

import io
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.save_util import save_to_pkl
from stable_baselines3.common.vec_env import DummyVecEnv
from tensordict import TensorDict

from cpprb_impl import PrioritizedReplayBuffer, cleanrl, sb3, torchrl
from cpprb_impl.torch import TensorSampler
from tests.cpprb_impl.data.write import write_missing
from tests.integrations.tasks import Goals, Rooms

WRITTEN = Path(__file__).parent / "written"
SIZE, N_ENVS = 8, 2  # steps of each environment, number of environments
STEPS, LATER = 11, 4  # more than SIZE; steps that are added after the data has been read
ACTION = spaces.Box(-1, 1, (2,), np.float32)
BOX = spaces.Box(-1000, 1000, (3,), np.float32)
STACK = spaces.Box(0, 255, (4, 5, 5), np.uint8)
PARTS = spaces.Dict({"a": BOX, "b": STACK})
GOALS = Goals().observation_space


def observation(space: spaces.Space[Any], time: int) -> Any:
    """Return the observation of each environment, whose frames or values follow from the time."""
    if isinstance(space, spaces.Dict):
        return {name: observation(part, time) for name, part in space.spaces.items()}
    first = 5 * np.arange(N_ENVS).reshape(-1, *[1] * len(space.shape)) + time
    frames = np.arange(space.shape[0]).reshape(-1, *[1] * (len(space.shape) - 1))
    return np.broadcast_to(first + frames, (N_ENVS, *space.shape)).astype(space.dtype)


def action(space: spaces.Space[Any], time: int) -> np.ndarray:
    return np.full((N_ENVS, *space.shape), time / 100, space.dtype)


@dataclass(frozen=True)
class Kind:
    """A kind of buffer of steps, and the options that it is made with."""

    kind: type
    space: spaces.Space[Any] = field(default_factory=lambda: BOX)
    options: dict[str, Any] = field(default_factory=dict)
    steps: int = STEPS
    assigned: bool = False  # whether arrays and the position are assigned
    priorities: bool = False

    def make(self) -> Any:
        more = {"env": environments()} if self.space is GOALS else {}
        np.random.seed(1)
        act = environments().action_space if self.space is GOALS else ACTION
        return self.kind(SIZE * N_ENVS, self.space, act, device="cpu", n_envs=N_ENVS, **self.options, **more)

    def add(self, buffer: Any, first: int, end: int) -> None:
        for time in range(first, end):
            at = 10 * (time // 5) + time  # no episode begins where the previous one ended
            obs, following = (observation(self.space, each) for each in (at, at + 1))
            ended, truncated = time % 5 == 4, time % 10 == 9
            rewards, dones = np.arange(N_ENVS) + time / 2, np.full(N_ENVS, ended)
            infos = [{"TimeLimit.truncated": truncated}] * N_ENVS
            buffer.add(obs, following, action(buffer.action_space, time), rewards, dones, infos)

    def fill(self, buffer: Any) -> Any:
        self.add(buffer, 0, self.steps)
        if self.assigned:
            buffer.rewards = buffer.rewards + 0.5
            buffer.actions[SIZE - 1] = 0.75  # the action of a step that is not stored
            buffer.pos = SIZE
        if self.priorities:
            buffer.update_priorities(np.arange(5), np.arange(5) / 4)
            buffer.beta = 0.5
        return buffer

    def go_on(self, buffer: Any) -> None:
        self.add(buffer, self.steps, self.steps + LATER)


def environments() -> DummyVecEnv:
    return DummyVecEnv([Goals] * N_ENVS)


ONCE = {"optimize_memory_usage": True}
OF_SB3 = {
    "sb3": Kind(sb3.ReplayBuffer),
    "sb3_partial": Kind(sb3.ReplayBuffer, steps=3),
    "sb3_assigned": Kind(sb3.ReplayBuffer, steps=3, assigned=True),
    "sb3_exact": Kind(sb3.ReplayBuffer, options={"exact": True}),
    "sb3_frames_once": Kind(sb3.ReplayBuffer, STACK, ONCE),
    "sb3_compressed": Kind(sb3.ReplayBuffer, STACK, {**ONCE, "compress": "lz4"}),
    "sb3_dict": Kind(sb3.DictReplayBuffer, PARTS),
    "sb3_dict_frames_once": Kind(sb3.DictReplayBuffer, PARTS, ONCE),
    "sb3_nstep": Kind(sb3.NStepReplayBuffer, options={"n_steps": 2, "gamma": 0.5}),
    "sb3_nstep_frames_once": Kind(sb3.NStepReplayBuffer, STACK, {"n_steps": 2, **ONCE}),
    "sb3_her": Kind(sb3.HerReplayBuffer, GOALS),
    "sb3_her_frames_once": Kind(sb3.HerReplayBuffer, GOALS, ONCE),
    "sb3_prioritized": Kind(sb3.PrioritizedReplayBuffer, priorities=True),
    "sb3_prioritized_dict": Kind(sb3.PrioritizedReplayBuffer, PARTS, ONCE, priorities=True),
    "sb3_prioritized_nstep": Kind(
        sb3.PrioritizedReplayBuffer, options={"n_steps": 2, "gamma": 0.5, "check_for_update": True}, priorities=True
    ),
    "sb3_sequences": Kind(sb3.SequenceReplayBuffer, options={"sequences": {"size": 3}}),
}
OF_CLEANRL = {
    "cleanrl": Kind(cleanrl.ReplayBuffer),
    "cleanrl_assigned": Kind(cleanrl.ReplayBuffer, steps=3, assigned=True),
    "cleanrl_exact": Kind(cleanrl.ReplayBuffer, options={"exact": True}),
    "cleanrl_frames_once": Kind(cleanrl.ReplayBuffer, STACK, ONCE),
    "cleanrl_dict": Kind(cleanrl.ReplayBuffer, PARTS),
}
STEP_BUFFERS = {**OF_SB3, **OF_CLEANRL}


def tensordicts(first: int, end: int) -> TensorDict:
    """Return consecutive steps, of which "observation" is a stack of frames."""
    times = torch.arange(first, end)
    seen = (times.reshape(-1, 1, 1, 1) + torch.arange(4).reshape(1, -1, 1, 1)).expand(-1, -1, 5, 5).to(torch.uint8)
    return TensorDict(
        {
            "observation": seen,
            "agents": {"a": {"state": times.double().reshape(-1, 1) / 8}},
            "action": times,
            "td_error": times / 4,
            "next": {"observation": seen + 1, "reward": times.float().reshape(-1, 1), "done": times.reshape(-1, 1) < 0},
        },
        batch_size=[end - first],
    )


@dataclass(frozen=True)
class KindOfTensorDicts:
    """A kind of buffer of TensorDicts."""

    make: Callable[[], Any]
    rows: int = STEPS

    def fill(self, buffer: Any) -> Any:
        if self.rows:
            buffer.extend(tensordicts(0, self.rows))
        return buffer

    def go_on(self, buffer: Any) -> None:
        buffer.extend(tensordicts(self.rows, self.rows + LATER))


def of_rows(**options: Any) -> Any:
    return torchrl.TensorDictReplayBuffer(SIZE, batch_size=4, seed=1, **options)


def by_priority(**options: Any) -> Any:
    return torchrl.TensorDictPrioritizedReplayBuffer(SIZE, alpha=0.5, beta=0.75, batch_size=4, seed=1, **options)


OF_TORCHRL = {
    "torchrl": KindOfTensorDicts(of_rows),
    "torchrl_empty": KindOfTensorDicts(of_rows, rows=0),
    "torchrl_frames_once": KindOfTensorDicts(lambda: of_rows(**ONCE)),
    "torchrl_compressed": KindOfTensorDicts(lambda: of_rows(**ONCE, compress="lz4")),
    "torchrl_prioritized": KindOfTensorDicts(by_priority),
    "torchrl_prioritized_empty": KindOfTensorDicts(by_priority, rows=0),
    "torchrl_prioritized_frames_once": KindOfTensorDicts(lambda: by_priority(**ONCE, normalize="batch")),
    "torchrl_sequences": KindOfTensorDicts(lambda: of_rows(sequences={"size": 3, "state": ("agents", "a", "state")})),
    "torchrl_prioritized_sequences": KindOfTensorDicts(lambda: by_priority(sequences={"size": 3})),
}


def sampler() -> TensorSampler:
    ring = PrioritizedReplayBuffer(SIZE, {"obs": {"shape": 2}}, seed=1)
    ring.add(obs=np.arange(12).reshape(6, 2), priorities=np.arange(6))
    return TensorSampler(ring)


MODULES = {"sb3": sb3, "cleanrl": cleanrl, "torchrl": torchrl}
PUBLIC = {
    "sb3": sb3.__all__,
    "cleanrl": ["ReplayBuffer", "ReplayBufferSamples"],
    "torchrl": ["TensorDictReplayBuffer", "TensorDictPrioritizedReplayBuffer"],
}
# Models; the archive of each names the class of its buffer.
MODELS: dict[str, tuple[type, type]] = {
    "model_prioritized": (sb3.PrioritizedDQN, sb3.PrioritizedReplayBuffer),
    "model_nstep": (DQN, sb3.NStepReplayBuffer),
}


def model(algorithm: type, buffer: type) -> Any:
    sizes = {"buffer_size": 16, "learning_starts": 4, "policy_kwargs": {"net_arch": [2]}}
    return algorithm("MlpPolicy", DummyVecEnv([Rooms]), device="cpu", replay_buffer_class=buffer, **sizes)


def saved_model(made: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "model.zip")
        return (Path(folder) / "model.zip").read_bytes()


def saved_buffer(buffer: Any) -> bytes:
    """Return what `model.save_replay_buffer` writes."""
    file = io.BytesIO()
    save_to_pkl(file, buffer)
    return file.getvalue()


def contents() -> dict[str, Callable[[], bytes]]:
    """Return the function that makes each file of `WRITTEN`, by name."""
    made: dict[str, Callable[[], bytes]] = {}
    for name, kind in OF_SB3.items():
        made[f"{name}.pickle"] = lambda kind=kind: saved_buffer(kind.fill(kind.make()))
    for name, kind in (OF_CLEANRL | OF_TORCHRL).items():
        made[f"{name}.pickle"] = lambda kind=kind: pickle.dumps(kind.fill(kind.make()), 4)
    frames = OF_SB3["sb3_frames_once"]
    made["frames.pickle"] = lambda: pickle.dumps(frames.fill(frames.make()).observations, 4)
    made["sampler.pickle"] = lambda: pickle.dumps(sampler(), 4)
    for name, public in PUBLIC.items():
        classes = {each: getattr(MODULES[name], each) for each in public}
        made[f"public_names_{name}.pickle"] = lambda classes=classes: pickle.dumps(classes, 4)
    for name, kinds in MODELS.items():
        made[f"{name}.zip"] = lambda kinds=kinds: saved_model(model(*kinds))
    return made


if __name__ == "__main__":
    write_missing(WRITTEN, contents())
