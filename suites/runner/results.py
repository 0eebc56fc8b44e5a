"""What a process run hands back: a result for each figure, and whose fault it is where there is none.

A process run writes one JSON line into its cells file the moment a figure is finished, so that one that is killed
leaves what it had measured.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from adapters.base import Unavailable, WrongAnswer
from adapters.environments import NotInstalled
from results.record import Record

Outcome = Literal["ok", "failed", "wrong", "skipped", "broken"]
CHECKOUT = Path(__file__).resolve().parents[2]
HARNESS = (CHECKOUT / "suites", CHECKOUT / "results")
ADAPTERS = (CHECKOUT / "adapters",)
REASON_CHARACTERS = 500


@dataclass(frozen=True)
class Result:
    """One line of a cells file."""

    benchmark: str
    peer: str
    workload: str
    params: dict[str, int]
    outcome: Outcome
    value: float | None = None
    reason: str | None = None
    seen: str | None = None  # what came out where that is no number: a word, and what it stands on after a colon
    hazard: bool = False  # as promised, but dangerous to a user who does not know about it
    calls: int | None = None  # that the value stands on, where they may be too few for a rate

    def is_of(self, record: Record) -> bool:
        """A launch measures one peer; the run may know it by another name (the gate's base and head)."""
        mine = (self.benchmark, self.workload, self.params)
        return mine == (record.benchmark, record.workload, record.params)


def failure(error: BaseException) -> tuple[Outcome, str]:
    """What an exception means for a cell, and its reason on one line."""
    said = str(error).replace(f"{CHECKOUT}/", "").encode("utf-8", "replace").decode()  # a lone surrogate can't be saved
    text = " | ".join(line.strip() for line in said.splitlines() if line.strip())
    if len(text) > REASON_CHARACTERS:  # some begin with what happened, others, after a long way there, end with it
        text = f"{text[: REASON_CHARACTERS // 2]} ... {text[-REASON_CHARACTERS // 2 :]}"
    if isinstance(error, Unavailable | NotMeasured) or _is_declined(error):
        return "skipped", text
    if isinstance(error, WrongAnswer):
        return "wrong", text
    if isinstance(error, PeerTrouble):
        return "failed", text
    return "broken" if _is_the_harness(error) else "failed", f"{type(error).__name__}: {text}"


class NotMeasured(Exception):  # noqa: N818 (a state of things rather than an error)
    """There is no such figure of this peer, for a reason that is no fault: the message says it."""


class PeerTrouble(Exception):  # noqa: N818 (says whose it is)
    """What a suite finds about a peer that raises nothing itself: one of its processes died, say."""


class Stuck(PeerTrouble, TimeoutError):  # noqa: N818 (a state of things rather than an error)
    """A call of the peer's did not return in time, or a process was never let in."""


def _is_the_harness(error: BaseException) -> bool:
    """Whether this project is to blame rather than the peer: the peer is not installed as pinned, or the error was
    raised by code of the suites themselves."""
    return isinstance(error, ImportError | NotInstalled) or _raised_in(error, HARNESS)


def _is_declined(error: BaseException) -> bool:
    """Whether an adapter said that this is not its peer's job. A library that has not implemented what it is asked for
    has failed, our own included."""
    return isinstance(error, NotImplementedError) and _raised_in(error, ADAPTERS)


def _raised_in(error: BaseException, rooms: Iterable[Path]) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    file = Path(frames[-1].filename) if frames else CHECKOUT
    return any(file.is_relative_to(room) for room in rooms)


def append_result(file: Path, result: Result) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(result)) + "\n")


def read_results(file: Path) -> Iterator[Result]:
    """Every whole line; the last one may have been cut off by a kill."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield Result(**json.loads(line))
        except json.JSONDecodeError:
            return
