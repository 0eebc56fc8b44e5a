"""A small training loop: act, store, sample, update."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from cpprb_impl.layout.fields import integer
from cpprb_impl.strategies.hindsight import HindsightReplayBuffer

Transition = Mapping[str, Any]

MOST_STEPS = 2**64 - 2  # cpprb counts steps in a size_t


def train(
    buffer: Any,
    env: Any,
    get_action: Callable[[Any, int, int, bool], Any],
    update_policy: Callable[[dict, int, int], Any],
    *,
    max_steps: int = 10**6,
    max_episodes: int | None = None,
    batch_size: int = 64,
    n_warmups: int = 0,
    beta: float | Callable[[int], float] | None = None,
    after_step: Callable[[Any, Any, tuple, int, int], Transition] | None = None,
    done_check: Callable[[Transition], Any] | None = None,
    obs_update: Callable[[Transition], Any] | None = None,
    rew_sum: Callable[[float, Transition], float] | None = None,
    episode_callback: Callable[[int, int, float], Any] | None = None,
    end_episode: Callable[[Any, Transition], Any] | None = None,
    logger: logging.Logger | None = None,
) -> None:
    """Train a policy on `env`, with `buffer` as its memory.

    Steps and episodes are numbered from 0. Each step calls `get_action`, `env.step`, `after_step` and `buffer.add`.
    From step `n_warmups` on, it also calls `buffer.sample` and `update_policy`, unless nothing has been stored yet.

    Parameters
    ----------
    buffer
        Any object with `add(**transition)` and `sample(batch_size)`. It is treated as prioritized if it has a method
        `update_priorities` and its samples contain "indexes".
    env
        An environment with Gymnasium's interface (`step` returns 5 values, `reset` returns (obs, info)) or with Gym's
        old one (`step` returns 4 values, `reset` returns obs).
    get_action : callable
        (obs, step, episode, is_warmup) -> action.
    update_policy : callable
        (sample, step, episode) -> absolute TD errors (batch_size,), used as the new priorities. The return value is
        ignored for a buffer without priorities.
    max_steps, max_episodes : int
        The loop ends when either is reached, or immediately if one is 0 or less.
    batch_size, n_warmups : int
        Number of transitions per sample; number of steps before the first update.
    beta : float or callable, optional
        Exponent of a prioritized sample's importance weights, or (step) -> exponent. Default: the buffer's own.
    after_step : callable, optional
        (obs, action, result of env.step, step, episode) -> transition, a dict for `buffer.add`. Default: obs, act,
        rew, next_obs and done. With Gymnasium, done is its "terminated", and "truncated" is included as well.
    done_check : callable, optional
        (transition) -> whether the episode has ended. Default: "done", or "truncated" if present.
    obs_update : callable, optional
        (transition) -> the next step's obs. Default: "next_obs".
    rew_sum : callable, optional
        (sum so far, transition) -> sum. The sum is 0.0 at first. Default: adds "rew".
    episode_callback : callable, optional
        (episode, index of the last step within the episode, sum of rewards), called after each finished episode.
    end_episode : callable, optional
        (buffer, last transition), called when an episode has ended or `max_steps` has cut it off. Default:
        `buffer.on_episode_end()` if it exists; for a `HindsightReplayBuffer`, with the last transition's "goal".
    logger : logging.Logger, optional
        Receives one line per episode, at level INFO. Default: the logger "cpprb_impl".

    Raises
    ------
    ValueError
        If max_steps is more than 2**64 - 2, or env.step returns neither 4 nor 5 values.
    TypeError
        If update_policy returns None for a prioritized buffer, or beta is not None for any other buffer.
    KeyError
        If a transition lacks a key that a default needs; the message names the parameter to pass instead.
    """
    last_step = integer("max_steps", max_steps)
    last_episode = float("inf") if max_episodes is None else integer("max_episodes", max_episodes)
    if last_step > MOST_STEPS:
        raise ValueError(f"max_steps must be at most {MOST_STEPS}, got {max_steps}")
    if beta is not None and not _is_prioritized(buffer):
        raise TypeError(f"beta must be None for a buffer without priorities, such as {type(buffer).__name__}")
    after_step = after_step or _transition
    done_check = done_check or _ended
    obs_update = obs_update or (lambda transition: _part(transition, "next_obs", "obs_update"))
    rew_sum = rew_sum or (lambda total, transition: total + _part(transition, "rew", "rew_sum"))
    end_episode = end_episode or _end_episode
    logger = logger or logging.getLogger("cpprb_impl")

    step = episode = 0
    while step < last_step and episode < last_episode:
        obs, first, total, began = _first_obs(env.reset()), step, 0.0, time.perf_counter()
        ended = False
        while step < last_step and not ended:
            action = get_action(obs, step, episode, step < n_warmups)
            transition = after_step(obs, action, env.step(action), step, episode)
            buffer.add(**transition)
            if step >= n_warmups:
                _update(buffer, update_policy, batch_size, beta, step, episode)
            total = rew_sum(total, transition)
            ended = bool(done_check(transition))
            obs = obs_update(transition)
            step += 1
        end_episode(buffer, transition)
        if not ended:
            return
        steps = step - first
        rate = steps / max(time.perf_counter() - began, 1e-9)
        logger.info("episode %d: %d steps (%d in all), reward %g, %.0f steps/s", episode, steps, step, total, rate)
        if episode_callback is not None:
            episode_callback(episode, steps - 1, total)
        episode += 1


def _is_prioritized(buffer: Any) -> bool:
    return buffer.prioritized if isinstance(buffer, HindsightReplayBuffer) else hasattr(buffer, "update_priorities")


def _update(
    buffer: Any, update_policy: Callable, batch_size: int, beta: float | Callable | None, step: int, episode: int
) -> None:
    # N-step and hindsight buffers hold nothing until their first window or episode is complete.
    if hasattr(buffer, "get_stored_size") and buffer.get_stored_size() == 0:
        return
    options = {} if beta is None else {"beta": beta(step) if callable(beta) else beta}
    sample = buffer.sample(batch_size, **options)
    indexes = sample.get("indexes") if _is_prioritized(buffer) else None
    errors = update_policy(sample, step, episode)
    if indexes is not None:
        if errors is None:
            raise TypeError("update_policy must return absolute TD errors for a prioritized buffer, got None")
        buffer.update_priorities(indexes, errors)


def _transition(obs: Any, action: Any, outcome: tuple, step: int, episode: int) -> Transition:
    if len(outcome) == 4:
        next_obs, rew, done, _ = outcome
        ending = {}
    elif len(outcome) == 5:
        next_obs, rew, done, truncated, _ = outcome
        ending = {"truncated": truncated}
    else:
        raise ValueError(f"env.step must return 4 or 5 values, got {len(outcome)}: pass after_step")
    return {"obs": obs, "act": action, "rew": rew, "next_obs": next_obs, "done": done, **ending}


def _first_obs(answer: Any) -> Any:
    # Gym's old reset returns only obs, which may itself be a tuple, but not one whose second element is a dict.
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)
    return answer[0] if is_pair else answer


def _ended(transition: Transition) -> bool:
    return bool(_part(transition, "done", "done_check")) or bool(transition.get("truncated", False))


def _end_episode(buffer: Any, transition: Transition) -> None:
    if isinstance(buffer, HindsightReplayBuffer):
        buffer.on_episode_end(_part(transition, "goal", "end_episode"))
    elif hasattr(buffer, "on_episode_end"):
        buffer.on_episode_end()


def _part(transition: Transition, name: str, instead: str) -> Any:
    if name not in transition:
        raise KeyError(f"the transition has no {name!r}: pass {instead}, or add it in after_step")
    return transition[name]
