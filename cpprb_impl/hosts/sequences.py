"""What learners and explorers on other hosts know of sequences: their columns, and the streams of steps that are sent.

A stream stays on its shard. The server that stores an explorer's steps links each to the previous one of its stream,
for as long as it gets every batch of that explorer. Otherwise the next steps begin new runs, so that no sequence has
steps from before and after a batch that was lost or sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cpprb_impl.hosts.wire import Column
from cpprb_impl.layout.layout import Layout


def length_of(sequences: Mapping[str, Any]) -> int:
    """Return the number of steps of a sequence, with its burn-in. `sequences` is the option of the layout."""
    return int(sequences["size"] + sequences["burn_in"])


def columns_of_sequences(columns: Iterable[Column], sequences: Mapping[str, Any]) -> list[Column]:
    """Describe the arrays of a batch of sequences of rows with these columns, as `sample_sequences` returns them."""
    length, state = length_of(sequences), sequences["state"]
    found = [(name, dtype, shape if name in state else (length, *shape)) for name, dtype, shape in columns]
    found.append(("is_first", "|b1", (length,)))
    if sequences["ends"] == "pad" or (sequences["burn_in"] and not state):
        found += [("mask", "|b1", (length,)), ("lengths", "<i8", ())]
    return found


class Streams:
    """Finds the stream of each step that an explorer sends, and whether the step is the first of its episode.

    Parameters
    ----------
    layout : Layout
        The shards' layout, with sequences.
    """

    def __init__(self, layout: Layout) -> None:
        self._done = layout.options["sequences"]["done"]
        self._n_envs = layout.n_envs
        self.field = "stream"  # of the staged steps; no name of the user's
        while any(self.field == name for name, _, _ in layout.added):
            self.field += "_"

    def staged(self, layout: Layout) -> Layout:
        """Return the layout of the explorer's staged steps, which have their streams as a field."""
        options = {name: value for name, value in layout.options.items() if name != "sequences"}
        return replace(layout, fields=[*layout.fields, (self.field, np.dtype(np.int64), ())], options=options)

    def of_call(self, env_ids: Any, rows: int) -> np.ndarray:
        """Return the streams of the `rows` steps of a call of `add`, or of all environments if `env_ids` is a mask."""
        if env_ids is None:
            return np.arange(rows) % self._n_envs
        given = np.asarray(env_ids)
        if given.dtype == bool:
            return np.arange(self._n_envs)
        return given if given.size == rows else np.zeros(rows)  # `add` reports the error

    def words(self, steps: Mapping[str, np.ndarray], begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a word for each staged step: its stream, times 2, plus 1 if it is the first of its episode.

        `begins` says for each stream whether its next step begins an episode. It is also returned for the time after
        these steps.
        """
        streams = steps[self.field].ravel()
        ended = np.zeros(len(streams), bool)
        for name in self._done:
            ended |= steps[name].ravel() != 0
        order = np.argsort(streams, kind="stable")
        of_one = streams[order]
        is_oldest = np.diff(of_one, prepend=-1) != 0
        firsts = np.empty(len(streams), bool)
        firsts[order] = np.where(is_oldest, begins[of_one], np.roll(ended[order], 1))
        after, newest = begins.copy(), np.roll(is_oldest, -1)
        after[of_one[newest]] = ended[order][newest]
        return (2 * streams + firsts).astype("<u4"), after
