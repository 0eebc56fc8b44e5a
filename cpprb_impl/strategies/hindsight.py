"""Hindsight Experience Replay: each episode is stored again with goals that were actually reached.

M. Andrychowicz et al., "Hindsight Experience Replay", NeurIPS 2017, arXiv:1707.01495, algorithm 1 and section 4.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.layout.arrays import array_of
from cpprb_impl.layout.fields import (
    field_names,
    flag,
    integer,
    native_fields,
    next_fields,
    parse_seed,
    positive_integer,
)
from cpprb_impl.layout.options import EnvDict
from cpprb_impl.ring.hooks import check_option
from cpprb_impl.ring.object_transform import ObjectTransform
from cpprb_impl.ring.order import HINDSIGHT, OrderOfObjects, watch_order
from cpprb_impl.ring.own_random import OwnRandom
from cpprb_impl.ring.row_reader import RowReader

STRATEGIES = ("future", "episode", "random", "final")
MADE_HERE = ("rew", "goal")


# The effect of assigning to an attribute: check the value, raise once the buffer has been created, or just set it.
FIXED_HERE = frozenset({"state", "prioritized", "goal_shape"})
FREE_HERE = frozenset({"action", "next_state"})
IN_CPPRB = frozenset({"episode_rb"})


def _themselves(states: np.ndarray) -> np.ndarray:
    return states


def _strategy(value: Any) -> str:
    if value not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {value!r}")
    return str(value)


def _additional_goals(value: Any) -> int:
    goals = integer("additional_goals", value)
    if goals < 0:
        raise ValueError(f"additional_goals must not be negative, got {goals}")
    return goals


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {value!r}")
    return value


CHECKS: dict[str, Callable[[Any], Any]] = {
    "strategy": _strategy,
    "additional_goals": _additional_goals,
    "max_episode_len": partial(positive_integer, "max_episode_len"),
    "reward_func": partial(_function, "reward_func"),
    "goal_func": lambda function: _function("goal_func", function or _themselves),
}


class HindsightReplayBuffer(OwnRandom):
    """Buffer of transitions, each with a goal and the reward for that goal.

    The transitions of an episode are held back until `on_episode_end(goal)`. They are then stored once with that goal,
    and `additional_goals` times with goals derived from states that were reached. The buffer adds the fields "goal" and
    "rew" to those of `env_dict`.

    Parameters
    ----------
    size : int
        Capacity in stored transitions, copies included.
    env_dict : dict of dict
        The fields that `add` takes, as for `ReplayBuffer`, without "rew" and "goal".
    max_episode_len : int
        The largest number of transitions in an episode.
    reward_func : callable
        (next states (n, *shape), actions (n, *shape), goals (n, *goal_shape)) -> rewards (n,). Called once per
        episode, with the episode and all its copies concatenated. It must treat each row independently.
    goal_func : callable, optional
        (next states (n, *shape)) -> goals (n, *goal_shape). It must also treat each row independently. Default: the
        state itself is the goal.
    goal_shape : iterable of int, or int, optional
        Default: the state's shape.
    state, action, next_state : str
        Names of these fields.
    strategy : {"future", "episode", "random", "final"}
        Which next state becomes a goal. "future": that of this or a later step in the episode. "episode": that of any
        step in the episode. "random": that of any stored transition, including this episode's. "final": that of the
        episode's last step (then there is only one goal).
    additional_goals : int
        Number of goals, and therefore of copies, for each transition.
    prioritized : bool
        Store transitions in a `PrioritizedReplayBuffer` rather than a `ReplayBuffer`.
    seed : int, optional
        Makes the goals and sampling reproducible.
    **options
        Passed to that buffer's constructor.

    The attributes max_episode_len, reward_func, goal_func, action, next_state, strategy, additional_goals, rb and rng
    may be assigned to, with effect from the next call on. Other options are fixed: AttributeError.

    Raises
    ------
    ValueError, TypeError, OverflowError, KeyError
        If a strategy, number, name or option is invalid.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict,
        max_episode_len: int,
        reward_func: Callable[[np.ndarray, np.ndarray, np.ndarray], Any],
        *,
        goal_func: Callable[[np.ndarray], Any] | None = None,
        goal_shape: Iterable[int] | int | None = None,
        state: str = "obs",
        action: str = "act",
        next_state: str = "next_obs",
        strategy: str = "future",
        additional_goals: int = 4,
        prioritized: bool = True,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        for name in ("n_envs", "autoreset"):
            if options.get(name) not in (None, 1):
                raise ValueError(
                    f"{name} must not be given, got {options[name]!r}: HindsightReplayBuffer stores one episode at a "
                    "time: make one buffer per environment"
                )
        if options.get("sequences") is not None:
            raise ValueError(
                f"sequences must be None, got {options['sequences']!r}: HindsightReplayBuffer stores each step several "
                "times, with different goals"
            )
        self.strategy = strategy
        self.additional_goals = 1 if strategy == "final" else additional_goals
        self.max_episode_len = max_episode_len
        self.reward_func = reward_func
        self.goal_func: Any = goal_func
        self.state, self.action, self.next_state = state, action, next_state
        self.prioritized = flag("prioritized", prioritized)

        fields = native_fields(env_dict, options.get("default_dtype"))
        fields += next_fields(fields, field_names("next_of", options.get("next_of")))
        shapes = {name: shape for name, _, shape in fields}
        for name in MADE_HERE:
            if name in shapes:
                raise ValueError(f"env_dict must not contain {name!r}: the buffer adds that field")
        for option, name in (("state", state), ("action", action), ("next_state", next_state)):
            if name not in shapes:
                raise KeyError(f"{option} must name a field of env_dict, got {name!r}")
        goal = dict(env_dict[state])
        if goal_shape is not None:
            goal["shape"] = tuple(goal_shape) if hasattr(goal_shape, "__iter__") else goal_shape
        made = native_fields({"goal": goal, "rew": {}}, options.get("default_dtype"))
        _, self._goal_dtype, self.goal_shape = made[0]
        kind = PrioritizedReplayBuffer if self.prioritized else ReplayBuffer
        self.rb = kind(size, {**env_dict, "rew": {}, "goal": goal}, seed=seed, **options)
        pairs = [(state, next_state)]
        if isinstance(self.rb._transform, ObjectTransform):
            self.rb._transform.order = OrderOfObjects(fields, None, HINDSIGHT, pairs)
        else:
            watch_order(self.rb, fields, None, HINDSIGHT, starts=False, pairs=pairs)
        self._read = RowReader(fields)
        self._read_made = {field[0]: RowReader([field]) for field in made}
        self._episode: list[dict[str, np.ndarray]] = []  # the rows of each call of add
        self._waiting = 0
        self.rng = np.random.default_rng(parse_seed(seed))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CHECKS:
            value = CHECKS[name](value)
        elif name in FIXED_HERE and name in vars(self):
            raise AttributeError(f"{name} must be given when the buffer is created: it cannot be changed later")
        elif name not in FIXED_HERE | FREE_HERE:
            check_option(self, name, IN_CPPRB)
        super().__setattr__(name, value)

    def reseed(self, seed: int | None = None) -> None:
        """Reseed the generators that draw goals and samples, as in a buffer created with this `seed`.

        `seed` is an int from 0 to 2**64 - 1, or None for a seed from the operating system. For any other value, raises
        TypeError or ValueError and changes nothing.
        """
        super().reseed(seed)
        self.rb.reseed(seed)

    def add(self, **transition: Any) -> None:
        """Append one step to the episode, or many along axis 0.

        Raises ValueError if the episode would be longer than max_episode_len, and the exceptions of `ReplayBuffer.add`.
        A prioritized buffer raises ValueError for "priorities", since rows are stored only later, and with several
        goals. In each case nothing changes.
        """
        if self.prioritized and transition.get("priorities") is not None:
            raise ValueError("priorities must not be given to add: pass them to update_priorities after sample")
        rows = self._read(transition)
        count = len(rows[self.next_state])
        if self._waiting + count > self.max_episode_len:
            raise ValueError(
                f"an episode of {self._waiting + count} transitions exceeds max_episode_len, {self.max_episode_len}"
            )
        self._episode.append(rows)
        self._waiting += count

    def on_episode_end(self, goal: Any) -> None:
        """Store the pending episode and its copies; do nothing if there is none.

        `goal` is the goal that was pursued: (*goal_shape), or (steps, *goal_shape) for one goal per step, or anything
        that NumPy broadcasts to the latter. Raises ValueError if a goal or reward has the wrong shape, and the
        exceptions of `ReplayBuffer.add` for values that a field's dtype cannot hold. Exceptions from `reward_func` and
        `goal_func` propagate. In each case the episode remains pending.
        """
        if not self._episode:
            return
        steps = {name: np.concatenate([rows[name] for rows in self._episode]) for name in self._episode[0]}
        length, copies = self._waiting, 1 + (1 if self.strategy == "final" else self.additional_goals)
        goals = np.empty((copies, length, *self.goal_shape), self._goal_dtype)
        try:
            pursued = np.broadcast_to(array_of("goal", goal), goals[0].shape)
        except ValueError as error:
            raise ValueError(f"goal must have shape {self.goal_shape}, or that of {length} steps: {error}") from None
        goals[0] = self._as_added("goal", pursued)
        if copies > 1:
            reached = array_of("goal_func", self.goal_func(self._reached(steps[self.next_state])))
            reached = _rows("goal_func", reached, (copies - 1) * length, self.goal_shape)
            goals[1:] = self._as_added("goal", reached).reshape(goals[1:].shape)
        rewards = self.reward_func(
            np.concatenate([steps[self.next_state]] * copies),
            np.concatenate([steps[self.action]] * copies),
            goals.reshape(copies * length, *self.goal_shape),
        )
        rewards = _rows("reward_func", array_of("reward_func", rewards), copies * length, (1,))
        rewards = self._as_added("rew", rewards).reshape(copies, length)  # before the first copy is stored
        for copy in range(copies):
            self.rb.add(**steps, goal=goals[copy], rew=rewards[copy])
            # Each copy is a separate episode: nothing is summed or compressed across its end.
            self.rb.on_episode_end()
        self._forget_episode()

    def _as_added(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return goals or rewards in the dtype of their field, after the checks of `add`."""
        if name == "goal" and (values.dtype, values.shape[1:]) == (self._goal_dtype, self.goal_shape):
            return values  # states: avoid copying them, since they are as large as the episode and its copies
        return self._read_made[name]({name: values})[name]

    def _reached(self, next_states: np.ndarray) -> np.ndarray:
        """Return the states from which goals are derived, (additional_goals * length, *shape), copy by copy."""
        length = len(next_states)
        shape = (self.additional_goals, length)
        if self.strategy == "final":
            return np.repeat(next_states[-1:], length, axis=0)
        if self.strategy == "random":
            return self._reached_anywhere(next_states, self.additional_goals * length)
        earliest = np.arange(length) if self.strategy == "future" else 0
        states: np.ndarray = next_states[self.rng.integers(earliest, length, size=shape).ravel()]
        return states

    def _reached_anywhere(self, next_states: np.ndarray, count: int) -> np.ndarray:
        """Return `count` next states, drawn uniformly from those stored once the episode has been added."""
        size, length = self.rb.get_buffer_size(), len(next_states)
        after = min(size, self.rb.get_stored_size() + length)
        slots = self.rng.integers(after, size=count)
        # The number of the episode's row that each slot will hold; if it is beyond the episode's end, the slot is not
        # overwritten.
        row = (slots - self.rb.get_next_index()) % size
        row += np.maximum(0, (length - 1 - row) // size) * size  # the newest of the rows that share a slot
        old = row >= length
        states: np.ndarray = next_states[np.where(old, 0, row)]
        if old.any():
            states[old] = self.rb._encode_sample(slots[old])[self.next_state]
        return states

    def sample(self, batch_size: int, *args: Any, **options: Any) -> dict[str, np.ndarray]:
        """Return `batch_size` stored transitions, drawn by the underlying buffer, which receives all arguments.

        Transitions of the pending episode are not included. Raises ValueError if nothing is stored.
        """
        return self.rb.sample(batch_size, *args, **options)

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """Like `PrioritizedReplayBuffer.update_priorities`; raises ValueError without `prioritized`."""
        self._prioritized().update_priorities(indexes, priorities)

    def get_max_priority(self) -> float:
        """Like `PrioritizedReplayBuffer.get_max_priority`; raises ValueError without `prioritized`."""
        return self._prioritized().get_max_priority()

    def _prioritized(self) -> PrioritizedReplayBuffer:
        if not isinstance(self.rb, PrioritizedReplayBuffer):
            raise ValueError("the buffer has no priorities: it must be created with prioritized=True")
        return self.rb

    def get_all_transitions(self, shuffle: bool = False) -> dict[str, np.ndarray]:
        """Return every stored transition, in index order or shuffled, as a dict of new arrays (stored size, *shape)."""
        return self.rb.get_all_transitions(shuffle)

    def clear(self) -> None:
        """Remove every transition, including those of the pending episode."""
        self.rb.clear()
        self._forget_episode()

    def _forget_episode(self) -> None:
        self._episode, self._waiting = [], 0

    def get_stored_size(self) -> int:
        """Return the number of stored transitions, copies included."""
        return self.rb.get_stored_size()

    def get_buffer_size(self) -> int:
        """Return the capacity in transitions."""
        return self.rb.get_buffer_size()


def _rows(name: str, values: np.ndarray, count: int, shape: tuple[int, ...]) -> np.ndarray:
    if len(np.atleast_1d(values)) != count or values.size != count * np.prod(shape, dtype=np.int64):
        raise ValueError(f"{name} must return {count} rows of shape {shape}, got shape {values.shape}")
    return values
