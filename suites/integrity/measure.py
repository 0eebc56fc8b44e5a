"""Integrity: does a shared buffer return what was stored, while many processes use it and after one has died?

    python -m suites.integrity --peer NAME [--explorers N] [--capacity ROWS] [--seconds S] [--seed N] [--cells FILE]

Explorers add rows that certify themselves (`certified.py`), a few per call, to a ring so small that it wraps
constantly; the learner reads them and repeatedly sets each row's own priority. There are three parts:

race   explorers and learner run as fast as they can, on several fresh buffers: counts rows that are torn or were never
       written and rows drawn with another row's priority, and measures the slowest explorer's share
fill   explorers add exactly as many rows as fit, then pause: each row must be stored exactly once
kill   an explorer is killed by SIGKILL at a random moment, repeatedly: the learner and the others must continue

A figure says how much was checked. The reason for a wrong result says what was found, and gives the command that
reproduces it. The faults depend on timing, so the command may have to be repeated.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from adapters import registry, venvs
from adapters.base import Adapter
from adapters.behaviours import GivenPriority
from suites.integrity import certified
from suites.integrity.jobs import CheckingLearner, fill, hammer, learn_until, rows_per_call, settle
from suites.integrity.spec import SUITE, IntegritySettings
from suites.runner import entry
from suites.runner.explorers import Explorers, exploring, giving_up, prepare
from suites.runner.results import Result, failure

OPENINGS = 8  # fresh buffers to race on, since never-written rows can only be read at the very beginning
OPENING_SECONDS = 0.1
BESIDE = 2  # explorers that are not killed
KILL_WITHIN = 0.02  # seconds after the victim's first add
STEPS_AFTER_KILL = 20


@dataclass(frozen=True)
class Finding:
    """How much was checked, and a description of what was wrong."""

    looked_at: float
    wrong: str | None = None
    skipped: str | None = None  # why it could not be checked

    @classmethod
    def among(cls, wrong: int, looked_at: int, words: str) -> Finding:
        return cls(looked_at, f"{wrong:,} of {looked_at:,} {words}" if wrong else None)


def race(adapter: Adapter, setting: IntegritySettings) -> dict[str, Finding]:
    learner = CheckingLearner(adapter)
    with _racing(adapter, setting) as explorers:
        explorers.wait_for(1)
        explorers.learn(learner.step, OPENING_SECONDS)
        before = explorers.added()
        took, _ = explorers.learn(learner.step, setting.seconds)
        added = [now - then for now, then in zip(explorers.added(), before, strict=True)]
    if adapter.start_method == "fork":  # otherwise a fresh buffer would need a fresh server, which takes seconds
        for opening in range(OPENINGS):
            _open(type(adapter), setting, opening, learner)
    starved = added.count(0)
    stale = Finding.among(learner.stale, learner.weighed, "rows read were drawn with another row's priority")
    if adapter.contract.given_priority is GivenPriority.NOT_POSSIBLE:
        stale = Finding(
            0.0, skipped="explorers cannot pass a priority with a row, so stale priorities cannot be detected"
        )
    return {
        "torn": Finding.among(learner.torn, learner.read, "rows read were torn"),
        "unwritten": Finding.among(learner.unwritten, learner.read, "rows read were never written"),
        "stale": stale,
        "starvation": Finding(1.0, f"{starved} of {len(added)} explorers added no rows in {took:.1f} s")
        if starved
        else Finding(min(added) * len(added) / sum(added)),
    }


def _open(kind: type[Adapter], setting: IntegritySettings, opening: int, learner: CheckingLearner) -> None:
    """Race on a fresh buffer, reading as soon as the first row is added."""
    learner.adapter = kind.make(setting.spec)
    try:
        with _racing(learner.adapter, setting, opening + 1) as explorers:
            explorers.wait_for(1)
            explorers.learn(learner.step, OPENING_SECONDS)
    finally:
        learner.adapter.close()


def _racing(adapter: Adapter, setting: IntegritySettings, opening: int = 0):
    work = partial(hammer, adapter, rows_per_call(setting.capacity, opening), True)
    return exploring(work, setting.explorers, adapter.start_method, adapter.serve)


def rounds(adapter: Adapter, setting: IntegritySettings) -> dict[str, Finding]:
    learner = CheckingLearner(adapter)
    lost = duplicated = added = 0
    work = partial(fill, adapter, setting)
    share = setting.capacity // setting.explorers
    with exploring(work, setting.explorers, adapter.start_method, adapter.serve) as explorers:
        try:
            until = time.monotonic() + setting.seconds
            for turn in count():
                added += share * setting.explorers
                learn_until(lambda added=added: sum(explorers.added()) == added, explorers, learner)
                writers, numbers = np.mgrid[1 : setting.explorers + 1, turn * share : (turn + 1) * share].reshape(2, -1)
                missing, twice = settle(learner, writers, numbers)
                lost, duplicated = lost + missing, duplicated + twice
                if time.monotonic() > until:
                    break
                explorers.shared.start()
        finally:
            explorers.shared.barrier.abort()
    return {
        "lost": Finding.among(lost, added, "added rows were not stored, although nothing had overwritten them"),
        "duplicated": Finding.among(duplicated, added, "added rows were stored more than once"),
    }


def kills(adapter: Adapter, setting: IntegritySettings) -> dict[str, Finding]:
    learner, random = CheckingLearner(adapter), np.random.default_rng(setting.seed)
    work = partial(hammer, adapter, rows_per_call(setting.capacity, 0))
    killed, trouble = 0, None
    with exploring(partial(work, True), BESIDE, adapter.start_method, adapter.serve) as explorers:
        explorers.wait_for(1)
        until = time.monotonic() + setting.seconds
        while trouble is None and (not killed or time.monotonic() < until):
            with explorers.recruit(partial(work, False)) as added:
                learn_until(lambda added=added: added.value > 0, explorers, learner)
                time.sleep(random.uniform(0, KILL_WITHIN))
            killed += 1
            trouble = after_kill(explorers, learner, setting)
        for number in list(explorers.processes):  # they may be blocked in the buffer forever
            explorers.kill(number)
    words = [f"after kill {killed}, {trouble}"] if trouble else []
    if bad := learner.torn + learner.unwritten:
        words.append(f"{bad:,} of {learner.read:,} rows read before or after kills were torn or never written")
    return {"killed": Finding(killed, "; ".join(words) or None)}


def after_kill(explorers: Explorers, learner: CheckingLearner, setting: IntegritySettings) -> str | None:
    """Return which processes are blocked, or None if none is. Within `setting.patience` seconds, the learner must
    sample and each remaining explorer must add a row."""
    before, steps = explorers.added(), 0
    deadline = time.monotonic() + setting.patience
    stuck = []
    try:
        while steps < STEPS_AFTER_KILL or (_waiting(explorers, before) and time.monotonic() < deadline):
            signal.setitimer(signal.ITIMER_REAL, setting.patience)
            learner.step()
            steps += 1
    except TimeoutError:
        stuck.append("the learner")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if waiting := _waiting(explorers, before):
        stuck.append(f"{waiting} of {len(before)} explorers")
    return f"{' and '.join(stuck)} did not continue within {setting.patience:g} s" if stuck else None


def _waiting(explorers: Explorers, before: list[int]) -> int:
    return sum(now == then for now, then in zip(explorers.added(), before, strict=True))


PARTS: tuple[tuple[Callable[[Adapter, IntegritySettings], Mapping[str, Finding]], tuple[str, ...]], ...] = (
    (race, ("torn", "unwritten", "stale", "starvation")),
    (rounds, ("lost", "duplicated")),
    (kills, ("killed",)),
)


def measure(peer: str, setting: IntegritySettings) -> Iterator[Result]:
    """Yield the results of each part as soon as it has finished."""
    result = partial(Result, peer=peer, workload=certified.WORKLOAD, params=setting.params)
    kind = registry.adapter_class(peer)
    try:
        kind.version()  # raises if the peer is unavailable
        prepare(kind.preload)
        adapter = kind.make(setting.spec)
    except Exception as error:
        outcome, reason = failure(error)
        yield from (result(name, outcome=outcome, reason=reason) for name in SUITE.benchmarks)
        return
    again = shlex.join([venvs.shown(kind.venv), *SUITE.command(peer, setting.options())])
    try:
        for part, names in PARTS:
            try:
                with giving_up(OPENINGS + 3 * (setting.seconds + setting.patience)):
                    found = part(adapter, setting)
            except Exception as error:
                outcome, reason = failure(error)
                yield from (result(name, outcome=outcome, reason=f"{reason}\n{again}") for name in names)
                continue
            for name in names:
                finding = found[name]
                if finding.skipped:
                    yield result(name, outcome="skipped", reason=finding.skipped)
                    continue
                outcome, reason = ("wrong", f"{finding.wrong}\n{again}") if finding.wrong else ("ok", None)
                yield result(name, outcome=outcome, value=finding.looked_at, reason=reason)
    finally:
        adapter.close()


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, entry.settings_of(IntegritySettings, args))

    return entry.main(SUITE, __doc__, partial(entry.add_settings, IntegritySettings()), figures)


if __name__ == "__main__":
    sys.exit(main())
