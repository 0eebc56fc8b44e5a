"""Prioritized replay for Stable-Baselines3, and the DQN that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecNormalize
from torch.nn import functional

from cpprb_impl.buffers.single import PrioritizedReplayBuffer as PrioritizedRing
from cpprb_impl.integrations import steps
from cpprb_impl.integrations.overrides import replaces
from cpprb_impl.layout.fields import flag
from cpprb_impl.layout.options import check_exponent, check_normalize
from cpprb_impl.sb3.buffers import ReplayBuffer, check_steps


class PrioritizedSamples(NamedTuple):
    """`ReplayBufferSamples` with importance weights (batch_size, 1), and the indexes for `update_priorities`."""

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    weights: torch.Tensor
    indexes: np.ndarray
    discounts: torch.Tensor | None = None  # (batch_size, 1) of next_observations, with n-step returns


class PrioritizedReplayBuffer(ReplayBuffer):
    """Proportional prioritized replay (Schaul et al. 2015), for `PrioritizedDQN`.

    Parameters
    ----------
    *args, **options
        As for `ReplayBuffer`, except `exact`. Observations may be dicts.
    alpha, eps, normalize, check_for_update
        As for `cpprb_impl.PrioritizedReplayBuffer`, but with the defaults of the paper's author: an `eps` of 0.01, and
        weights divided by the largest in their batch. With a tiny `eps` and `normalize="buffer"`, a single TD error of
        0 makes the weights of all other steps tiny.
    beta : float
        Exponent of the importance weights. `PrioritizedDQN` raises it linearly, to 1 at the end of training.
    n_steps : int
        Number of steps whose rewards are summed when a step is drawn; fewer if the episode or the stored steps end
        earlier, as in Stable-Baselines3's `NStepReplayBuffer`. A sample's "discounts" are then gamma^n for the n steps
        summed.
    gamma : float
        Discount per step, with `n_steps` above 1.

    Raises
    ------
    TypeError, ValueError
        If `exact` is given, or an option is invalid.
    """

    _ring: PrioritizedRing
    n_steps: int = 1  # in files written before this option existed
    gamma: float = 0.99
    _fixed: ClassVar[Mapping[str, str]] = {
        **ReplayBuffer._fixed,
        **dict.fromkeys(
            ("alpha", "eps", "normalize", "check_for_update"), "pass it to the constructor of a new buffer"
        ),
        "exact": "Stable-Baselines3 has no such buffer",
    }
    _checks: ClassVar = {"n_steps": check_steps, "gamma": check_exponent, "beta": check_exponent}

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        eps: float = 0.01,
        normalize: str | None = "batch",
        beta: float = 0.4,
        check_for_update: bool = False,
        n_steps: int = 1,
        gamma: float = 0.99,
        **options: Any,
    ) -> None:
        if "exact" in options:
            raise TypeError("PrioritizedReplayBuffer has no option exact: Stable-Baselines3 has no such buffer")
        self.normalize = check_normalize(normalize)
        self.n_steps, self.gamma, self.beta = n_steps, gamma, beta
        self.alpha, self.eps, self.check_for_update = alpha, eps, check_for_update
        self.first_beta = self.beta
        super().__init__(*args, **options)

    def _priorities(self) -> dict[str, Any]:
        names = ("alpha", "eps", "normalize", "check_for_update")
        return {name: getattr(self, name) for name in names}

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> PrioritizedSamples:
        """Return steps drawn by priority. Raises ValueError if no step is stored."""
        rows = self._ring.sample(batch_size, self.beta)
        weights, indexes = self._tensor(rows["weights"].reshape(-1, 1)), rows["indexes"]
        overridden = "_get_samples" in self._overridden
        obs, actions, next_obs, dones, rewards, *rest = (
            self._get_samples(indexes, env) if overridden else self._samples(rows, indexes, env)
        )
        return PrioritizedSamples(obs, actions, next_obs, dones, rewards, weights, indexes, *rest)

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> Any:
        if self.n_steps == 1:
            return super()._get_samples(batch_inds, env)
        indexes = self._indexes(batch_inds)
        return self._samples(self._ring.get(indexes), indexes, env)

    def _samples(self, rows: dict[str, np.ndarray], indexes: np.ndarray, env: VecNormalize | None) -> Any:
        """Return the rows at `indexes` as tensors, with n-step returns."""
        if self.n_steps == 1:
            return self._tensors(rows, env)
        first, environments = np.divmod(indexes, self.n_envs)
        ahead = np.arange(self.n_steps)
        window = (first[:, None] + ahead) % self.buffer_size, environments[:, None]
        views = self._views
        ends = (views["dones"][window] != 0) | (views["timeouts"][window] != 0)
        ends |= window[0] == (self.pos - 1) % self.buffer_size  # no step follows the newest one
        last = np.where(ends.any(axis=1), ends.argmax(axis=1), self.n_steps - 1)
        rewards = self._normalize_reward(views["rewards"][window], env) * self.gamma**ahead
        returns = np.where(ahead <= last[:, None], rewards, 0).sum(axis=1, keepdims=True)
        final = self._ring.get((first + last) % self.buffer_size * self.n_envs + environments)
        for name in (steps.DONE, steps.TIMEOUT, *(next_field for _, next_field in self._fields.values())):
            rows[name] = final[name]
        tensor = self.to_torch if "to_torch" in self._overridden else self._tensor
        discounts = self.gamma ** (last[:, None] + 1)
        return self._tensors(rows, env)._replace(
            rewards=tensor(returns.astype(np.float32)), discounts=tensor(discounts.astype(np.float32))
        )

    def _choose_path(self, hooks: frozenset[str]) -> None:
        if "_get_samples" in hooks and self.n_envs > 1:
            raise TypeError(
                "_get_samples must not be overridden if n_envs > 1, because a prioritized buffer chooses each step's "
                "environment before calling it: create the buffer with n_envs=1, or override sample instead"
            )
        super()._choose_path(hooks)

    def _draws_from_ring(self) -> bool:
        return not replaces(self, "sample", self._ours)  # whatever other methods are overridden

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities (n,) of sampled steps, such as their absolute TD errors.

        Raises ValueError if a priority is negative or not finite.
        """
        self._ring.update_priorities(indexes, priorities)


class PrioritizedDQN(DQN):
    """DQN with proportional prioritized replay (Schaul et al. 2015).

    Logs "train/beta" and "train/mean_weight" in addition to DQN's values. If the mean weight falls far below 1, the
    learner hardly learns.

    Parameters
    ----------
    *args, **options
        As for Stable-Baselines3's DQN, with `n_steps`. `replay_buffer_kwargs` may set the options of
        `PrioritizedReplayBuffer`. With `n_steps` in either place, the buffer discounts rewards by the model's `gamma`.
    double : bool
        Whether the online network chooses the action whose value the target network estimates (van Hasselt et al. 2016,
        "Deep reinforcement learning with double Q-learning").

    Raises
    ------
    TypeError, ValueError
        If `replay_buffer_class` is not a `PrioritizedReplayBuffer`, or `n_steps` or, with n-step returns, `gamma`
        contradicts `replay_buffer_kwargs`.
    """

    replay_buffer: Any  # a PrioritizedReplayBuffer once it has been created
    n_steps: int
    replay_buffer_kwargs: dict[str, Any]

    def __init__(
        self,
        *args: Any,
        replay_buffer_class: type[ReplayBuffer] = PrioritizedReplayBuffer,
        double: bool = False,
        **options: Any,
    ) -> None:
        self.double = flag("double", double)
        if not issubclass(replay_buffer_class, PrioritizedReplayBuffer):
            raise TypeError(f"replay_buffer_class must be a PrioritizedReplayBuffer, got {replay_buffer_class!r}")
        super().__init__(*args, replay_buffer_class=replay_buffer_class, **options)

    def _setup_model(self) -> None:
        wanted, given = self.n_steps, self.replay_buffer_kwargs
        options = {"n_steps": wanted, **given} if wanted > 1 else {**given}
        if "n_steps" in options:
            if wanted > 1 and options["n_steps"] != wanted:
                raise ValueError(
                    f"n_steps must be {options['n_steps']}, as in replay_buffer_kwargs, or not be given, got {wanted}"
                )
            if options.setdefault("gamma", self.gamma) != self.gamma:
                raise ValueError(
                    f"gamma must be {options['gamma']}, as in replay_buffer_kwargs, or not be given there, got "
                    f"{self.gamma}"
                )
        self.replay_buffer_kwargs = options
        self.n_steps = 1  # otherwise, Stable-Baselines3 would warn that it ignores the number
        try:
            super()._setup_model()
        finally:
            self.n_steps, self.replay_buffer_kwargs = wanted, given  # what is saved with the model

    def load_replay_buffer(self, path: Any, truncate_last_traj: bool = True) -> None:
        """Load a saved buffer. If that fails, the model keeps its present buffer.

        Raises TypeError if the loaded buffer is not a `PrioritizedReplayBuffer`, and ValueError if the model cannot add
        to it, or its `n_steps` or, with n-step returns, its gamma differs from the model's. Its other options are those
        in the file.
        """
        before = self.replay_buffer
        n_steps = getattr(before, "n_steps", self.replay_buffer_kwargs.get("n_steps", self.n_steps))
        try:
            super().load_replay_buffer(path, truncate_last_traj)
            self._check_loaded(self.replay_buffer, n_steps)
        except BaseException:
            self.replay_buffer = before
            raise

    def _check_loaded(self, buffer: Any, n_steps: int) -> None:
        if not isinstance(buffer, PrioritizedReplayBuffer):
            raise TypeError(f"path must be a file with a PrioritizedReplayBuffer, got a {type(buffer).__name__}")
        if buffer.n_steps != n_steps:
            raise ValueError(f"n_steps of the loaded buffer must be that of the model, {n_steps}, got {buffer.n_steps}")
        if buffer.n_steps > 1 and buffer.gamma != self.gamma:
            raise ValueError(f"gamma of the loaded buffer must be that of the model, {self.gamma}, got {buffer.gamma}")

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on the Huber loss of each sample times its importance weight."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        remaining = max(self._current_progress_remaining, 0)  # training may end with more steps than were requested
        self.replay_buffer.beta = 1 - (1 - self.replay_buffer.first_beta) * remaining
        losses, weights = [], []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                following = self.q_net_target(batch.next_observations)
                chooser = self.q_net(batch.next_observations) if self.double else following
                following = following.gather(1, chooser.argmax(dim=1, keepdim=True))
                discounts = self.gamma if batch.discounts is None else batch.discounts
                target = batch.rewards + (1 - batch.dones) * discounts * following
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = (batch.weights * functional.smooth_l1_loss(values, target, reduction="none")).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            errors = (values - target).detach().abs().squeeze(1)
            self.replay_buffer.update_priorities(batch.indexes, errors.cpu().numpy())
            losses.append(loss.item())
            weights.append(batch.weights.mean().item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.logger.record("train/beta", self.replay_buffer.beta)
        self.logger.record("train/mean_weight", np.mean(weights))
