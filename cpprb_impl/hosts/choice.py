"""The choice of whether the messages of a link are compressed: see `Choice`."""

from __future__ import annotations

from statistics import median

WINDOWS = 3  # of each kind, which are compared
SETTLING = 2  # replies at the start of a window, which may have waited for messages of the other kind
REPLIES, SECONDS = 4, 0.02  # at least so many in a window, and at least so long
GAIN = 0.9  # compressed messages must take at most this share of the time that others take
REST = 50  # how much longer than a comparison no other follows


class Choice:
    """Whether the messages of one link are compressed, which is measured again now and then.

    Short windows of both kinds alternate, and their seconds per row are compared. If compressed messages are clearly
    faster, they are used from then on, otherwise the others. Comparisons take about 2% of the time.
    """

    def __init__(self, allowed: bool = True) -> None:
        self.packed = False  # whether the next message is to be compressed
        self._rest_until = 0.0 if allowed else float("inf")
        self._last = 0.0  # when the last reply came
        self._started = 0.0
        self._windows: list[float] = []  # seconds per row; those of the kind that is used otherwise come first
        self._begin_window()

    def _begin_window(self) -> None:
        self._replies = self._rows = 0
        self._seconds = 0.0

    def took(self, packed: bool, rows: int, sent: float, now: float) -> None:
        """Note that a message of so many rows was sent at the time `sent`, and that its reply came `now`."""
        # While messages queue, each takes the time since the reply to the one before it.
        start, self._last = max(sent, self._last), now
        if now < self._rest_until or packed != self.packed:
            return
        self._started = self._started or start
        self._replies += 1
        if self._replies <= SETTLING:
            return
        self._rows += rows
        self._seconds += now - start
        if self._replies < SETTLING + REPLIES or self._seconds < SECONDS:
            return
        self._windows.append(self._seconds / self._rows)
        self._begin_window()
        self.packed = not self.packed
        if len(self._windows) == 2 * WINDOWS:
            self._decide(now)

    def _decide(self, now: float) -> None:
        used, other = median(self._windows[::2]), median(self._windows[1::2])
        self.packed = used < GAIN * other if self.packed else other < GAIN * used
        self._rest_until = now + REST * (now - self._started)
        self._windows, self._started = [], 0.0
