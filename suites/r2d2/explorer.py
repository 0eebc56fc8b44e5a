"""What acts in the task: the explorers, which add steps to the shared buffer, and the greedy evaluation."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np
import torch

from suites.apex_dqn.dqn import set_weights
from suites.apex_dqn.progress import Counters
from suites.apex_dqn.weights import NetworkWeights
from suites.r2d2.learner import Agent, SequenceNetwork
from suites.r2d2.task import ACTIONS, environments

EXPLORERS, ENVIRONMENTS = 2, 8  # each explorer has as many environments
LEAST_ROWS = 5_000  # steps that are stored before the learner starts
ROWS, AHEAD = 64, 5  # new steps per learner step; learner steps by which explorers may be ahead
EPISODES = 100  # of an evaluation


class ExplorersBuffer(Protocol):
    """Takes the steps of an explorer's environments, one of each per call."""

    def add(self, **columns: Any) -> Any: ...


def explore(
    number: int, agent: Agent, seed: int, buffer: ExplorersBuffer, weights: NetworkWeights, progress: Counters
) -> None:
    """Explore until the training ends, at most `AHEAD` learner steps ahead of the learner."""
    torch.set_num_threads(1)
    sequence = np.random.SeedSequence((seed, number))
    random, envs = np.random.default_rng(sequence), environments(ENVIRONMENTS)
    network, state = SequenceNetwork(agent), torch.zeros(ENVIRONMENTS, 2 * agent.units)
    streams = np.arange(number, EXPLORERS * ENVIRONMENTS, EXPLORERS)
    epsilon = 0.4 ** (1 + 7 * streams / (EXPLORERS * ENVIRONMENTS - 1))  # as in Ape-X
    obs, _ = envs.reset(seed=int(sequence.generate_state(1)[0]))
    known = -1
    while not progress.stop.value:
        if sum(progress.transitions) >= LEAST_ROWS + ROWS * (progress.steps.value + AHEAD):
            time.sleep(0.001)
            continue
        if (found := weights.newest()) and found[0] > known:
            known = found[0]
            set_weights(network, found[1])
        greedy, following = network.act(obs, state)
        act = np.where(random.random(ENVIRONMENTS) < epsilon, random.integers(0, ACTIONS, ENVIRONMENTS), greedy)
        next_obs, rew, done, _, _ = envs.step(act)
        buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done, state=state.numpy())
        obs = envs.reset(options={"reset_mask": done})[0] if done.any() else next_obs
        state = following * torch.from_numpy(~done).unsqueeze(1)
        progress.transitions[number] += ENVIRONMENTS


def score(network: SequenceNetwork, agent: Agent, seed: int) -> float:
    """Return the mean return over greedy episodes, one per environment."""
    envs, state = environments(EPISODES), torch.zeros(EPISODES, 2 * agent.units)
    obs, _ = envs.reset(seed=seed)
    returns, playing = np.zeros(EPISODES), np.ones(EPISODES, bool)
    while playing.any():
        act, state = network.act(obs, state)
        obs, rew, done, _, _ = envs.step(act)
        returns += rew * playing
        playing &= ~done
        if done.any():
            obs, _ = envs.reset(options={"reset_mask": done})
    return float(returns.mean())
