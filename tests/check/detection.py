"""How often each planted fault is found by the check that is meant for it, and how long the check's probe takes.

    python -m tests.check.detection [--seeds 10] [--again] [--only CHECKS]

Faults that records/detection.json has already are skipped, unless `--again` is given, so that an interrupted call goes
on. A fault that is not found in every run with the draws of a normal check is also tried with those of a long one, at
most 3 times. The tables of docs/check-controls.md are rewritten.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tqdm import tqdm

from reports.rendering import table
from results.machine import revision
from suites.check import checks, worker
from suites.check.__main__ import LONG, NORMAL, QUICK
from suites.check.bridge import adapter_of
from suites.check.checks import SHOWN
from suites.check.functions import load
from suites.check.outcome import CheckVerdict, outcome
from suites.check.subject import CheckSettings, Subject
from suites.check.target import Target
from tests.check import episodic, graded, test_probes, test_processes

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "records" / "detection.json"
PAGE = FOLDER.parents[1] / "docs" / "check-controls.md"
THREADS = 2  # of the checks that need them
EFFORTS = {
    "quick": replace(QUICK, processes=THREADS),
    "normal": replace(NORMAL, processes=THREADS),
    "long": replace(LONG, processes=THREADS),
}
LONG_RUNS = 3
FOUND = (CheckVerdict.FAULT, CheckVerdict.HAZARD)
EFFORT_HEADER = ("effort", "draws per test", "faults found in all runs", "found in", "seconds, median", "largest")
HEADER = ("check", "planted faults", "found, quick", "found, normal", "seconds, quick", "seconds, normal")
GRADED_HEADER = ("fault", "check", "x", *(f"{what}, {effort}" for what in ("found", "CPU s") for effort in EFFORTS))
SEEN = "Python {python}, NumPy {numpy}, newest at `{commit:.12}`; {runs} runs per fault and effort."


@dataclass(frozen=True)
class Control:
    """A buffer with one fault, and the check that must find it."""

    check: str
    fault: str
    source: str  # of the functions through which the buffer is called
    size: float | None = None  # of a graded fault


@dataclass(frozen=True)
class Detected:
    """In how many runs a fault was found."""

    check: str
    fault: str
    effort: str
    runs: int
    found: int
    seconds: float  # median, of the probe
    size: float | None = None
    cpu: float | None = None  # seconds of the processor, with the probe's processes; median
    commit: str = "unknown"

    @property
    def key(self) -> tuple[str, str, float | None, str]:
        return self.check, self.fault, self.size, self.effort


def controls() -> Iterator[Control]:
    for fault, check in [*test_probes.OLD_CONTROLS, *test_probes.CONTROLS]:
        yield Control(check, fault, test_probes.subject(fault).functions.source)
    for fault, planted in episodic.FAULTS.items():
        yield Control(planted.check, fault, planted.source)
    for fault, check, _ in test_processes.CONTROLS:
        yield Control(check, fault, test_processes.shared(fault).functions.source)


def control_of(fault: str, size: float) -> Control:
    """Return a graded fault of this size."""
    return Control(graded.FAULTS[fault].check, fault, graded.FAULTS[fault].source(size), size)


def graded_controls() -> Iterator[Control]:
    for fault, each in graded.FAULTS.items():
        yield from (control_of(fault, size) for size in each.sizes)


def report(control: Control, settings: CheckSettings) -> Mapping[str, Any]:
    """Return the worker's report of the control's check."""
    subject = Subject(load(control.source, f"{control.check}_functions.py"), settings)
    part = next(part for part in checks.PARTS if control.check in part.checks)
    reports: list[Any] = []
    worker.work(Target(subject, adapter_of(subject), ""), [part], reports.append)
    return reports[-1][control.check]


def is_found(control: Control, settings: CheckSettings) -> bool:
    """Return whether the control's check finds a fault or a hazard."""
    return outcome(control.check, report(control, settings)).verdict in FOUND


def detected(control: Control, effort: str, seeds: int) -> Detected:
    found, times = 0, []
    for seed in range(seeds):
        began, used = time.perf_counter(), sum(os.times()[:4])
        found += is_found(control, replace(EFFORTS[effort], seed=seed))
        times.append((time.perf_counter() - began, sum(os.times()[:4]) - used))
    seconds, cpu = (round(median(each), 3) for each in zip(*times, strict=True))
    return Detected(control.check, control.fault, effort, seeds, found, seconds, control.size, cpu)


def measured(wanted: Sequence[Control], known: Iterable[Detected], seeds: int) -> Iterator[Detected]:
    """Yield what is not known yet."""
    done = {each.key: each for each in known}
    for control in tqdm(wanted, unit="fault"):
        for effort in EFFORTS:
            key = (control.check, control.fault, control.size, effort)
            if key not in done:
                done[key] = detected(control, effort, min(seeds, LONG_RUNS) if effort == "long" else seeds)
                yield done[key]
            if effort == "normal" and done[key].found == done[key].runs:
                break


def saved() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"faults": []}


def save(found: Sequence[Detected]) -> None:
    about = {"python": platform.python_version(), "numpy": np.__version__}
    each_of = [{name: value for name, value in asdict(each).items() if value is not None} for each in found]
    lines = ",\n".join(f"  {json.dumps(each)}" for each in each_of)
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(f'{json.dumps(about)[:-1]}, "faults": [\n{lines}\n]}}\n', encoding="utf-8")


def whole_faults(record: Mapping[str, Any]) -> str:
    """Return the tables of faults without a size."""
    found = _of([Detected(**each) for each in record["faults"]], size=None)
    efforts = table(EFFORT_HEADER, [_effort(name, each) for name in EFFORTS if (each := _of(found, effort=name))])
    rows = [_row(check, each) for check in SHOWN if (each := _of(found, check=check))]
    return f"\n{_seen(record, found)}\n\n{efforts}\n{table(HEADER, rows)}"


def graded_faults(record: Mapping[str, Any]) -> str:
    """Return the table of faults of several sizes."""
    found = [each for each in (Detected(**each) for each in record["faults"]) if each.size is not None]
    rows = []
    for fault, each in graded.FAULTS.items():
        for size in each.sizes:
            efforts = [_of(found, fault=fault, size=size, effort=effort) for effort in EFFORTS]
            shares = [_share(some) if some else "" for some in efforts]
            seconds = [f"{some[0].cpu:.2f}" if some else "" for some in efforts]
            rows.append((each.title, SHOWN[each.check].title, f"{size:,g}", *shares, *seconds))
    return f"\n{_seen(record, found)}\n\n{table(GRADED_HEADER, rows)}"


def _seen(record: Mapping[str, Any], found: Sequence[Detected]) -> str:
    runs = " to ".join(map(str, sorted({min(each.runs for each in found), max(each.runs for each in found)})))
    return SEEN.format(python=record["python"], numpy=record["numpy"], commit=found[-1].commit, runs=runs)


def _of(found: Iterable[Detected], **wanted: object) -> list[Detected]:
    return [each for each in found if all(getattr(each, name) == value for name, value in wanted.items())]


def _effort(name: str, found: Sequence[Detected]) -> tuple[str, ...]:
    always = sum(each.found == each.runs for each in found)
    seconds = [each.seconds for each in found]
    ratio = f"{always} of {len(found)}"
    return (name, f"{EFFORTS[name].draws:,}", ratio, _share(found), f"{median(seconds):.2f}", f"{max(seconds):.1f}")


def _row(check: str, found: Sequence[Detected]) -> tuple[str, ...]:
    each = [_of(found, effort=effort) for effort in ("quick", "normal")]
    faults = ", ".join(dict.fromkeys(detected.fault for detected in found))
    seconds = [f"{median(one.seconds for one in some):.2f}" for some in each]
    return (SHOWN[check].title, faults, *map(_share, each), *seconds)


def _share(found: Sequence[Detected]) -> str:
    return f"{sum(each.found for each in found)} of {sum(each.runs for each in found)}"


#: Line of the page -> what follows it, up to END.
BLOCKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "<!-- measured by python -m tests.check.detection -->": whole_faults,
    "<!-- graded faults, measured by python -m tests.check.detection -->": graded_faults,
}
END = "<!-- end -->"


def page(text: str, record: Mapping[str, Any]) -> str:
    """Return the page with the record's tables."""
    for begin, block in BLOCKS.items():
        text = between(begin, text, block(record))
    return text


def between(begin: str, page: str, text: str) -> str:
    """Return the page with this text after the line `begin`, up to the next `END`."""
    at = page.index(begin) + len(begin)
    return f"{page[:at]}{text}{page[page.index(END, at) :]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check.detection")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--again", action="store_true", help="measure faults of which there is a record, too")
    parser.add_argument("--only", default="", metavar="CHECKS", help="comma-separated names of checks")
    args = parser.parse_args()
    only = checks.named(args.only)
    checks.selected(only)  # raises if a check is unknown
    every = [*controls(), *graded_controls()]
    wanted = [each for each in every if not only or each.check in only]
    names = {(each.check, each.fault, each.size) for each in every}
    again = {(each.check, each.fault, each.size) for each in wanted} if args.again else set()
    old, commit = [Detected(**each) for each in saved()["faults"]], revision()  # before the record is changed
    found = [each for each in old if each.key[:3] in names - again]
    for new in measured(wanted, found, args.seeds):
        found.append(replace(new, commit=commit))
        save(found)
        if new.found < new.runs:
            fault = f"{new.fault} {new.size or ''}"
            print(f"{new.check}, {fault}, {new.effort}: {new.found} of {new.runs}", file=sys.stderr)
    save(found)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), saved()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
