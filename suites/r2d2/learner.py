"""R2D2's network, and one step of its learner (Kapturowski et al. 2019, section 2.3).

Left out, because this task does not need it: value rescaling (returns are at most 4), the previous action and reward
as inputs, and dueling heads.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from adapters.base import Array
from suites.r2d2.task import ACTIONS, OBS

LEARNING_RATE, GRADIENT_NORM = 1e-3, 10.0


@dataclass(frozen=True)
class Agent:
    """What distinguishes the agents that are compared, and the sizes of their sequences."""

    memory: bool = True  # an LSTM; otherwise a layer that sees only the current observation
    burn_in: int = 20
    from_start: bool = True  # learn from the burn-in steps, too, of a sequence that begins with its episode
    size: int = 40
    units: int = 64
    n: int = 5  # steps of a return
    gamma: float = 0.99
    target_every: int = 100  # learner steps between copies to the target network


AGENTS = {
    "R2D2": Agent(),
    "without burn-in": Agent(burn_in=0),
    "without the first steps": Agent(from_start=False),
    "feed-forward": Agent(memory=False, burn_in=0),
}


class SequenceNetwork(nn.Module):
    """Q(history, action) for every action, at each step of a sequence."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, agent.units), nn.ReLU())
        self.lstm = nn.LSTM(agent.units, agent.units, batch_first=True) if agent.memory else None
        if not agent.memory:
            self.body.extend([nn.Linear(agent.units, agent.units), nn.ReLU()])
        self.head = nn.Linear(agent.units, ACTIONS)

    def forward(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action values (batch, steps, actions), and the state after the last step.

        `obs` is (batch, steps, 3); a state, (batch, 2 * units), contains the LSTM's hidden and cell state.
        """
        features = self.body(obs)
        if self.lstm is not None:
            hidden, cell = state.unsqueeze(0).chunk(2, dim=2)
            features, after = self.lstm(features, (hidden.contiguous(), cell.contiguous()))
            state = torch.cat(after, dim=2).squeeze(0)
        return self.head(features), state

    @torch.inference_mode()
    def act(self, obs: Array, state: Tensor) -> tuple[Array, Tensor]:
        """Return the greedy actions for one observation of each environment, and the states after it."""
        values, state = self(torch.from_numpy(obs).unsqueeze(1), state)
        return values.squeeze(1).argmax(dim=1).numpy(), state


def n_step_targets(rew: Tensor, done: Tensor, following: Tensor, n: int, gamma: float) -> Tensor:
    """Return the n-step targets (batch, steps), of fewer steps where the episode or the sequence ends before.

    `rew` and `done` are (batch, steps); `following` (batch, steps + 1) are the values of all observations, of which
    the last follows the sequence.
    """
    targets = following
    for _ in range(n):  # after k rounds, these are the k-step targets
        targets = torch.cat([rew + gamma * ~done * targets[:, 1:], following[:, -1:]], dim=1)
    return targets[:, :-1]


class SequenceLearner:
    """The network, its target network and the optimizer."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.network = agent, SequenceNetwork(agent)
        self.target = copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)
        self.steps = 0

    def values(self, network: SequenceNetwork, batch: dict[str, Tensor]) -> Tensor:
        """Return the action values (batch, steps + 1, actions) of all observations of sequences of one episode each.

        No gradient flows from the steps after the burn-in into those before, unless the agent learns from them.
        """
        obs = torch.cat([batch["obs"], batch["next_obs"][:, -1:]], dim=1)
        if not self.agent.burn_in:
            return network(obs, batch["state"])[0]
        of_burn_in, state = network(obs[:, : self.agent.burn_in], batch["state"])
        state = torch.where(self.starts(batch), state, state.detach())
        return torch.cat([of_burn_in, network(obs[:, self.agent.burn_in :], state)[0]], dim=1)

    def errors(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the TD errors of double Q-learning, float32 (batch, steps); 0 for steps that are not learned from."""
        values = self.values(self.network, batch)
        with torch.no_grad():
            best = values.argmax(dim=2, keepdim=True)
            following = self.values(self.target, batch).gather(2, best).squeeze(2)
            targets = n_step_targets(batch["rew"], batch["done"], following, self.agent.n, self.agent.gamma)
        return (targets - values[:, :-1].gather(2, batch["act"].unsqueeze(2)).squeeze(2)) * self.learned(batch)

    def learned(self, batch: dict[str, Tensor]) -> Tensor:
        """Return which steps are learned from, bool (batch, steps)."""
        after = torch.arange(batch["mask"].shape[1]) >= self.agent.burn_in
        return batch["mask"] & (after | self.starts(batch))

    def starts(self, batch: dict[str, Tensor]) -> Tensor:
        """Return in which sequences the burn-in steps are learned from, bool (batch, 1).

        At the start of an episode, the stored state is exact, and no other sequence learns from these steps.
        """
        return batch["is_first"][:, :1] & self.agent.from_start

    def step(self, batch: dict[str, Tensor]) -> Tensor:
        """Take one gradient step; return the TD errors (batch, steps), from which the buffer computes priorities."""
        errors = self.errors(batch)
        losses = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none").sum(dim=1)
        self.optimizer.zero_grad()
        ((batch["weights"] * losses).sum() / self.learned(batch).sum()).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM)
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.agent.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())
        return errors.detach()
