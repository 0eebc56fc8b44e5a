"""The progress of a training run over several hosts: each process has a copy, which it synchronizes several times per
second."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from suites.apex_dqn.progress import Counters, Evaluation

EXCHANGE_SECONDS = 0.1
ANSWER_SECONDS = 5.0  # after which an exchange is repeated


@ray.remote(num_cpus=0)
class Board:
    """Stores the newest value of every word. Each word has one writer at a time."""

    def __init__(self) -> None:
        self.words: dict[Hashable, Any] = {}

    def exchange(self, changed: dict[Hashable, Any]) -> tuple[float, dict[Hashable, Any]]:
        """Store a process's changes; return this host's clock and all words."""
        self.words.update(changed)
        return time.monotonic(), self.words


class Copy:
    """A process's copy of the board."""

    def __init__(self, board: Any) -> None:
        self.board, self.words = board, {}  # type: Any, dict[Hashable, Any]
        self.ahead = 0.0  # seconds by which the board's clock is ahead of this host's
        self._changed: dict[Hashable, Any] = {}
        self._lock, self._end = threading.Lock(), threading.Event()
        self._exchange()
        self._thread = threading.Thread(target=self._exchange_until_the_end, daemon=True)
        self._thread.start()

    def set(self, name: Hashable, value: Any) -> None:
        with self._lock:
            self.words[name] = self._changed[name] = value

    def _exchange(self) -> None:
        with self._lock:
            sent, self._changed = self._changed, {}
        try:
            clock, words = ray.get(self.board.exchange.remote(sent), timeout=ANSWER_SECONDS)
        except (GetTimeoutError, RayError):  # the host is cut off: try again, with later changes too
            with self._lock:
                self._changed = sent | self._changed
            return
        with self._lock:
            self.words = words | self._changed
        self.ahead = clock - time.monotonic()

    def _exchange_until_the_end(self) -> None:
        while not self._end.wait(EXCHANGE_SECONDS):
            self._exchange()

    def close(self) -> None:
        """Exchange changes for the last time."""
        self._end.set()
        self._thread.join()
        self._exchange()


class ClusterValue:
    """A word, used like `multiprocessing.Value`."""

    def __init__(self, copy: Copy, name: Hashable, initial: Any) -> None:
        self._copy, self._name, self._initial = copy, name, initial

    @property
    def value(self) -> Any:
        return self._copy.words.get(self._name, self._initial)

    @value.setter
    def value(self, value: Any) -> None:
        self._copy.set(self._name, value)


class Words:
    """Words, used like `multiprocessing.Array`."""

    def __init__(self, copy: Copy, name: str, initial: Any, length: int) -> None:
        self._words = [ClusterValue(copy, (name, number), initial) for number in range(length)]

    def __getitem__(self, number: int) -> Any:
        return self._words[number].value

    def __setitem__(self, which: int | slice, value: Any) -> None:
        words, values = (self._words[which], value) if isinstance(which, slice) else ([self._words[which]], [value])
        for word, each in zip(words, values, strict=True):
            word.value = each

    def __iter__(self) -> Iterator[Any]:
        return (word.value for word in self._words)

    def __len__(self) -> int:
        return len(self._words)


class Evaluations:
    """The evaluations, with the interface of both ends of a `multiprocessing.Pipe`."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._received = copy, 0.0

    def send(self, evaluation: Evaluation) -> None:
        self._copy.set(("evaluation", evaluation.seconds), evaluation)

    def _new(self) -> list[Evaluation]:
        found = [each for each in [*self._copy.words.values()] if isinstance(each, Evaluation)]
        return sorted(each for each in found if each.seconds > self._received)

    def poll(self) -> bool:
        return bool(self._new())

    def recv(self) -> Evaluation:
        evaluation = self._new()[0]
        self._received = evaluation.seconds
        return evaluation


class ClusterProgress(Counters):
    """The same words as on one machine. A change reaches other processes after about `EXCHANGE_SECONDS`."""

    def __init__(self, board: Any, explorers: int) -> None:
        self.copy, self._explorers = Copy(board), explorers

        def word(name: str, initial: Any) -> Any:
            return ClusterValue(self.copy, name, initial)

        def words(name: str, initial: Any) -> Any:
            return Words(self.copy, name, initial, explorers)

        self.stop, self.pause, self.paused = word("stop", False), word("pause", 1), words("paused", 0)
        self.transitions, self.last_return = words("transitions", 0), words("last_return", 0.0)
        self.steps, self.error = word("steps", 0), word("error", 0.0)
        self.began, self.reason = word("began", self.now()), word("reason", b"")
        self.evaluations = self.evaluated = Evaluations(self.copy)  # type: ignore[assignment]
        self._pauses = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.copy.board, self._explorers)

    def now(self) -> float:
        return time.monotonic() + self.copy.ahead

    def close(self) -> None:
        with suppress(RayError):
            self.copy.close()
