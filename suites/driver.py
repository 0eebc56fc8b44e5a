"""Drives a run: launch after launch, block after block, the run file saved after each."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tqdm import tqdm

from adapters.registry import is_ours
from results.record import Left, Record, Run, first_line, save
from suites import launch as processes
from suites.cells import Result, is_finding_about_another, read_results


@dataclass(frozen=True)
class Launch:
    """A process that measures some records of one peer, once a block."""

    name: str
    records: Sequence[Record]
    command: Callable[[Sequence[Record], Path], list[str]]  # for these records and this cells file
    least_limit: float = 0.0  # seconds that it may take, where the profile's limit is less

    @property
    def open_records(self) -> list[Record]:
        """Those that nothing has spoiled yet. A cell that failed once isn't measured again: it has its
        reason, and a peer that hangs would cost its time limit in every block."""
        return [record for record in self.records if record.ok or record.pending]


def in_blocks(launches: Sequence[Launch], blocks: int, seed: int = 0) -> list[tuple[int, Launch]]:
    """Every launch once a block. The order is shuffled, and turned round in every other block (ABBA), so that
    a slow minute, or a neighbour that leaves the machine warm, hits all alike."""
    order, shuffler, schedule = list(launches), random.Random(seed), []
    for block in range(blocks):
        if block % 2 == 0:
            shuffler.shuffle(order)
        else:
            order.reverse()
        schedule += [(block, launch) for launch in order]
    return schedule


class Interrupt:
    """SIGINT, SIGTERM and SIGHUP, remembered rather than raised: they take effect where nothing is half done."""

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


class Progress:
    """What is running and how long is left: a bar on a terminal, else one line a launch."""

    def __init__(self, schedule: Sequence[tuple[int, Launch]]) -> None:
        self.left = [launch for _, launch in schedule]
        self.took: dict[str, list[float]] = {}
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=len(schedule),
            disable=not self.terminal,
            bar_format="{percentage:3.0f}%|{bar:20}| {elapsed} {desc}",
            dynamic_ncols=True,
        )

    def begin(self, block: int, launch: Launch) -> None:
        self.bar.set_description_str(f"{self.remaining()}, block {block + 1}: {launch.name}")

    def tick(self) -> None:
        self.bar.refresh()

    def end(self, block: int, launch: Launch, seconds: float, troubles: Sequence[str]) -> None:
        self.left.remove(launch)
        self.took.setdefault(launch.name, []).append(seconds)
        self.bar.update()
        if not self.terminal:
            done = self.bar.total - len(self.left)
            print(f"[{done}/{self.bar.total}] block {block + 1}: {launch.name}: {seconds:.1f} s, {self.remaining()}")
            sys.stdout.flush()
        for trouble in troubles:
            tqdm.write(f"  {trouble}", file=sys.stderr)

    def give_up(self, launch: Launch) -> None:
        self.left.remove(launch)
        self.bar.update()

    def remaining(self) -> str:
        """From how long each launch took before; nothing is known of the first."""
        if not self.took:
            return "measuring"
        known = {name: sum(took) / len(took) for name, took in self.took.items()}
        typical = median(known.values())  # of one not seen yet: a mean is ruled by the slowest peer
        seconds = sum(known.get(launch.name, typical) for launch in self.left if launch.open_records)
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def drive(run: Run, out: Path, schedule: Sequence[tuple[int, Launch]], limit_seconds: float) -> int:
    """Measure everything in `schedule` into `run` and `out`; the exit status says how it went."""
    progress = Progress(schedule)
    save(out, run)
    with Interrupt() as interrupt, tempfile.TemporaryDirectory() as folder:

        def tick() -> None:
            interrupt.check()
            progress.tick()

        try:
            for number, (block, launch) in enumerate(schedule):
                interrupt.check()
                records, begin = launch.open_records, time.monotonic()
                if not records:
                    progress.give_up(launch)
                    continue
                progress.begin(block, launch)
                left = measure(launch, records, block, Path(folder, f"{number}.jsonl"), limit_seconds, tick)
                if left:
                    run.left.append(Left(records[0].peer, f"{launch.name}, block {block + 1}", left))
                save(out, run)
                said = [*troubles(records), *([f"left behind: {left}"] if left else [])]
                progress.end(block, launch, time.monotonic() - begin, said)
        except KeyboardInterrupt:
            pass
        progress.bar.close()
        run.finish(interrupted=interrupt.seen)
        save(out, run)
    for line in troubles(run.records):
        print(line, file=sys.stderr)
    if interrupt.seen:
        print(f"interrupted; what was measured is in {out}, and `make report RUN={out}` shows it")
    else:
        print(f"saved in {out}")
    if interrupt.seen:
        return 130
    ours = any(is_ours(left.peer) for left in run.left)
    return int(ours or bool(run.problems(excused=is_finding_about_another)))


def measure(
    launch: Launch, records: Sequence[Record], block: int, cells: Path, limit_seconds: float, tick: Callable[[], None]
) -> str:
    """Run one launch and take its results into the records; what it left behind."""
    trouble, limit = None, max(limit_seconds, launch.least_limit)
    try:
        ending = processes.run(launch.command(records, cells), limit, tick)
        trouble = ending.trouble or "ended without measuring it"
    finally:
        # Interrupted (no trouble): what the launch had finished is kept, and nothing else is its fault.
        results = list(read_results(cells))
        found = [next((each for each in reversed(results) if each.is_of(record)), None) for record in records]
        unfinished = [record for record, result in zip(records, found, strict=True) if result is None]
        for record, result in zip(records, found, strict=True):
            if result is not None:
                _take(record, result, block)
            elif trouble is not None:
                record.fail("failed", f"launch of block {block + 1}, at {unfinished[0].label}: {trouble}")
    return ending.left


def _take(record: Record, result: Result, block: int) -> None:
    if result.value is not None:
        record.add_sample(block, result.value)
    record.seen, record.hazard = result.seen, result.hazard
    if result.outcome != "ok":
        record.fail(result.outcome, result.reason or "no reason was given")


def troubles(records: Iterable[Record]) -> list[str]:
    """What was not measured and why, one line for cells that share a peer and a reason."""
    alike = Counter((record.status, record.peer, first_line(record.reason)) for record in records if not record.ok)
    return [
        f"{status}: {count} cell{'s' if count > 1 else ''} of {peer}: {reason}"
        for (status, peer, reason), count in alike.items()
    ]
