"""Probes of processes that use one buffer: forked explorers add rows that show which fields belong together, and which
explorer added them, while a learner samples; some are killed."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adapters.behaviours import FAULT, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.children import HANGS, Child
from suites.check.probes.probing import Seen, times
from suites.check.probes.tracked import (
    COVERAGE,
    DONE,
    MIXED,
    UNWRITTEN,
    Tracked,
    WrongRows,
    certified,
    drawn,
    filled,
    kinds,
    step,
    worst,
)
from suites.check.reproduction import added
from suites.check.subject import Subject

CAPACITY, SIZE = 64, 16
EACH = 1_000_000  # the rows of explorer e have numbers from e * EACH + 1 on; float32 has 16 such ranges
FEWEST, MOST_EXPLORERS = 2, 8
FEW = 150  # rows of each explorer, none of which is overwritten
SECONDS, MOST_SECONDS = 0.5, 4.0  # of each kind of buffer; it ends between them after ENOUGH batches
ENOUGH = 3_000
KILLS = 25
PAUSE = 0.005, 0.04  # least and most seconds before a kill
LOOK_SECONDS = 0.002
STARVED = 4  # times the patience, after which a process without a call counts as waiting forever


class Together(Behaviour):
    """What a learner samples while other processes add."""

    WHOLE = "whole rows"
    RAISES = "raises", FAULT
    HANGS = "hangs", FAULT
    UNWRITTEN = "unwritten rows", FAULT
    TORN = "torn rows", FAULT


class Arrivals(Behaviour):
    """Which rows of several processes are stored, none of which was overwritten."""

    ALL = "all rows"
    RAISES = "raises", FAULT
    HANGS = "hangs", FAULT
    COUNT = "another number of rows", FAULT
    LOST = "lost rows", FAULT
    WRONG = "wrong rows", FAULT
    NONE = "none of the other processes' rows", FAULT


class AfterKill(Behaviour):
    """What a learner and explorers do after SIGKILL ended an explorer within its calls."""

    GO_ON = "go on"
    RAISE = "raise", FAULT
    WAIT = "wait forever", FAULT


class Scene:
    """A buffer, its explorers and its learner.

    Explorer 0 is this process, which has added the first rows; the others, and the learner, are forked. `begun`
    (explorers,), `batches` (1,) and `stop` (1,) are int64 counters in memory that all of them share.
    """

    def __init__(self, subject: Subject, capacity: int, rows: int, **asked: Any) -> None:
        self.buffer, self.seed = Tracked(subject, capacity, **asked), subject.setting.seed
        self.buffer.add(rows)
        self.count = min(subject.processes, MOST_EXPLORERS)
        #: Rows that explorer e has begun to add, after those of the explorers before it; the learner's batches; whether
        #: to stop.
        self.begun, self.batches, self.stop = np.split(
            np.frombuffer(mmap.mmap(-1, 8 * (self.count + 2)), np.int64), [self.count, self.count + 1]
        )
        self.begun[0] = rows  # this process is explorer 0
        self.explorers: dict[int, Child] = {}
        self.learner: Child | None = None

    def explore(self, explorer: int, rows: int = EACH - 1) -> None:
        """Fork the explorer of this number, or its successor, which ends once both have begun to add `rows` rows."""

        def work() -> None:
            while not self.stop[0] and self.begun[explorer] < rows:
                self.begun[explorer] += 1
                self.buffer.buffer.add(**step(explorer * EACH + int(self.begun[explorer])))

        self.explorers[explorer] = Child(work, self.seed + explorer)

    def learn(self) -> None:
        def work() -> tuple[str, str] | None:
            """Return the first wrong row."""
            wrong = None
            while not self.stop[0]:
                batch = self.buffer.batch(SIZE)
                self.batches[0] += 1
                try:
                    self.check(certified(batch))
                except WrongRows as error:
                    wrong = wrong or (error.kind, str(error))
            return wrong

        self.learner = Child(work, self.seed)

    def check(self, numbers: np.ndarray) -> None:
        """Raise `WrongRows` if a number of a sampled row, (rows,) floats, is none that an explorer has begun to add:
        explorer * EACH + a count from 1 to `begun[explorer]`."""
        explorer, number = np.divmod(numbers, EACH)
        known = (explorer >= 0) & (explorer < self.count) & (number >= 1) & (numbers % 1 == 0)
        known &= number <= self.begun[np.where(known, explorer, 0).astype(int)]
        if not known.all():
            raise WrongRows(UNWRITTEN, f"a row was drawn that was never added: its obs is {numbers[~known][0]:g}")

    def moves(self, patience: float) -> bool:
        """Wait until the learner and every explorer have begun another call, and return True; also once any of them has
        ended. Return False after `patience` seconds without a call of any process, or `STARVED` times as many seconds
        without a call of one of them, as some locks are unfair."""
        before = last = self._calls()
        began = moved = time.monotonic()
        while (last == before).any() and not any(child.has_ended for _, child in self._children):
            time.sleep(LOOK_SECONDS)
            calls, now = self._calls(), time.monotonic()
            if (calls != last).any():
                last, moved = calls, now
            if now - moved > patience or now - began > STARVED * patience:
                return False
        return True

    @property
    def _children(self) -> list[tuple[str, Child]]:
        explorers = [(f"explorer {number}", child) for number, child in self.explorers.items()]
        return [*explorers, *([("the learner", self.learner)] if self.learner else [])]

    def _calls(self) -> np.ndarray:
        return np.append(self.begun[list(self.explorers)], self.batches)

    def ended(self, patience: float) -> tuple[str, str]:
        """Stop all processes, waiting `patience` seconds for each. Return what went wrong first, the kind of a
        `WrongRows` or the answer of a `Child`, and a text that says where; two empty strings if nothing did."""
        self.stop[0] = 1
        for name, answer in [(name, child.answer(patience)) for name, child in self._children]:
            if answer is not None:
                return answer if isinstance(answer, tuple) else (answer, f"{name}: {answer}")
        return "", ""


def _of_processes(subject: Subject, see: Callable[[Scene], tuple[Any, str]], capacity: int, rows: int) -> Any:
    """Yield the name of each kind of buffer, its options, and the word and text for what `see` saw in its scene, of
    `rows` rows at first. Raises `NotApplicable`."""
    if subject.processes < FEWEST:
        raise NotApplicable(f"the buffer claims no use by several processes; PROCESSES={FEWEST} or more asks for it")
    if not subject.functions.source:
        raise NotApplicable("`make bench SUITES=integrity` checks the processes of this project's peers")
    for kind, asked in kinds(subject).items():
        word, about = see(Scene(subject, capacity, rows, **asked))
        yield kind, asked, word, f"{kind}: {about}"


def torn(subject: Subject) -> dict[str, Seen]:
    """Explorers add while a learner samples."""
    batches, long = [], times(subject.setting)

    def see(scene: Scene) -> tuple[Together, str]:
        for explorer in range(1, scene.count):
            scene.explore(explorer)
        scene.learn()
        began = time.monotonic()
        enough, most = began + SECONDS * long, began + MOST_SECONDS * long
        while (now := time.monotonic()) < most and (now < enough or scene.batches[0] < ENOUGH * long):
            time.sleep(LOOK_SECONDS)
        wrong, about = scene.ended(subject.setting.patience)
        batches.append(int(scene.batches[0]))
        rows = int(scene.begun.sum())
        counted = f"{batches[-1]:,} batches beside {scene.count - 1} processes that added {rows:,} rows"
        word = {UNWRITTEN: Together.UNWRITTEN, MIXED: Together.TORN}.get(wrong)
        word = word or _word(wrong, Together.WHOLE, Together.RAISES, Together.HANGS)
        return word, f"{counted}; {about}" if about else counted

    found = [
        (word, about, _torn_script(subject, asked))
        for _, asked, word, about in _of_processes(subject, see, CAPACITY, CAPACITY)
    ]
    return {"processes": worst(found, "", sum(batches), Together)}


def arrive(subject: Subject) -> dict[str, Seen]:
    """Each process adds a few rows, which must all be there afterwards."""
    few = FEW * times(subject.setting)
    total = few * min(subject.processes, MOST_EXPLORERS)

    def see(scene: Scene) -> tuple[Arrivals, str]:
        for explorer in range(1, scene.count):
            scene.explore(explorer, few)
        patience = subject.setting.patience * times(subject.setting)
        for explorer, child in scene.explorers.items():
            if (answer := child.answer(patience)) is not None:
                word = Arrivals.HANGS if answer == HANGS else Arrivals.RAISES
                return word, f"explorer {explorer}: {answer}"
        buffer = scene.buffer
        numbers: set[float] = set()
        try:
            for _ in range(_batches(total)):
                numbers |= {*certified(buffer.batch(SIZE)).tolist()}
        except WrongRows as error:
            return Arrivals.WRONG, str(error)
        about = f"{len(numbers)} of the {total} rows that {scene.count} processes added are drawn"
        if not any(number > EACH for number in numbers):
            return Arrivals.NONE, about
        if len(numbers) != total:
            return Arrivals.LOST, about
        if subject.functions.has("size") and len(buffer.buffer) != total:
            return Arrivals.COUNT, f"{about}; the size is {len(buffer.buffer)}"
        return Arrivals.ALL, about

    found = [
        (word, about, _arrival_script(subject, asked, few, total))
        for _, asked, word, about in _of_processes(subject, see, 2 * total, few)
    ]
    return {"arrivals": worst(found, found[-1][1], len(found) * total, Arrivals)}


def kill(subject: Subject) -> dict[str, Seen]:
    """Explorers are killed one after the other, and replaced."""
    kills: list[int] = []
    most = KILLS * times(subject.setting)
    rows: list[tuple[Together, str, Sequence[str]]] = []

    def see(scene: Scene) -> tuple[AfterKill, str]:
        random, patience = np.random.default_rng(scene.seed), subject.setting.patience
        for explorer in range(1, scene.count):
            scene.explore(explorer)
        scene.learn()
        for number in range(1, most + 1):
            time.sleep(random.uniform(*PAUSE))
            victim = int(random.integers(1, scene.count))
            scene.explorers.pop(victim).kill()
            kills.append(number)
            if not scene.moves(patience):
                scene.ended(0.1)
                _waiting.append(scene)
                return AfterKill.WAIT, f"no call returned for {patience:g} s after {number} kills"
            scene.explore(victim)
        wrong, about = scene.ended(patience)
        if wrong in (UNWRITTEN, MIXED):
            word = Together.UNWRITTEN if wrong == UNWRITTEN else Together.TORN
            rows.append((word, f"after kills: {about}", _kill_script(subject, scene.buffer.asked)))
            wrong, about = "", ""
        return _word(wrong, AfterKill.GO_ON, AfterKill.RAISE, AfterKill.WAIT), about or f"{most} kills"

    found = [
        (word, about, _kill_script(subject, asked))
        for _, asked, word, about in _of_processes(subject, see, CAPACITY, CAPACITY)
    ]
    return {
        "killed": worst(found, found[-1][1], len(kills), AfterKill),
        "killed_rows": worst(rows or [(Together.WHOLE, "", [])], f"{len(kills)} kills", len(kills), Together),
    }


#: Scenes of which a process waits forever: kept, because the destructors of their buffers may wait, too.
_waiting: list[Scene] = []


def _word(wrong: str, sound: Any, raised: Any, hung: Any) -> Any:
    return {"": sound, HANGS: hung}.get(wrong, raised)


def _explorer(subject: Subject, rows: int) -> str:
    row = added(subject, done=DONE, terminated=DONE)
    return f"def explorer(e):\n    for i in range(e * {EACH} + 1, e * {EACH} + {rows + 1}): {row}\n    os._exit(0)"


def _torn_script(subject: Subject, asked: Mapping[str, Any]) -> Sequence[str]:
    lines = [
        "import os, time",
        *filled(subject, CAPACITY, CAPACITY, **asked),
        _explorer(subject, EACH - 1),
        f"kids, end, ok = [os.fork() or explorer(e) for e in range(1, {subject.processes})], time.time() + 9, True",
        'def whole(x): r = np.ravel(x["rew"]); return (r == np.asarray(x["obs"])[:, 0]).all() and (r > 0).all()',
        f"while ok and time.time() < end: x = sample(b, {SIZE}); ok = whole(x)",
        "[os.kill(k, 9) for k in kids]; assert ok, x",
    ]
    return "\n".join(lines).split("\n")


def _batches(rows: int) -> int:
    """Return after how many batches each row has been drawn."""
    return int(rows * (np.log(rows) + COVERAGE)) // SIZE + 1


def _arrival_script(subject: Subject, asked: Mapping[str, Any], few: int, total: int) -> Sequence[str]:
    lines = [
        "import os",
        *filled(subject, 2 * total, few, **asked),
        _explorer(subject, few),
        f"for e in range(1, {total // few}): os.fork() or explorer(e)",
        f"for e in range(1, {total // few}): os.wait()",
        f"n = np.unique({drawn(SIZE, _batches(total))}); assert len(n) == {total}, len(n)",
        *([f"assert size(b) == {total}, size(b)"] if subject.functions.has("size") else []),
    ]
    return "\n".join(lines).split("\n")


def _kill_script(subject: Subject, asked: Mapping[str, Any]) -> Sequence[str]:
    lines = [
        "import os, signal, time",
        *filled(subject, CAPACITY, CAPACITY, **asked),
        _explorer(subject, EACH - 1),
        f"for e in range(1, {KILLS}):",
        f"    k = os.fork() or explorer(e % {MOST_EXPLORERS} + 1); time.sleep(0.03); os.kill(k, 9); os.wait()",
        f"signal.alarm(9); batches = [sample(b, {SIZE}) for _ in range(99)]  # SIGALRM ends a call that waits forever",
        'assert all((np.ravel(x["rew"]) == np.asarray(x["obs"])[:, 0]).all() and np.all(x["rew"]) for x in batches)',
    ]
    return "\n".join(lines).split("\n")


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    arrive: ("arrivals",),
    torn: ("processes",),
    kill: ("killed", "killed_rows"),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "arrivals": Arrivals,
    "processes": Together,
    "killed": AfterKill,
    "killed_rows": Together,
}
