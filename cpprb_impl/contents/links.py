"""The links between the transitions of a buffer with `sequences`, in files and copies.

A link consists of two numbers. The first says how many transitions back the previous one of the same stream is, and
whether the step is the first or the last of its episode; the second is the number of the step in its run. Private
buffers count transitions from the oldest. Shared buffers number them, and may have gaps: a file closes these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cpprb_impl.contents.held import NUMBERS, HeldSlots, Numbers
from cpprb_impl.ring.base import BufferBase

#: The bits of a link that say how far back the previous transition of the stream is; see `Ring._get_links`.
BACK = np.uint32(2**30 - 1)
FIRST = np.uint32(2**31)
MOST = 2**30  # steps of a run that were not loaded; together with as many that were, they fit into a shared link


def pieces(buffer: BufferBase, held: HeldSlots) -> Iterator[np.ndarray]:
    """Yield the links of all transitions, some at a time, as they are in a file.

    If the transition before one in its run is not stored, the distance to it is larger than that to the oldest one.
    """
    for at in range(0, len(held), NUMBERS):
        end = min(at + NUMBERS, len(held))
        if held.numbers is None:
            yield buffer._get_links(at, end)
            continue
        links = buffer._get_links_in(held[at:end])
        back = links[:, 0] & BACK
        place, found = _places(held.numbers, held.numbers[at:end] - back)
        nth, is_next = np.arange(at, end), found & (back > 0)
        distance = np.where(is_next, nth - place, np.where(links[:, 1] > 1, nth + 1, 0))
        links[:, 0] = links[:, 0] & ~BACK | distance.astype(np.uint32)
        yield links


def streams(buffer: BufferBase, given: np.ndarray, held: HeldSlots) -> np.ndarray:
    """Return what `Ring._get_streams` has returned, for a buffer in which the transitions `held` follow each other."""
    if held.numbers is None:
        return given
    place, found = _places(held.numbers, buffer._get_head() - given // 2)
    back: np.ndarray = np.where(found, len(held) - place, 0)
    return 2 * back + given % 2


def _places(numbers: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where in the sorted `numbers` each wanted one is, and whether it is there."""
    place = np.searchsorted(numbers, wanted)
    return place, place < np.searchsorted(numbers, wanted, "right")


def set_links(buffer: BufferBase, links: Numbers, first: int, end: int) -> None:
    """Link the newest transitions of a private buffer to each other, as links[first], ..., links[end - 1] specify."""
    before = buffer.get_stored_size() - end
    for at in range(first, end, NUMBERS):
        some = np.array(links[at : min(at + NUMBERS, end)])
        outside = (some[:, 0] & BACK) > np.arange(at - first, at - first + len(some))
        some[outside & (before + first > 0), 0] &= ~BACK  # their predecessors were not loaded
        buffer._set_links(before + at, some)


class SharedLinks:
    """The links with which links[first], ..., links[end - 1] of a file are stored in a shared buffer.

    Slices must be taken in order. Each step is counted on from the one before it, since a file of other `sequences`
    counts differently. `is_empty` says whether the buffer stores nothing else: a run whose first transitions are not
    loaded is then counted on from the number in the file, as in a private buffer, and otherwise begins anew.
    """

    def __init__(self, buffer: BufferBase, links: Numbers, first: int, end: int, *, is_empty: bool) -> None:
        self._links, self._first, self._is_empty = links, first, is_empty
        self._crosses = buffer._layout.options["sequences"]["ends"] == "cross"
        self._numbers = np.empty(end - first, np.uint32)  # of the steps in their runs

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        links = np.array(self._links[rows])
        at, end = rows.start - self._first, rows.start - self._first + len(links)
        back = (links[:, 0] & BACK).astype(np.int64)
        if not self._crosses:
            back[links[:, 0] >= FIRST] = 0
        place = np.arange(at, end)
        is_next = (back > 0) & (back <= place)
        is_cut = (back > place) & self._is_empty & (links[:, 1] <= MOST)
        number = np.where(is_next, 1, np.where(is_cut, links[:, 1], 1))
        # The number of a step is the sum along its run. Each round doubles how far the sums reach.
        before = np.where(is_next, place - back, -1)
        while (inside := before >= at).any():
            reached = before[inside] - at
            number[inside] += number[reached]
            before[inside] = before[reached]
        number[before >= 0] += self._numbers[before[before >= 0]]
        self._numbers[at:end] = number
        links[:, 0] = links[:, 0] & ~BACK | np.where(is_next, back, 0).astype(np.uint32)
        links[:, 1] = number
        return links
