"""An explorer: acts in its own environment with its own epsilon, and adds n-step transitions to the buffer."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch

from adapters.base import Adapter, Array
from suites.apex_dqn.dqn import Network, set_weights
from suites.apex_dqn.nstep import NStepWindow, Transition
from suites.apex_dqn.progress import ENDED, Counters
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.weights import NetworkWeights
from suites.workloads.recipes import gymnasium_make


def network_for(env: gymnasium.Env, settings: TrainingSettings) -> Network:
    """Return the network for this environment. Raises ValueError if DQN cannot act in it."""
    spaces = gymnasium.spaces
    if not isinstance(env.observation_space, spaces.Box) or not isinstance(env.action_space, spaces.Discrete):
        raise ValueError(
            f"--env must have Box observations and Discrete actions, got {type(env.observation_space).__name__} and "
            f"{type(env.action_space).__name__}"
        )
    if len(env.observation_space.shape) > 1:
        raise ValueError(
            f"--env must have observations of at most one axis, got shape {env.observation_space.shape}: the network "
            "is an MLP and cannot learn from images"
        )
    return Network(env.observation_space.shape, int(env.action_space.n), settings.hidden)


def observed(obs: object) -> Array:
    return np.array(obs, np.float32)  # a copy: some environments reuse their arrays


class LocalBuffer:
    """Collects transitions and their priorities, and adds them to the shared buffer in one call."""

    def __init__(self, adapter: Adapter, rows: int) -> None:
        self.adapter = adapter
        self.columns = {name: np.empty((rows, *field.shape), field.dtype) for name, field in adapter.fields.items()}
        self.priorities = np.empty(rows)
        self.rows = 0

    def store(self, transition: Transition, priority: float) -> int:
        """Store a transition; return how many were added to the shared buffer."""
        for column, value in zip(self.columns.values(), transition, strict=True):
            column[self.rows] = value
        self.priorities[self.rows] = priority
        self.rows += 1
        if self.rows < len(self.priorities):
            return 0
        self.adapter.add_batch(self.columns, self.priorities)
        self.rows = 0
        return len(self.priorities)


def explore(
    number: int, life: int, settings: TrainingSettings, adapter: Adapter, weights: NetworkWeights, progress: Counters
) -> None:
    """Explore until the training run stops. `life` counts how often this explorer has been restarted."""
    torch.set_num_threads(1)
    seed = np.random.SeedSequence((settings.seed, number, life))
    random, env = np.random.default_rng(seed), gymnasium_make(settings.env)
    network, epsilon = network_for(env, settings), settings.epsilon(number)
    window, local = NStepWindow(settings.n, settings.gamma), LocalBuffer(adapter, settings.local_rows)
    actions = int(env.action_space.n)  # type: ignore[attr-defined]
    raw, _ = env.reset(seed=int(seed.generate_state(1)[0]))
    obs, fetch_in, total = observed(raw), 0, 0.0

    def store(transition: Transition, priority: float) -> None:
        if local.rows + 1 < settings.local_rows or progress.may_add(
            number, adapter.flush
        ):  # so that no transition is added during a pause
            progress.transitions[number] += local.store(transition, priority)

    while progress.may_add(number, adapter.flush):
        if fetch_in == 0:
            fetch_in = settings.refresh_every
            if found := weights.newest():
                set_weights(network, found[1])
        values = network.values(obs[None])[0]
        act = int(random.integers(actions)) if random.random() < epsilon else int(values.argmax())
        raw, rew, terminated, truncated, _ = env.step(act)
        if complete := window.step(obs, values, act, float(rew)):
            store(*complete)
        obs, total, fetch_in = observed(raw), total + float(rew), fetch_in - 1
        if terminated or truncated:
            for complete in window.end(obs, network.values(obs[None])[0], terminated):
                store(*complete)
            progress.last_return[number], total = total, 0.0
            obs = observed(env.reset()[0])
    adapter.flush()
    progress.paused[number] = ENDED
