"""cpprb's legacy buffer, whose episodes can be read and deleted one by one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpprb_impl.buffers.single import ReplayBuffer
from cpprb_impl.layout.fields import flag, native_fields, positive_integer
from cpprb_impl.layout.siblings import ignore_siblings
from cpprb_impl.ring.hooks import IN_SELECTIVE, check_option, refuse
from cpprb_impl.ring.row_reader import RowReader


def _as_array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name}: {error}") from None


class SelectiveReplayBuffer:
    """Buffer of whole episodes, with five fixed fields of float64: obs, act, rew, next_obs and done.

    There is room for `episode_len * Nepisodes` transitions, in any number of episodes. Nothing is overwritten: when the
    buffer is full, `add` drops new transitions until `delete_episode` makes room.

    Parameters
    ----------
    episode_len : int
        Expected length of an episode, in transitions.
    obs_dim, act_dim, rew_dim : int
        Numbers of elements in obs (and next_obs), act and rew.
    Nepisodes : int
        Expected number of episodes.
    is_discrete_action : bool
        Store act as int64 instead of float64.
    obs_shape : sequence of int, optional
        Shape of obs and next_obs, used instead of `obs_dim`.
    seed : int, optional
        Makes sampling reproducible.
    **others
        As for `ReplayBuffer`.

    Raises
    ------
    TypeError, ValueError
        If a size or shape is invalid.
    """

    def __init__(
        self,
        episode_len: int,
        obs_dim: int = 1,
        act_dim: int = 1,
        *,
        Nepisodes: int = 10,  # noqa: N803 - cpprb's own name
        rew_dim: int = 1,
        is_discrete_action: bool = False,
        obs_shape: Sequence[int] | None = None,
        seed: int | None = None,
        **others: Any,
    ) -> None:
        ignore_siblings(type(self).__name__, others)
        refuse(type(self), SelectiveReplayBuffer, IN_SELECTIVE)
        self._obs_shape = None if obs_shape is None else tuple(operator.index(length) for length in obs_shape)
        is_discrete = flag("is_discrete_action", is_discrete_action)
        obs = {"shape": obs_dim if self._obs_shape is None else self._obs_shape}
        fields: dict[str, dict[str, Any]] = {
            "obs": obs,
            "act": {"shape": act_dim, "dtype": np.int64 if is_discrete else np.float64},
            "rew": {"shape": rew_dim},
            "next_obs": obs,
            "done": {},
        }
        self._read = RowReader(native_fields(fields, np.float64))  # reads batches that do not fit into the ring
        # This native ring, which never wraps, reads all other batches and draws the samples.
        self._ring = ReplayBuffer(
            positive_integer("episode_len", episode_len) * positive_integer("Nepisodes", Nepisodes),
            fields,
            default_dtype=np.float64,
            seed=seed,
        )
        self._shapes = {name: column.shape[1:] for name, column in self._ring.get_all_transitions().items()}
        self._ends: list[int] = []  # end of each finished episode: index of the transition after it

    def __setattr__(self, name: str, value: Any) -> None:
        check_option(self, name)
        super().__setattr__(name, value)

    def add(self, obs: Any, act: Any, rew: Any, next_obs: Any, done: Any) -> int:
        """Store one transition, or many along axis 0; return the first one's index.

        `done` is nonzero at the last transition of an episode, which may be anywhere in a batch. Transitions that do
        not fit into the buffer are dropped; if the buffer is already full, the result is `get_buffer_size()`.

        Raises ValueError or TypeError naming the invalid field; the buffer is then unchanged.
        """
        row = {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done}
        first, count = self.get_stored_size(), _as_array("done", done).size
        room = self.get_buffer_size() - first
        if count > room:
            row = {name: column[:room] for name, column in self._read(row).items()}
        if room:
            self._ring.add(**row)
            ended = np.flatnonzero(np.asarray(row["done"]).ravel())
            self._ends.extend((first + 1 + ended).tolist())
        return first

    def reseed(self, seed: int | None = None) -> None:
        """Reseed the generator that draws samples, as in a buffer created with this `seed`.

        None takes a seed from the system.
        """
        self._ring.reseed(seed)

    def sample(self, batch_size: int) -> dict[str, np.ndarray]:
        """Return `batch_size` transitions, drawn uniformly with replacement: a dict of new arrays (batch_size, *shape).

        Raises ValueError if the buffer is empty.
        """
        if type(self)._encode_sample is SelectiveReplayBuffer._encode_sample:
            return self._ring.sample(batch_size)
        return self._encode_sample(self._ring.sample_indexes(batch_size))

    def get_episode(self, i: int) -> dict[str, np.ndarray]:
        """Return episode `i`, counted from 0, as a dict of new arrays (length, *shape), with 0 rows if there is none.

        The last episode may be unfinished. Raises IndexError for a negative `i`.
        """
        return self._ring._encode_sample(np.arange(*self._bounds(i)))

    def delete_episode(self, i: int) -> int:
        """Remove episode `i`, counted from 0; return the number of removed transitions, 0 if there is no such episode.

        Later episodes move up by one. Raises IndexError for a negative `i`.
        """
        start, stop = self._bounds(i)
        removed = stop - start
        if removed:
            stored = self.get_stored_size()
            kept = self._ring._encode_sample(np.r_[0:start, stop:stored])
            self._ring.clear()
            if stored > removed:
                self._ring.add(**kept)
            self._ends = [end if end <= start else end - removed for end in self._ends if end != stop]
        return removed

    def _bounds(self, i: int) -> tuple[int, int]:
        """Return the start and the (exclusive) end of episode `i`, which are equal if there is no such episode."""
        number = operator.index(i)
        if number < 0:
            raise IndexError(f"episode must be at least 0, got {i}")
        edges = [0, *self._ends, self.get_stored_size()]
        return (edges[number], edges[number + 1]) if number + 1 < len(edges) else (0, 0)

    def get_stored_episode_size(self) -> int:
        """Return the number of stored episodes, including an unfinished one."""
        return len(self._ends) + ((self._ends[-1] if self._ends else 0) < self.get_stored_size())

    def clear(self) -> None:
        """Remove every transition and episode."""
        self._ring.clear()
        self._ends = []

    def get_stored_size(self) -> int:
        """Return the number of stored transitions."""
        return self._ring.get_stored_size()

    def get_next_index(self) -> int:
        """Return the next transition's index: the number of stored transitions, since the ring never wraps."""
        return self._ring.get_stored_size()

    def get_buffer_size(self) -> int:
        """Return the capacity in transitions."""
        return self._ring.get_buffer_size()

    def get_obs_shape(self) -> tuple[int, ...] | None:
        """Return `obs_shape` as passed to the constructor."""
        return self._obs_shape

    def get_obs_dim(self) -> int:
        """Return the number of elements in obs."""
        return int(np.prod(self._shapes["obs"], dtype=np.int64))

    def get_act_dim(self) -> int:
        """Return the number of elements in act."""
        return self._shapes["act"][0]

    def get_rew_dim(self) -> int:
        """Return the number of elements in rew."""
        return self._shapes["rew"][0]

    def _encode_sample(self, indexes: Any) -> dict[str, np.ndarray]:
        """Return the transitions at `indexes` as a dict of new arrays, without the first axis if `indexes` is one int.

        Raises IndexError if no transition is stored at an index.
        """
        rows = self._ring._encode_sample(indexes)
        return {name: column[0] for name, column in rows.items()} if np.ndim(indexes) == 0 else rows
