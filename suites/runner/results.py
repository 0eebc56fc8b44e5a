"""The output of a launch: a result for each figure, or the reason why there is none and whether the peer is at fault.

A launch appends one JSON line to its cells file as soon as a figure is finished, so that finished figures survive
if the run is killed.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from adapters.base import Unavailable, WrongAnswer
from adapters.venvs import NotInstalled
from results.record import Param, Record

Outcome = Literal["ok", "failed", "wrong", "skipped", "broken"]
CHECKOUT = Path(__file__).resolve().parents[2]
HARNESS = (CHECKOUT / "suites", CHECKOUT / "results")
ADAPTERS = (CHECKOUT / "adapters",)
REASON_CHARACTERS = 500
SPENT_ON = "spent on"  # the only key of a line that is not a result


@dataclass(frozen=True)
class Result:
    """One line of a cells file."""

    benchmark: str
    peer: str
    workload: str
    params: dict[str, Param]
    outcome: Outcome
    value: float | None = None
    reason: str | None = None
    seen: str | None = None  # an observation that is not a number: a word, a colon and the evidence for it
    hazard: bool = False  # the peer behaves as promised, but in a way that is dangerous if a user does not know it
    calls: int | None = None  # number of timed calls, if it may be too small for a reliable rate

    def is_of(self, record: Record) -> bool:
        """Return whether this is the result of that record. Peers are not compared: a launch measures only one, whose
        name may differ in the run (the gate's base and head)."""
        mine = (self.benchmark, self.workload, self.params)
        return mine == (record.benchmark, record.workload, record.params)


def failure(error: BaseException) -> tuple[Outcome, str]:
    """Return a cell's outcome after this exception, and the reason as one line."""
    # A lone surrogate cannot be saved.
    said = str(error).replace(f"{CHECKOUT}/", "").encode("utf-8", "replace").decode()
    text = " | ".join(line.strip() for line in said.splitlines() if line.strip())
    if len(text) > REASON_CHARACTERS:  # the cause may be at the beginning or at the end
        text = f"{text[: REASON_CHARACTERS // 2]} ... {text[-REASON_CHARACTERS // 2 :]}"
    if isinstance(error, Unavailable | NotMeasured) or _is_declined(error):
        return "skipped", text
    if isinstance(error, WrongAnswer):
        return "wrong", text
    if isinstance(error, PeerTrouble):
        return "failed", text
    return "broken" if _is_the_harness(error) else "failed", f"{type(error).__name__}: {text}"


class NotMeasured(Exception):  # noqa: N818 (a state of things rather than an error)
    """This peer has no such figure. The message states the reason, which is not a fault."""


class PeerTrouble(Exception):  # noqa: N818 (the peer's, not the harness's)
    """A fault of the peer that the suite detected, such as a process that died."""


class Stuck(PeerTrouble, TimeoutError):  # noqa: N818 (a state of things rather than an error)
    """A call of the peer did not return in time, or a process never got access to the buffer."""


def _is_the_harness(error: BaseException) -> bool:
    """Return whether this project is to blame rather than the peer: the peer is not installed as pinned, or the error
    was raised by the suites' own code."""
    return isinstance(error, ImportError | NotInstalled) or _raised_in(error, HARNESS)


def _is_declined(error: BaseException) -> bool:
    """Return whether an adapter declared that its peer does not support this. If a library itself (even our own) raises
    NotImplementedError, it has failed."""
    return isinstance(error, NotImplementedError) and _raised_in(error, ADAPTERS)


def _raised_in(error: BaseException, rooms: Iterable[Path]) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    file = Path(frames[-1].filename) if frames else CHECKOUT
    return any(file.is_relative_to(room) for room in rooms)


def append_result(file: Path, result: Result) -> None:
    _append(file, asdict(result))


def append_spent(file: Path, seconds: Mapping[str, float]) -> None:
    """Append how many seconds the process spent on each kind of work, after its last result."""
    _append(file, {SPENT_ON: dict(seconds)})


def _append(file: Path, item: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(item) + "\n")


def read_results(file: Path) -> Iterator[Result]:
    """Yield the results in this file."""
    return (Result(**item) for item in _items(file) if SPENT_ON not in item)


def read_spent(file: Path) -> dict[str, float]:
    """Return how many seconds the process spent on each kind of work; empty if it reported none."""
    return next((item[SPENT_ON] for item in _items(file) if SPENT_ON in item), {})


def _items(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of this file. The last one is ignored if it was truncated by a kill."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return
