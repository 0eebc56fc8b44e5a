"""The evaluator: plays greedily with the newest weights, in its own process."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import torch

from adapters.base import Array
from suites.apex_dqn.dqn import Network, set_weights
from suites.apex_dqn.explorer import network_for, observed
from suites.apex_dqn.progress import Counters, Evaluation
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.weights import NetworkWeights
from suites.workloads.recipes import gymnasium_make


def play(network: Network, envs: list[gymnasium.Env], seed: int) -> Array:
    """Play one greedy episode per environment, all in lockstep; return the episodes' returns, float64 (len(envs),)."""
    obs = np.stack([observed(env.reset(seed=seed + i)[0]) for i, env in enumerate(envs)])
    returns, playing = np.zeros(len(envs)), np.arange(len(envs))
    while len(playing):
        ended = []
        for i, act in zip(playing.tolist(), network.values(obs[playing]).argmax(axis=1).tolist(), strict=True):
            raw, rew, terminated, truncated, _ = envs[i].step(act)
            obs[i] = observed(raw)
            returns[i] += float(rew)
            if terminated or truncated:
                ended.append(i)
        playing = np.setdiff1d(playing, ended)
    return returns


def evaluate(settings: TrainingSettings, weights: NetworkWeights, progress: Counters) -> None:
    """Evaluate periodically until the training run stops."""
    torch.set_num_threads(1)
    envs = [gymnasium_make(settings.env) for _ in range(settings.episodes)]
    network, known, number = network_for(envs[0], settings), -1, 0
    while not progress.stop.value:
        found = weights.newest()
        if found is None or found[0] in (0, known):  # version 0: before the first step
            time.sleep(0.05)
            continue
        known = found[0]
        set_weights(network, found[1])
        number += 1
        score = float(play(network, envs, seed=1_000_000 * (settings.seed + 1) + 1_000 * number).mean())
        progress.evaluated.send(Evaluation(progress.seconds, score, known))
        until = time.monotonic() + settings.evaluate_every
        while time.monotonic() < until and not progress.stop.value:
            time.sleep(0.05)
