"""The built-in workloads: the environment that each is recorded from, and the number of rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from suites.workloads.recording import Slices

RANDOM = "seeded random actions; done is true if the step was terminated or truncated"


@dataclass(frozen=True)
class Recipe:
    """How a workload is recorded and how its columns are rebuilt from what is cached."""

    make: Callable  # () -> environment
    transitions: int  # of the standard recording
    source: str
    version: str = "1"
    stack: int = 1  # frames per observation, along a new last axis; 1: no such axis
    slices: Slices | None = None
    policy: Callable | None = None  # (observation, generator) -> action; None: random actions
    needs: str | None = None  # a module that has no wheels for some Pythons

    @property
    def is_possible(self) -> bool:
        """Whether the environment can be made here."""
        return self.needs is None or find_spec(self.needs) is not None


def gymnasium_make(name: str, **options: Any) -> Any:
    """Make a Gymnasium environment; "module:name" imports the module first."""
    import gymnasium

    if find_spec("mujoco"):
        import mujoco

        # By default MuJoCo writes its warnings to a file in the working directory.
        mujoco.set_mju_user_warning(lambda _text: None)
    if name.startswith("ALE/"):
        import ale_py

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # "a newer version of the environment exists"
        return gymnasium.make(name, **options)


def _seaquest() -> Any:
    from gymnasium.wrappers import AtariPreprocessing

    # AtariPreprocessing skips the frames itself; DQN's emulator had no sticky actions.
    env = gymnasium_make("ALE/Seaquest-v5", frameskip=1, repeat_action_probability=0.0)
    return AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84)


def _picture_and_state() -> Any:
    from gymnasium import spaces, wrappers

    for device in ("VIDEO", "AUDIO"):  # a picture in memory needs neither a screen nor a sound card
        os.environ.setdefault(f"SDL_{device}DRIVER", "dummy")
    env = gymnasium_make("CartPole-v1", render_mode="rgb_array")
    env = wrappers.AddRenderObservation(env, render_only=False, render_key="image", obs_key="state")
    image = spaces.Box(0, 255, (64, 64, 3), np.uint8)

    def smaller(obs: dict) -> dict:
        import cv2

        return obs | {"image": cv2.resize(obs["image"], (64, 64), interpolation=cv2.INTER_AREA)}

    space = spaces.Dict({**env.observation_space.spaces, "image": image})
    return wrappers.TransformObservation(env, smaller, space)


def _balancing(obs: np.ndarray | dict, random: np.random.Generator, at_random: float) -> int:
    """Balance the pole, except for this share of actions. With random actions alone it falls after about 22 steps, and
    no sequence of 80 steps would fit into an episode."""
    state = obs["state"] if isinstance(obs, dict) else obs
    balancing = int(state[2] + 0.5 * state[3] > 0)
    return int(random.integers(2)) if random.random() < at_random else balancing


# With these counts, the inputs are larger than a core's caches: adding rows that are still cached would seem too fast.
RECIPES = {
    "CartPole-v1": Recipe(
        lambda: gymnasium_make("CartPole-v1"),
        20_000,
        f"Gymnasium CartPole-v1, {RANDOM}",
    ),
    "Pendulum-v1": Recipe(
        lambda: gymnasium_make("Pendulum-v1"),
        20_000,
        f"Gymnasium Pendulum-v1, {RANDOM}",
    ),
    "ALE/Seaquest-v5": Recipe(
        _seaquest,
        2_048,
        "Arcade Learning Environment Seaquest as DQN sees it (frame skip 4, up to 30 no-ops at the start, "
        f"no sticky actions, 84x84 grey, stack of 4, uint8), {RANDOM}",
        stack=4,
        needs="ale_py",
    ),
    "HalfCheetah-v5": Recipe(
        lambda: gymnasium_make("HalfCheetah-v5"),
        20_000,
        f"Gymnasium HalfCheetah-v5 (MuJoCo; its float64 observations stored as float32, as learners do), {RANDOM}",
    ),
    "Humanoid-v4": Recipe(
        lambda: gymnasium_make("Humanoid-v4"),
        4_096,
        "Gymnasium Humanoid-v4 (MuJoCo; its float64 observations, 376 where v5 has 348, stored as float32, as learners "
        f"do), {RANDOM}",
    ),
    "CartPole-v1/slices": Recipe(
        lambda: gymnasium_make("CartPole-v1"),
        2_048,
        "Gymnasium CartPole-v1 in slices of 80 steps, as R2D2 replays it: each begins 40 steps after the previous "
        "one and none crosses the end of an episode; an episode's last slice is padded with zeros; mask says which "
        "steps are real; no recurrent state; four actions in five balance the pole, the others are random, all seeded; "
        "done is true if the step was terminated or truncated",
        slices=Slices(steps=80, overlap=40),
        policy=partial(_balancing, at_random=0.2),
    ),
    "CartPole-v1/mixed": Recipe(
        lambda: gymnasium_make("CartPole-v1"),
        20_000,
        "Gymnasium CartPole-v1 with short and long episodes: half of the actions, chosen at random, balance the pole, "
        "the others are random, all seeded; done is true if the step was terminated or truncated",
        policy=partial(_balancing, at_random=0.5),
    ),
    "CartPole-v1/image": Recipe(
        _picture_and_state,
        1_024,
        "Gymnasium CartPole-v1 with dictionaries as observations: a picture (AddRenderObservation, scaled to 64x64 "
        f"RGB, uint8) and the state's four numbers, {RANDOM}",
    ),
    "CartPole-v1/image-mixed": Recipe(
        _picture_and_state,
        2_400,
        "Gymnasium CartPole-v1/mixed with dictionaries as observations: a picture (AddRenderObservation, scaled to "
        "64x64 RGB, uint8) and the state's four numbers",
        policy=partial(_balancing, at_random=0.5),
    ),
}
