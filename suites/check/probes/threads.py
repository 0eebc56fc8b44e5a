"""Probes of threads: one adds rows while others sample, and each row shows whether its fields belong together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping

from adapters.behaviours import FAULT, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.probing import Seen, said, times
from suites.check.probes.tracked import (
    MIXED,
    UNWRITTEN,
    Tracked,
    WrongRows,
    adds,
    certified,
    filled,
    kinds,
    worst,
)
from suites.check.subject import Subject

CAPACITY, SIZE = 16, 16
SECONDS = 0.4  # of each kind of buffer
SWITCH = 1e-6  # seconds after which another thread may run


class Threads(Behaviour):
    """What is sampled while another thread adds rows."""

    WHOLE = "whole rows"
    RAISES = "raises", FAULT
    HANGS = "hangs", FAULT
    UNWRITTEN = "unwritten rows", FAULT
    TORN = "torn rows", FAULT


def torn(subject: Subject) -> dict[str, Seen]:
    """Add in one thread and sample in the others."""
    if not subject.setting.processes:
        raise NotApplicable("threads are checked only if asked for, with PROCESSES")
    found, batches = [], 0
    for kind, asked in kinds(subject).items():
        word, about, drawn = _together(subject, asked)
        body = [
            f"import sys, threading; {filled(subject, CAPACITY, 1, **asked)[0]}; sys.setswitchinterval({SWITCH})",
            adds(subject, 1, CAPACITY),
            f"def more():\n    {adds(subject, CAPACITY + 1, 30_000)}",
            "t = threading.Thread(target=more, daemon=True); t.start()",
            f"while t.is_alive(): x = sample(b, {SIZE}); "
            'assert (np.ravel(x["rew"]) == np.asarray(x["obs"])[:, 0]).all(), x',
        ]
        found.append((word, f"{kind}: {about}", "\n".join(body).split("\n")))
        batches += drawn
    about = f"{batches:,} batches drawn while another thread added rows"
    return {"threads": worst(found, about, batches, Threads)}


def _together(subject: Subject, asked: Mapping[str, object]) -> tuple[Threads, str, int]:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(CAPACITY)
    seconds = SECONDS * times(subject.setting)
    end = time.monotonic() + seconds
    failed: list[Exception] = []
    drawn: list[int] = []

    def add() -> None:
        try:
            while time.monotonic() < end and not failed:
                buffer.add()
        except Exception as error:
            failed.append(error)

    def sample() -> None:
        batches = 0
        try:
            while time.monotonic() < end and not failed:
                numbers = certified(buffer.batch(SIZE))
                batches += 1
                if (numbers < 1).any() or (numbers % 1).any():
                    raise WrongRows(UNWRITTEN, f"a row was drawn whose obs is {numbers.min():g}")
        except Exception as error:
            failed.append(error)
        drawn.append(batches)

    samplers = max(1, subject.setting.processes - 1)
    threads = [threading.Thread(target=each, daemon=True) for each in (add, *[sample] * samplers)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + subject.setting.patience)
    finally:
        sys.setswitchinterval(interval)
    about = f"{sum(drawn):,} batches by {samplers} threads, {buffer.added:,} rows added by another"
    if any(thread.is_alive() for thread in threads):
        return Threads.HANGS, f"{about}; a thread waited for more than {subject.setting.patience:g} s", sum(drawn)
    if not failed:
        return Threads.WHOLE, about, sum(drawn)
    error = failed[0]
    if not isinstance(error, WrongRows):
        return Threads.RAISES, f"{about}: {said(error)}", sum(drawn)
    return (Threads.TORN if error.kind == MIXED else Threads.UNWRITTEN), f"{about}: {error}", sum(drawn)


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {torn: ("threads",)}
CHECKS: Mapping[str, type[Behaviour]] = {"threads": Threads}
