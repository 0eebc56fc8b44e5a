"""Training tasks: an environment, an algorithm of Stable-Baselines3 with its hyperparameters, and a number of steps.

Hyperparameters are those of RL Baselines3 Zoo (https://github.com/DLR-RM/rl-baselines3-zoo, hyperparams/), except where
a comment says otherwise; training runs are shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adapters.training_arm import TrainingKind
from results.record import Param
from suites.workloads import Workload

#: Fields that a Stable-Baselines3 buffer stores for a step in addition to obs, action and next_obs.
NUMBERS = ("reward", "done", "timeout")


@dataclass(frozen=True)
class Shapes:
    """Shape and dtype of observations and actions, as Stable-Baselines3 stores them."""

    obs: tuple[int, ...]
    obs_dtype: str
    act: tuple[int, ...]
    act_dtype: str


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """A training run of `steps` steps; its score is the mean return of the last episodes played while learning."""

    name: str
    env: str
    algorithm: str  # of Stable-Baselines3
    steps: int
    every: int  # steps from one moment of the learning curve to the next
    stored: int  # rows of the full buffer whose memory is measured
    shapes: Shapes
    options: Mapping[str, Any]  # of the algorithm
    policy: str = "MlpPolicy"
    episodes: int = 20  # the number of last episodes whose mean return is the score
    target: float | None = None  # score at which it is solved; None: the run is too short to solve it
    peers: Sequence[str]  # those that are measured
    steps_in_turns: int  # of a training run that takes turns with another; about 4 s are timed

    @property
    def learner(self) -> TrainingKind:
        return TrainingKind(self.algorithm, images=self.policy == "CnnPolicy")

    @property
    def params(self) -> dict[str, Param]:
        target = {} if self.target is None else {"target": self.target}
        return {"task": self.name, "steps": self.steps, "episodes": self.episodes, **target}

    @property
    def moments(self) -> range:
        return range(self.every, self.steps + 1, self.every)

    @property
    def timed_from(self) -> int:
        """The step at which timing begins, after some updates, since PyTorch allocates most of its memory in the first
        one."""
        return int(self.options["learning_starts"]) + self.steps // 20

    @property
    def shortened(self) -> TrainingTask:
        """This task with `steps_in_turns` steps and no target."""
        return replace(self, steps=self.steps_in_turns, target=None)

    def workload(self) -> Workload:
        """Describe the rows for the record. Nothing is recorded: a training run plays its environment."""
        rows = {
            "obs": np.zeros((1, *self.shapes.obs), self.shapes.obs_dtype),
            "action": np.zeros((1, *self.shapes.act), self.shapes.act_dtype),
            "next_obs": np.zeros((1, *self.shapes.obs), self.shapes.obs_dtype),
            **{name: np.zeros(1, np.float32) for name in NUMBERS},
        }
        source = f"{self.env}, played by trainings; this one row stands for the fields that Stable-Baselines3 stores"
        return Workload.computed(self.env, source, rows)


REFERENCE, OPTIMIZED = "stable-baselines3[training]", "stable-baselines3[training, optimized]"
OURS, EXTRA_BUFFERS = "cpprb_impl[SB3]", "sb3-extra-buffers[lz4]"
EXACT, FRAMES_ONCE, COMPRESSED, PRIORITIZED = (
    f"cpprb_impl[SB3, {how}]" for how in ("exact", "frames once", "compressed", "prioritized")
)
BUFFER_MAXIMUM, THREE_STEPS, UNIFORM_THREE_STEPS = (
    f"cpprb_impl[SB3, {how}]" for how in ("prioritized, buffer maximum", "prioritized, 3 steps", "alpha 0, 3 steps")
)

CARTPOLE = TrainingTask(
    name="DQN on CartPole",
    env="CartPole-v1",
    algorithm="DQN",
    steps=50_000,
    steps_in_turns=6_500,
    every=2_500,
    stored=32_768,
    shapes=Shapes((4,), "float32", (1,), "int64"),
    target=200.0,
    options={
        "learning_rate": 2.3e-3,
        "batch_size": 128,  # the zoo's is 64
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    peers=(REFERENCE, OURS, EXACT, FRAMES_ONCE),
)
PENDULUM = TrainingTask(
    name="SAC on Pendulum",
    env="Pendulum-v1",
    algorithm="SAC",
    steps=5_000,
    steps_in_turns=550,
    every=250,
    stored=32_768,
    shapes=Shapes((3,), "float32", (1,), "float32"),
    target=-250.0,
    options={"learning_rate": 1e-3, "learning_starts": 100},  # the latter is the default, which `timed_from` needs
    peers=(REFERENCE, OURS, EXACT),
    episodes=5,
)
HALF_CHEETAH = TrainingTask(
    name="SAC on HalfCheetah",
    env="HalfCheetah-v5",
    algorithm="SAC",
    steps=8_000,
    steps_in_turns=3_600,
    every=1_000,
    stored=32_768,
    shapes=Shapes((17,), "float64", (6,), "float32"),
    options={"learning_starts": 3_000},  # the zoo's is 10,000
    peers=(REFERENCE, OURS, FRAMES_ONCE),
    episodes=3,
)
PONG = TrainingTask(
    name="DQN on Pong",
    env="PongNoFrameskip-v4",
    algorithm="DQN",
    steps=4_000,
    steps_in_turns=1_600,
    every=2_000,
    stored=2_048,
    shapes=Shapes((4, 84, 84), "uint8", (1,), "int64"),
    policy="CnnPolicy",
    options={
        "learning_rate": 1e-4,
        "batch_size": 32,
        "buffer_size": 10_000,
        "learning_starts": 1_000,  # the zoo's is 100,000
        "target_update_interval": 1_000,
        "train_freq": 4,
        "gradient_steps": 1,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.01,
    },
    peers=(REFERENCE, OPTIMIZED, OURS, EXACT, FRAMES_ONCE, COMPRESSED, EXTRA_BUFFERS),
    episodes=3,
)
LUNAR_LANDER = TrainingTask(
    name="DQN on LunarLander",
    env="LunarLander-v3",
    algorithm="DQN",
    steps=70_000,
    steps_in_turns=2_000,
    every=5_000,
    stored=32_768,
    shapes=Shapes((8,), "float32", (1,), "int64"),
    target=100.0,  # one step in ten is random even at the end
    options={
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "gamma": 0.99,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    peers=(REFERENCE, PRIORITIZED, BUFFER_MAXIMUM),
)
# With priorities, updates are larger: Schaul et al. 2015 train with a quarter of the learning rate.
LUNAR_LANDER_SLOWLY = replace(
    LUNAR_LANDER,
    name="DQN on LunarLander, a quarter of the learning rate",
    options={**LUNAR_LANDER.options, "learning_rate": 6.3e-4 / 4},
    peers=(REFERENCE, PRIORITIZED, THREE_STEPS, UNIFORM_THREE_STEPS),
)
# Every step costs the same until the car has swung up the mountain: only the last transition differs.
MOUNTAIN_CAR = TrainingTask(
    name="DQN on MountainCar",
    env="MountainCar-v0",
    algorithm="DQN",
    steps=80_000,
    steps_in_turns=2_000,
    every=5_000,
    stored=32_768,
    shapes=Shapes((2,), "float32", (1,), "int64"),
    target=-130.0,
    options={
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1_000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    peers=LUNAR_LANDER.peers,
)
MOUNTAIN_CAR_SLOWLY = replace(
    MOUNTAIN_CAR,
    name="DQN on MountainCar, a quarter of the learning rate",
    options={**MOUNTAIN_CAR.options, "learning_rate": 1e-3},
    peers=LUNAR_LANDER_SLOWLY.peers,
)
TASKS = {
    task.name: task
    for task in (
        CARTPOLE,
        PENDULUM,
        HALF_CHEETAH,
        PONG,
        LUNAR_LANDER,
        LUNAR_LANDER_SLOWLY,
        MOUNTAIN_CAR,
        MOUNTAIN_CAR_SLOWLY,
    )
}
