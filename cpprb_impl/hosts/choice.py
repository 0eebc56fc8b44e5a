"""The choice of whether the messages of a link are compressed: see `Choice`."""

from __future__ import annotations

from statistics import median

WINDOWS = 3  # of each kind, which are compared
SETTLING = 1  # replies at the start of a window, which may have waited for messages of the other kind
REPLIES, SECONDS = 2, 0.02  # at least so many in a window, and at least so long
GAIN = 0.9  # compressed messages must take at most this share of the time that others take
CLEAR = 2.0  # a ratio of seconds per row that needs no more than one window of each kind
CHANGED = 2.0  # a ratio of seconds per row to those when the choice was made, which ends a rest early
REST = 50  # how much longer than a comparison no other follows


class Choice:
    """Whether the messages of one link are compressed, which is measured again now and then.

    Short windows of both kinds alternate, and their seconds per row are compared. If compressed messages are clearly
    faster, they are used from then on, otherwise the others. Comparisons take about 2% of the time.

    A learner that trains for longer than messages take waits for neither kind, and learns nothing by comparing them.
    Therefore another comparison follows early if the pace changes: after a rest as long as the last comparison, and
    twice as long each time that the choice stays as it was.
    """

    def __init__(self, allowed: bool = True) -> None:
        self.packed = False  # whether the next message is to be compressed
        self._early = self._late = (
            0.0 if allowed else float("inf")
        )  # when the next comparison may begin, and when it must
        self._patience = 1.0  # a rest that may end early, in durations of a comparison
        self._pace = 0.0  # seconds per row of the kind that was chosen
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
        if len(self._windows) == 2 * WINDOWS or (len(self._windows) == 2 and _ratio(*self._windows) > CLEAR):
            self._decide(now)

    def _decide(self, now: float) -> None:
        used, other = median(self._windows[::2]), median(self._windows[1::2])
        before = self.packed
        self.packed = used < GAIN * other if before else other < GAIN * used
        self._pace = used if self.packed == before else other
        took, self._windows = now - self._started, []
        self._early, self._late = now + self._patience * took, now + REST * took
        self._patience = min(2 * self._patience, REST) if self.packed == before else 1.0


def _ratio(a: float, b: float) -> float:
    return max(a, b) / min(a, b)
