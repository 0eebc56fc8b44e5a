"""The common part of replacements for Stable-Baselines3's replay buffer and its copies, such as CleanRL's.

Imports neither library: the spaces may be Gymnasium's or Gym's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cpprb_impl.integrations import steps
from cpprb_impl.integrations.overrides import check_bases, overridden, replaces, unpatched
from cpprb_impl.integrations.step_state import StepState, Views, check_attributes
from cpprb_impl.integrations.steps import WHOLE
from cpprb_impl.layout.caller import OURS
from cpprb_impl.layout.fields import flag, positive_integer
from cpprb_impl.layout.stacks import StackAxis, axes_of_stacks

# The methods that the replaced buffers call in `sample`, which a subclass overrides to change its batches.
HOOKS = ("_get_samples", "to_torch", "_normalize_obs", "_normalize_reward")
METHODS = (*HOOKS, "add", "extend", "reset", "sample", "size")


class StepBuffer(StepState):
    """Steps of `n_envs` environments, stored in one of our buffers.

    `observations`, `rewards` and the replaced buffer's other arrays are views of our buffer's memory, of shape
    (buffer_size, n_envs, ...). If an observation's frames are stored once, there is no such view, only an object that
    is read as `observations[steps, environments]`.
    """

    handle_timeout_termination: bool
    exact: bool
    _maybe_cast_dtype: Callable[[Any], Any]  # of actions, as in Stable-Baselines3
    _ours: ClassVar[type]  # the class in this package from which a user's class is derived
    _our_hooks: ClassVar[Mapping[str, Any]]
    _overridden: frozenset[str]  # the hooks that a subclass or this instance replaces
    _own_draws: bool  # whether `sample` draws with the ring's generator, rather than NumPy's
    _shapes: Mapping[str, tuple[int, ...]]  # by part of an observation: (n_envs, *shape)
    _action_axes: tuple[int, ...] = ()  # (n_envs, *shape) if an action has several axes, which the ring does not know

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("cpprb_impl."):
            cls._ours, cls._our_hooks = cls, unpatched(cls, HOOKS, OURS)

    def _make_ring(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        n_envs: int,
        *,
        frames_once: bool,
        stack_axis: StackAxis = None,
        compress: str | None = None,
        priorities: Mapping[str, Any] | None = None,
        sequences: Mapping[str, Any] | None = None,
        exact: bool = False,
    ) -> None:
        """Create an empty ring for `buffer_size` steps of all environments together.

        Raises NotImplementedError for an unknown kind of space, TypeError or ValueError for a number below 1 or an
        axis that an observation does not have, and ValueError if `stack_axis` or `compress` is given without
        `optimize_memory_usage`, or `compress` without a stack of frames. The ring's seed is drawn from NumPy's
        generator, except with `exact`.
        """
        flag("optimize_memory_usage", frames_once)
        flag("handle_timeout_termination", self.handle_timeout_termination)
        flag("exact", exact)
        check_bases(type(self), self._ours, METHODS)
        check_attributes(type(self), self._ours, self._fixed)
        self.n_envs = positive_integer("n_envs", n_envs)
        self.buffer_size = max(positive_integer("buffer_size", buffer_size) // self.n_envs, 1)
        spaces = _parts(observation_space)
        observations = {
            name: _kind(f"observation_space[{name!r}]" if name else "observation_space", space)
            for name, space in spaces.items()
        }
        self._shapes = {name: (self.n_envs, *space.shape) for name, space in spaces.items()}
        if stack_axis is not None and not frames_once:
            raise ValueError(f"stack_axis must be None without optimize_memory_usage, got {stack_axis!r}")
        if isinstance(stack_axis, Mapping) and WHOLE in observations:
            raise TypeError(f"stack_axis must be an int for an observation without parts, got {stack_axis!r}")
        shape, dtype = _kind("action_space", action_space)
        if len(shape) > 1:
            self._action_axes = (self.n_envs, *shape)
        self._fields = {name: (steps.observation(name), steps.next_observation(name)) for name in spaces}
        ring = steps.make_ring(
            self.buffer_size,
            self.n_envs,
            observations,
            ((math.prod(shape),), self._maybe_cast_dtype(dtype)),
            frames_once=frames_once,
            stacks=axes_of_stacks(observations, stack_axis),
            compress=compress,
            priorities=priorities,
            sequences=sequences,
            seed=0 if exact else int(np.random.randint(2**63 - 1, dtype=np.int64)),
        )
        # Set before the ring, so that copies keep what was written to the views.
        self._views = Views(ring, self._fields)
        self._ring = ring
        self._choose_path(overridden(self, self._our_hooks))

    def _choose_path(self, hooks: frozenset[str]) -> None:
        """Choose whether `sample` calls the overridden `hooks` or, if there are none, draws in the fast way.

        Raises TypeError, and changes nothing, if a hook cannot be called as in the replaced buffer.
        """
        self._overridden = hooks
        self._own_draws = not hooks and not self.exact

    def __setattr__(self, name: str, value: Any) -> None:
        if name in HOOKS and self._is_made():
            self._choose_path(overridden(self, self._our_hooks) | {name})
        super().__setattr__(name, value)
        if name == "exact" and self._is_made():
            self._choose_path(self._overridden)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in HOOKS:
            self._choose_path(overridden(self, self._our_hooks))

    def reseed(self, seed: int | None = None) -> None:
        """Reseed the generator that draws rows, with a seed from 0 to 2**64 - 1, by default from the operating system.

        Raises TypeError or ValueError for any other seed, and TypeError if NumPy's global generator draws the rows:
        with `exact`, if a method that `sample` calls is overridden, or if `sample` itself is overridden and does not
        call `super()`.
        """
        if not self._draws_from_ring():
            raise TypeError(
                f"reseed() is not supported by this {type(self).__name__}: NumPy's global generator draws its rows, "
                "because exact=True or a subclass overrides sampling; call np.random.seed instead"
            )
        self._ring.reseed(seed)

    def _draws_from_ring(self) -> bool:
        return self._own_draws and not replaces(self, "sample", self._ours)

    @property
    def nbytes(self) -> int:
        """Bytes of memory used by the stored steps; with frames stored once, they grow until the buffer is full."""
        return self._ring.nbytes

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_state(state)
        self._choose_path(overridden(self, self._our_hooks))

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store one step of each environment.

        Parameters
        ----------
        obs, next_obs : array (n_envs, *shape), or dict of arrays
        action : array (n_envs, *shape)
        reward, done : array (n_envs,)
            As in the replaced buffer, values that NumPy broadcasts to these shapes, such as a number, are accepted as
            well.
        infos : sequence of dict
            One per environment, or one for all. Only "TimeLimit.truncated" is read, and only with
            `handle_timeout_termination`.

        Raises
        ------
        ValueError, TypeError, KeyError
            If an array has the wrong shape, `infos` is not a sequence of `n_envs` dicts, or an observation with parts
            is not a dict or lacks a part. Nothing is stored then.
        """
        # The ring would also accept several steps per environment, and values whose axes are in a different order.
        numbers = (self.n_envs,)
        if getattr(reward, "shape", None) != numbers:
            reward = _spread("reward", reward, numbers)
        if getattr(done, "shape", None) != numbers:
            done = _spread("done", done, numbers)
        if self._action_axes:
            _check_order("action", action, self._action_axes)
        rows: dict[str, Any] = {
            steps.ACTION: action,
            steps.REWARD: reward,
            steps.DONE: done,
            steps.TIMEOUT: self._timeouts(infos),
        }
        for name, (field, next_field) in self._fields.items():
            try:
                seen, next_seen = (obs, next_obs) if name == WHOLE else (obs[name], next_obs[name])
            except (KeyError, IndexError, TypeError):
                self._check_parts("obs", obs)
                self._check_parts("next_obs", next_obs)
                raise
            expected = self._shapes[name]
            if not (getattr(seen, "shape", None) == getattr(next_seen, "shape", None) == expected):
                seen, next_seen = self._fit("obs", name, seen), self._fit("next_obs", name, next_seen)
            rows[field], rows[next_field] = seen, next_seen
        self._ring.add(**rows)

    def _fit(self, what: str, name: str, value: Any) -> np.ndarray:
        """Return a part of an observation in the shape that the replaced buffers store, or raise ValueError."""
        expected = self._shapes[name]
        if len(expected) == 1 and math.prod(np.shape(value)) == self.n_envs:  # one number each, in any shape
            return np.reshape(np.asarray(value), expected)
        return _spread(what if name == WHOLE else f"{what}[{name!r}]", value, expected)

    def _check_parts(self, what: str, value: Any) -> None:
        """Raise TypeError unless an observation is a dict, KeyError if it lacks parts."""
        expected = ", ".join(map(repr, self._fields))
        if not isinstance(value, Mapping):
            raise TypeError(f"{what} must be a dict with the parts {expected}, got {type(value).__name__}")
        if missing := [repr(name) for name in self._fields if name not in value]:
            raise KeyError(f"{what} must have the parts {expected}, got none named {', '.join(missing)}")

    def _timeouts(self, infos: Sequence[Mapping[str, Any]]) -> Any:
        if not self.handle_timeout_termination:  # keep the stored timeouts, which a subclass may write itself
            return self._views["timeouts"][self._ring.get_next_index() // self.n_envs].copy()
        if isinstance(infos, Mapping):  # a Gymnasium vector environment's infos do not say which step was truncated
            raise TypeError(
                "infos must be a sequence of one dict per environment, got a dict: pass the terminations as done, "
                "and handle_timeout_termination=False to the constructor"
            )
        try:
            given = len(infos)
        except TypeError:
            what = type(infos).__name__
            raise TypeError(f"infos must be a sequence of one dict per environment, got {what}") from None
        if given not in (1, self.n_envs):
            raise ValueError(f"infos must have one dict per environment ({self.n_envs}), got {given}")
        truncated = [info.get("TimeLimit.truncated", False) for info in infos]
        return truncated * self.n_envs if given == 1 else truncated

    def _arrays(self, rows: Mapping[str, np.ndarray]) -> tuple[Any, np.ndarray, Any, np.ndarray, np.ndarray]:
        """Return observations, actions, next observations, dones (n, 1) and rewards (n, 1) of drawn rows.

        A step that reached a time limit is not done.
        """
        obs, next_obs = steps.obs_and_next_obs(self._fields, rows.__getitem__)
        dones = rows[steps.DONE]
        dones -= dones * rows[steps.TIMEOUT]  # in place, since the batch is new; `1 - timeout` is slower
        return obs, rows[steps.ACTION], next_obs, dones.reshape(-1, 1), rows[steps.REWARD].reshape(-1, 1)


def _parts(space: Any) -> Mapping[str, Any]:
    parts = getattr(space, "spaces", None)
    if not isinstance(parts, Mapping):
        return {WHOLE: space}
    if WHOLE in parts:
        raise ValueError(f"observation_space must be a Dict without a part named {WHOLE!r}, got {space}")
    return parts


def _kind(what: str, space: Any) -> steps.Kind:
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None:
        raise NotImplementedError(f"{what} must be a Box, Discrete, MultiDiscrete or MultiBinary, got {space}")
    return tuple(shape) or (1,), dtype  # a Discrete has the shape ()


def _spread(what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return `value` as NumPy would assign it to an array of `shape`. Raises ValueError if NumPy cannot."""
    given = np.asarray(value)
    spread = np.empty(shape, given.dtype)
    try:
        spread[...] = given
    except ValueError:
        raise ValueError(f"{what} must have the shape {shape}, got {given.shape}") from None
    return spread


def _check_order(what: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if the axes of `value` are those of `shape` in a different order, ignoring axes of length 1."""
    given, expected = ([length for length in each if length != 1] for each in (np.shape(value), shape))
    if given != expected and sorted(given) == sorted(expected):
        raise ValueError(f"{what} must have the shape {shape}, got {np.shape(value)}: its axes are reordered")


def of_each_part(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the result of a function for an observation or, if it has parts, a dict of the results for each part."""
    return {name: change(part) for name, part in value.items()} if isinstance(value, dict) else change(value)
