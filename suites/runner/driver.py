"""Drives a run, launch after launch, and saves the run file after each."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from adapters.registry import is_ours
from results.record import Left, Record, Run, Spent, first_line, save
from suites.runner import process as processes
from suites.runner.plan import Budgeted, Fixed
from suites.runner.results import Result, read_results, read_spent
from suites.runner.spent import KINDS
from suites.suite import Launch

#: A launch that was ended because of the budget counts as hung if it had returned no result for this long. Our peers
#: compile nothing.
STILL_SECONDS, OUR_STILL_SECONDS = 90.0, 30.0


class Interrupt:
    """Remembers SIGINT, SIGTERM and SIGHUP. `check` then raises KeyboardInterrupt; it is called where nothing is half
    done."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> Interrupt:
        self._before = {number: signal.signal(number, self._see) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _see(self, _number: int, _frame: object) -> None:
        self.seen = True

    def check(self) -> None:
        if self.seen:
            raise KeyboardInterrupt


class RunProgress:
    """Shows what is running and how much time is left: a bar on a terminal, otherwise one line per launch."""

    def __init__(self, plan: Fixed | Budgeted) -> None:
        self.plan, self.launches = plan, 0
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=100,
            disable=not self.terminal,
            bar_format="{percentage:3.0f}%|{bar:20}| {elapsed} {desc}",
            dynamic_ncols=True,
        )

    def begin(self, block: int, launch: Launch) -> None:
        self.bar.set_description_str(f"{self.remaining()}, block {block + 1}: {launch.name}")
        self.tick()

    def tick(self) -> None:
        self.bar.n = 100 * self.plan.done
        self.bar.refresh()

    def end(self, block: int, launch: Launch, seconds: float, troubles: Sequence[str]) -> None:
        self.launches += 1
        self.tick()
        if not self.terminal:
            print(
                f"[{self.launches}] block {block + 1}: {launch.name}: {seconds:.1f} s, {self.remaining()}", flush=True
            )
        for trouble in troubles:
            tqdm.write(f"  {trouble}", file=sys.stderr)

    def remaining(self) -> str:
        seconds = self.plan.remaining()
        if seconds is None:
            return "measuring"
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def is_finding_about_another(record: Record) -> bool:
    """Return whether another project's buffer failed or was wrong, which is a result of the run, not a failure."""
    return record.status in ("wrong", "failed") and not is_ours(record.peer)


def drive(
    run: Run,
    out: Path,
    plan: Fixed | Budgeted,
    limit_seconds: float,
    excused: Callable[[Record], bool] = is_finding_about_another,
) -> int:
    """Carry out `plan`, store the results in `run`, and save it to `out` after every launch. Returns the exit status,
    which is 1 if anything went wrong that is not `excused`."""
    progress = RunProgress(plan)
    save(out, run)
    with Interrupt() as interrupt, tempfile.TemporaryDirectory() as folder:

        def tick() -> None:
            interrupt.check()
            progress.tick()

        try:
            for number, (block, launch) in enumerate(plan):
                interrupt.check()
                records, begin = plan.records(launch, block), time.monotonic()
                if not records:
                    continue
                progress.begin(block, launch)
                limit = max(limit_seconds, launch.least_limit)
                cells = Path(folder, f"{number}.jsonl")
                left = measure(launch, records, block, cells, limit, plan, tick)
                seconds = time.monotonic() - begin
                _note(run, launch, block, seconds, left, read_spent(cells))
                save(out, run)
                plan.ended(launch, seconds)
                said = [*troubles(records), *([f"left behind: {left}"] if left else [])]
                progress.end(block, launch, seconds, said)
            plan.leave_out()
        except KeyboardInterrupt:
            pass
        progress.bar.close()
        run.finish(interrupted=interrupt.seen)
        save(out, run)
    _report_end(run, out, can_resume=isinstance(plan, Fixed))
    if run.interrupted:
        return 130
    ours = any(is_ours(left.peer) for left in run.left)
    return int(ours or bool(run.problems(excused)))


def _note(run: Run, launch: Launch, block: int, seconds: float, left: str, spent: Mapping[str, float]) -> None:
    """Store what a launch left behind and, if reported, how it spent its time."""
    name = f"{launch.name}, block {block + 1}"
    if left:
        run.left.append(Left(launch.peer, name, left))
    if spent:
        kinds = {kind: spent.get(kind, 0.0) for kind in KINDS}
        run.spent.append(Spent(launch.peer, name, seconds, **kinds))


def _report_end(run: Run, out: Path, can_resume: bool) -> None:
    """Print what was not measured and why, and where the measured figures are."""
    for line in troubles(run.records):
        print(line, file=sys.stderr)
    if not run.interrupted:
        print(f"saved in {out}")
        return
    print(f"interrupted; what was measured is in {out}, and `make report RUN={out}` shows it")
    if can_resume:
        print(f"the same command with RESUME={out} measures the rest")


def measure(
    launch: Launch,
    records: Sequence[Record],
    block: int,
    cells: Path,
    limit: float,
    plan: Fixed | Budgeted,
    tick: Callable[[], None],
) -> str:
    """Run one launch for at most `limit` seconds, and store its results in the records. Returns what it left behind.

    A launch that is ended earlier because of the budget is not at fault, unless it had hung.
    """
    ending, budget, begin = None, plan.limit(launch, limit), time.time()
    try:
        ending = processes.run(launch.command(records, cells, block), min(limit, budget), tick)
    finally:
        # If the run is interrupted, there is no ending: results so far are kept, and missing results are not faults.
        results = list(read_results(cells))
        unfinished = list(records)
        for record in launch.due(block):  # a job may yield figures for records that were not requested
            if result := next((each for each in reversed(results) if each.is_of(record)), None):
                _take(record, result, block)
                unfinished = [each for each in unfinished if each is not record]
        still = begin + budget - _last_result(cells, begin)
        hung = still >= (OUR_STILL_SECONDS if is_ours(launch.peer) else STILL_SECONDS)
        if ending is not None and ending.timed_out and budget < limit and not hung:
            plan.cut_short(launch, budget)
        elif ending is not None and unfinished:
            trouble = ending.trouble or "ended without measuring it"
            for record in unfinished:
                reason = f"launch of block {block + 1}, at {unfinished[0].label}: {trouble}"
                record.fail("failed" if ending.is_the_peers else "broken", reason)
        elif ending is not None and ending.is_the_peers and records[-1].ok:
            records[-1].fail("failed", f"launch of block {block + 1}, after its last figure: {ending.trouble}")
    return ending.left


def _last_result(cells: Path, begin: float) -> float:
    """Return the time of the last result, in seconds since 1970, or `begin` if there is none."""
    return cells.stat().st_mtime if cells.exists() else begin


def _take(record: Record, result: Result, block: int) -> None:
    if result.value is not None:
        record.add_sample(block, result.value, result.calls)
    record.seen, record.hazard = result.seen, result.hazard
    if result.outcome != "ok":
        record.fail(result.outcome, result.reason or "no reason was given")


def troubles(records: Iterable[Record]) -> list[str]:
    """Return what was not measured and why, with one line for all cells that share a peer and a reason."""
    failed = [record for record in records if not (record.ok or record.pending)]
    alike = Counter((record.status, record.peer, first_line(record.reason)) for record in failed)
    return [
        f"{status}: {count} cell{'s' if count > 1 else ''} of {peer}: {reason}"
        for (status, peer, reason), count in alike.items()
    ]
