"""Dueling double DQN: the network, and one step of the learner (Wang et al. 2016; van Hasselt et al. 2016)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adapters.base import Array, Columns
from suites.apex_dqn.settings import TrainingSettings

GRADIENT_NORM = 10.0  # at which gradients are clipped


class Network(nn.Module):
    """Q(obs, action) for every action: a state's value plus each action's advantage, minus the mean advantage."""

    def __init__(self, obs_shape: tuple[int, ...], actions: int, hidden: int) -> None:
        super().__init__()
        inputs = int(np.prod(obs_shape))
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.value, self.advantage = nn.Linear(hidden, 1), nn.Linear(hidden, actions)

    def forward(self, obs: Tensor) -> Tensor:
        inside = self.body(obs)
        advantage: Tensor = self.advantage(inside)
        values: Tensor = self.value(inside) + advantage - advantage.mean(dim=1, keepdim=True)
        return values

    @torch.inference_mode()
    def values(self, obs: Array) -> Array:
        """Return the action values of a batch of observations, (rows, actions)."""
        found: Array = self(torch.from_numpy(obs)).numpy()
        return found


def flat_weights(network: nn.Module) -> Array:
    """Return a copy of the network's weights, float32 (n,)."""
    return nn.utils.parameters_to_vector(network.parameters()).detach().cpu().numpy().copy()


def set_weights(network: nn.Module, flat: Array) -> None:
    nn.utils.vector_to_parameters(torch.from_numpy(flat), network.parameters())


class DoubleDQN:
    """The network, its target network and the optimizer, on a GPU if there is one."""

    def __init__(self, network: Network, settings: TrainingSettings) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = network.to(self.device)
        self.target = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
        self.settings, self.steps = settings, 0

    def step(self, batch: Columns) -> Array:
        """Take one gradient step; return the rows' absolute TD errors, which are their new priorities, float32
        (rows,)."""
        rows = len(batch["weights"])
        obs, act, rew, next_obs, discount, weights = (
            torch.from_numpy(np.ascontiguousarray(batch[name])).to(self.device)
            for name in ("obs", "act", "rew", "next_obs", "discount", "weights")
        )
        with torch.no_grad():
            best = self.network(next_obs).argmax(dim=1, keepdim=True)
            following = self.target(next_obs).gather(1, best).flatten()
            target = rew.flatten() + discount.flatten() * following
        errors = target - self.network(obs).gather(1, act.reshape(rows, 1).long()).flatten()
        losses = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
        self.optimizer.zero_grad(set_to_none=True)
        (weights.flatten().float() * losses).mean().backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM)
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.settings.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())
        priorities: Array = errors.detach().abs().cpu().numpy()
        return priorities

    def state(self) -> dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.target.load_state_dict(state["target"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]
