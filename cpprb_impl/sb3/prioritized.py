"""Prioritized replay for Stable-Baselines3, and the DQN that uses it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecNormalize
from torch.nn import functional

from cpprb_impl.buffers import PrioritizedReplayBuffer as PrioritizedRing
from cpprb_impl.buffers import check_exponent
from cpprb_impl.sb3.buffers import ReplayBuffer


class PrioritizedSamples(NamedTuple):
    """`ReplayBufferSamples` with importance weights (batch_size, 1), and the indexes for `update_priorities`."""

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    weights: torch.Tensor
    indexes: np.ndarray
    discounts: None = None  # which Stable-Baselines3's own samples have


class PrioritizedReplayBuffer(ReplayBuffer):
    """Proportional prioritized replay (Schaul et al. 2015), for `PrioritizedDQN`.

    Parameters
    ----------
    *args, **options
        As for `ReplayBuffer`, except `exact`. Observations may be dicts.
    alpha, eps, check_for_update
        As for `cpprb_impl.PrioritizedReplayBuffer`.
    beta : float
        Exponent of the importance weights. `PrioritizedDQN` raises it linearly, to 1 at the end of a training.
    """

    _ring: PrioritizedRing

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        eps: float = 1e-6,
        beta: float = 0.4,
        check_for_update: bool = False,
        **options: Any,
    ) -> None:
        if "exact" in options:
            raise TypeError("PrioritizedReplayBuffer has no option exact: Stable-Baselines3 has no such buffer")
        if "n_steps" in options:  # which Stable-Baselines3 advises to pass if an algorithm is given n_steps
            raise TypeError("PrioritizedReplayBuffer has no option n_steps: there is no prioritized n-step buffer")
        self.alpha, self.eps, self.check_for_update = alpha, eps, check_for_update
        self.beta = self.first_beta = check_exponent("beta", beta)
        super().__init__(*args, **options)

    def _priorities(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "eps": self.eps, "check_for_update": self.check_for_update}

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> PrioritizedSamples:
        """Return steps drawn by priority. Raises ValueError if no step is stored."""
        rows = self._ring.sample(batch_size, self.beta)
        weights, indexes = self._tensor(rows["weights"].reshape(-1, 1)), rows["indexes"]
        overridden = "_get_samples" in self._overridden
        obs, actions, next_obs, dones, rewards, *rest = (
            self._get_samples(indexes, env) if overridden else self._tensors(rows, env)
        )
        return PrioritizedSamples(obs, actions, next_obs, dones, rewards, weights, indexes, *rest)

    def _choose_path(self, hooks: frozenset[str]) -> None:
        if "_get_samples" in hooks and self.n_envs > 1:
            raise TypeError(
                "_get_samples must not be overridden in a prioritized buffer of several environments, since it draws "
                "the environment of each step itself: make the buffer with n_envs=1, or override sample instead"
            )
        super()._choose_path(hooks)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities (n,) of sampled steps, such as their absolute TD errors.

        Raises ValueError if a priority is negative or not finite.
        """
        self._ring.update_priorities(indexes, priorities)


class PrioritizedDQN(DQN):
    """DQN with proportional prioritized replay (Schaul et al. 2015). Options are those of Stable-Baselines3's DQN.

    `replay_buffer_kwargs` may set alpha, eps, beta and check_for_update of its `PrioritizedReplayBuffer`.
    """

    replay_buffer: Any  # a PrioritizedReplayBuffer once it is made

    def __init__(
        self, *args: Any, replay_buffer_class: type[ReplayBuffer] = PrioritizedReplayBuffer, **options: Any
    ) -> None:
        if not issubclass(replay_buffer_class, PrioritizedReplayBuffer):
            raise TypeError(f"replay_buffer_class must be a PrioritizedReplayBuffer, got {replay_buffer_class!r}")
        super().__init__(*args, replay_buffer_class=replay_buffer_class, **options)

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        """Load a saved buffer. Raises TypeError, and keeps the one in use, if it is no PrioritizedReplayBuffer."""
        before = self.replay_buffer
        super().load_replay_buffer(path, truncate_last_traj)
        if not isinstance(self.replay_buffer, PrioritizedReplayBuffer):
            loaded, self.replay_buffer = self.replay_buffer, before
            raise TypeError(f"path must be of a file with a PrioritizedReplayBuffer, got a {type(loaded).__name__}")

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on the Huber loss of each sample times its importance weight."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        remaining = max(self._current_progress_remaining, 0)  # the last steps may be more than were asked for
        self.replay_buffer.beta = 1 - (1 - self.replay_buffer.first_beta) * remaining
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                following = self.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
                target = batch.rewards + (1 - batch.dones) * self.gamma * following
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = (batch.weights * functional.smooth_l1_loss(values, target, reduction="none")).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            errors = (values - target).detach().abs().squeeze(1)
            self.replay_buffer.update_priorities(batch.indexes, errors.cpu().numpy())
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.logger.record("train/beta", self.replay_buffer.beta)
