"""Choosing whether a link's messages are compressed: see `CompressionChoice`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

WINDOWS = 3  # windows of each kind that are compared
SETTLING = 1  # replies ignored when a window starts, since they may have waited for messages of the other kind
REPLIES, SECONDS = 2, 0.02  # minimum number and duration of a window's replies
GAIN = 0.9  # compressed messages must take at most this share of the uncompressed messages' time
CLEAR = {1: 10.0, 2: 2.0}  # by windows per kind: if every pair's ratio exceeds this, the choice is made early
CHANGED = 2.0  # if seconds per row change by this factor after a choice, the rest ends early
REST = 50  # longest pause between comparisons, as a multiple of a comparison's duration


class CompressionChoice:
    """Decides whether the messages of one link are compressed, measuring again from time to time.

    Short windows of both kinds alternate, and their seconds per row are compared. If compressed messages are clearly
    faster, they are used from then on, otherwise uncompressed ones. Comparisons take about 2% of the time.

    Only the seconds that the link's user spends in calls count: compressing, waiting and receiving. Otherwise, a
    learner that pauses, or trains for longer than messages take, would measure its own pace rather than the link's. If
    the learner begins to wait, the pace changes, and the next comparison takes place early: after a rest that is as
    long as the last comparison, and is doubled each time the choice remains the same.
    """

    def __init__(self, allowed: bool = True) -> None:
        self.packed = False  # whether the next message is to be compressed
        # When the next comparison may begin, and when it must.
        self._early = self._late = 0.0 if allowed else float("inf")
        self._patience = 1.0  # shortest rest, as a multiple of a comparison's duration
        self._pace = 0.0  # seconds per row with the kind that was chosen
        self._last = 0.0  # when the last reply arrived
        self._started = 0.0
        self._windows: list[float] = []  # seconds per row; the kinds alternate, starting with the one in use
        self._begin_window()

    def _begin_window(self) -> None:
        self._replies = self._rows = 0
        self._seconds = 0.0

    def took(self, packed: bool, rows: int, sent: float, now: float) -> None:
        """Record the reply to a message of `rows` rows; `sent` and `now` are measured in seconds spent in calls."""
        # While messages are queued, each of them takes the time since the previous reply.
        start, self._last = max(sent, self._last), now
        if now < self._early or packed != self.packed:
            return
        if not self._windows and not self._replies:
            self._started = start
        self._replies += 1
        if self._replies <= SETTLING:
            return
        self._rows += rows
        self._seconds += now - start
        if self._replies < SETTLING + REPLIES or self._seconds < SECONDS:
            return
        pace = self._seconds / self._rows
        self._begin_window()
        if self._windows or now >= self._late or _ratio(pace, self._pace) > CHANGED:
            self._compare(pace, now)

    def _compare(self, pace: float, now: float) -> None:
        self._windows.append(pace)
        self.packed = not self.packed
        if len(self._windows) == 2 * WINDOWS or self._is_clear():
            self._decide(now)

    def _is_clear(self) -> bool:
        used, other = self._windows[::2], self._windows[1::2]
        enough = CLEAR.get(len(used), float("inf"))
        return len(used) == len(other) and (min(used) > enough * max(other) or min(other) > enough * max(used))

    def _decide(self, now: float) -> None:
        used, other = median(self._windows[::2]), median(self._windows[1::2])
        before = self.packed
        self.packed = used < GAIN * other if before else other < GAIN * used
        self._pace = used if self.packed == before else other
        took, self._windows = now - self._started, []
        self._early, self._late = now + self._patience * took, now + REST * took
        self._patience = min(2 * self._patience, REST) if self.packed == before else 1.0


class LapTimes:
    """Accumulated seconds spent in some parts of a program."""

    def __init__(self) -> None:
        self._earlier = 0.0
        self._began: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._earlier, self._began = self.seconds, None

    @property
    def seconds(self) -> float:
        """The time so far, including an unfinished block."""
        return self._earlier if self._began is None else self._earlier + time.monotonic() - self._began


def _ratio(a: float, b: float) -> float:
    return max(a, b) / min(a, b)
