"""A model of `sequences`: all sequences that can be drawn, found by searching every episode from its beginning."""

from __future__ import annotations

from dataclasses import dataclass, field

PADDED = -1


@dataclass
class SequenceModel:
    """Numbered steps, and the sequences that consist only of the newest `capacity` steps."""

    capacity: int
    streams: int
    size: int
    burn_in: int = 0
    period: int = 1
    ends: str = "stop"
    from_state: bool = False
    added: int = 0
    oldest: int = 0
    # For each stream: its episodes, each as its steps and whether it has ended.
    episodes: list[list[tuple[list[int], bool]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clear()

    def add(self, stream: int, *, is_last: bool) -> int:
        """Add a step and return its number."""
        episodes = self.episodes[stream]
        if not episodes or episodes[-1][1]:
            episodes.append(([], False))
        steps, _ = episodes[-1]
        steps.append(self.added)
        episodes[-1] = (steps, is_last)
        self.added += 1
        self.oldest = max(self.oldest, self.added - self.capacity)
        return self.added - 1

    def end_episodes(self) -> None:
        for episodes in self.episodes:
            if episodes:
                episodes[-1] = (episodes[-1][0], True)

    def clear(self) -> None:
        self.oldest = self.added
        self.episodes = [[] for _ in range(self.streams)]

    def sequences(self) -> set[tuple[int, ...]]:
        """Return every sequence that can be drawn: the numbers of its steps, `PADDED` where there is none."""
        found = set()
        for episodes in self.episodes:
            runs = episodes
            if self.ends == "cross":
                runs = [([step for steps, _ in episodes for step in steps], False)]
            for steps, has_ended in runs:
                found |= set(self._of(steps, has_ended))
        return {each for each in found if all(step == PADDED or step >= self.oldest for step in each)}

    def whole_episodes(self) -> set[tuple[int, ...]]:
        """Return every episode that has ended, and whose steps are all stored."""
        ended = (steps for episodes in self.episodes for steps, has_ended in episodes if has_ended)
        return {tuple(steps) for steps in ended if steps[0] >= self.oldest}

    def _of(self, steps: list[int], has_ended: bool) -> list[tuple[int, ...]]:
        first_to_learn = self.burn_in if self.from_state else 0
        starts = [start for start in range(first_to_learn, len(steps), self.period) if start + self.size <= len(steps)]
        if has_ended and not (starts and starts[-1] + self.size == len(steps)):
            following = starts[-1] + self.period if starts else first_to_learn
            if self.ends == "pad" and following < len(steps):
                starts.append(following)
            elif self.ends == "stop" and not self.from_state and len(steps) >= self.size:
                starts.append(len(steps) - self.size)
        found = []
        for start in starts:
            begin = start - self.burn_in
            own = steps[max(begin, 0) : start + self.size]
            before = [PADDED] * max(-begin, 0)
            found.append(tuple(before + own + [PADDED] * (self.burn_in + self.size - len(before) - len(own))))
        return found
