"""The launches of a gate: each launch of a suite's profile "gate" is made identically on both sides."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from results.analysis.verdict import HarnessError
from results.record import Record, Run
from suites import SUITES, suite_named, workloads
from suites.gate.builds import Side
from suites.gate.probe import UNEVEN_CORES, others, unevenness
from suites.runner import process as processes
from suites.runner.results import read_results
from suites.suite import Launch

PROFILE = "gate"
COUNTED = ("counts", "memory")  # suites whose figures are not times
LIMIT_SECONDS = 120.0  # limit for a launch, unless its suite needs more

Key = tuple[object, ...]
Commands = Mapping[Side, list[str]]


@dataclass(frozen=True)
class Endings:
    """How the processes of a pair ended."""

    said: str | None  # if something went wrong
    killed: Mapping[Side, str]  # why a side's process was killed
    uneven: float = 0.0  # how many more cores other programs used during one side's launch than the other's


@dataclass(frozen=True)
class Pair:
    """A launch of a suite, to be made on both sides."""

    launch: Launch  # of the peer; its records are not part of the gate's run
    sides: Mapping[Side, Sequence[Record]]  # each side's records, in the same order

    @property
    def name(self) -> str:
        return self.launch.name

    @property
    def suite(self) -> str:
        return self.launch.records[0].suite

    @property
    def is_counted(self) -> bool:
        """Whether its figures are counts, which other programs do not affect."""
        return self.suite in COUNTED

    @property
    def keys(self) -> set[Key]:
        return {record_key(record) for records in self.sides.values() for record in records}

    def measure(self, undecided: Collection[Key], block: int, folder: Path, tick: Callable[[], None]) -> bool:
        """Measure the undecided benchmarks, once on each side. Returns False if none is undecided."""
        wanted = {
            side: [each for each in records if record_key(each) in undecided and (each.ok or each.pending)]
            for side, records in self.sides.items()
        }
        # If one side cannot run a benchmark, or returns a wrong answer, it is not measured on the other side either.
        first, *others = ({record_key(record) for record in records} for records in wanted.values())
        shared = first.intersection(*others)
        wanted = {side: [each for each in some if record_key(each) in shared] for side, some in wanted.items()}
        if not shared:
            return False
        for side in self.sides:
            side.renew()
        cells = {side: folder / f"{side.name}.jsonl" for side in self.sides}
        for file in cells.values():
            file.unlink(missing_ok=True)
        commands = {side: self.command(side, wanted[side], block, cells[side]) for side in self.sides}
        measure = self._in_turns if self.launch.turns else self._one_after_the_other
        endings = measure(commands, folder, tick)
        if endings.uneven > UNEVEN_CORES and not self.is_counted and not endings.said:
            more = f"other programs used {endings.uneven:.2f} more cores during one side's launch than the other's"
            tqdm.write(f"pair {block + 1} of {self.name} does not count: {more}")
            return True
        before = _progress(wanted)
        for side, records in wanted.items():
            _store(records, cells[side], block, endings.killed.get(side))
        for pair in zip(*self.sides.values(), strict=True):
            _leave_out(pair)
        if _progress(wanted) == before:
            raise HarnessError(f"{self.name}: nothing was measured: {endings.said or 'no process reported why'}")
        return True

    def command(self, side: Side, records: Sequence[Record], block: int, cells: Path) -> list[str]:
        """Return the command of a launch on this side."""
        command = self.launch.command(records, cells, block)
        # -P keeps the checkout, in which the package is not built, off the front of sys.path.
        package = f"--package-at={side.package}={side.site_packages}"
        return [*side.start, "-P", *command[1:], package]

    def by_hand(self, side: Side) -> list[str]:
        """Return a command that measures its benchmarks only on this side, and prints the figures."""
        command = self.command(side, self.sides[side], 0, Path())
        return [word for word in command if not word.startswith("--cells")]

    def _in_turns(self, commands: Commands, folder: Path, tick: Callable[[], None]) -> Endings:
        # Chance decides which side begins and on which core, so that neither side gains an advantage.
        begins, core = random.choice(list(commands)).name, random.choice(sorted(os.sched_getaffinity(0)))
        endings = folder / "endings.json"
        endings.unlink(missing_ok=True)
        command = [sys.executable, "-m", "suites.gate.pair", f"--begins={begins}", f"--core={core}"]
        command += [f"--endings={endings}", *(f"--{side.name}={json.dumps(each)}" for side, each in commands.items())]
        ending = processes.run(command, LIMIT_SECONDS, tick)
        if ending.timed_out:  # one side hangs and the other waits for it: separate launches show which one hangs
            return self._one_after_the_other(commands, folder, tick)
        if not endings.exists():
            return Endings(ending.trouble, {})
        statuses = json.loads(endings.read_text())
        killed = [side for side in commands if statuses[side.name] < 0]
        return Endings(ending.trouble, {side: processes.exit_reason(statuses[side.name]) for side in killed})

    def _one_after_the_other(self, commands: Commands, _folder: Path, tick: Callable[[], None]) -> Endings:
        limit = max(LIMIT_SECONDS, self.launch.least_limit)
        endings, beside = {}, []
        for side in random.sample(list(commands), len(commands)):
            with others() as seen:
                endings[side] = processes.run(commands[side], limit, tick)
            beside.append(seen)
        said = [f"{side.name} {ending.trouble}" for side, ending in endings.items() if ending.trouble]
        killed = {side: str(each.trouble) for side, each in endings.items() if each.is_the_peers}
        return Endings("; ".join(said), killed, unevenness(beside))


def _leave_out(records: Sequence[Record]) -> None:
    """Mark a record that was not measured because the other side has no figure."""
    for record, other in (records, records[::-1]):
        if record.pending and not (other.ok or other.pending):
            record.fail("left_out", f"{other.peer} has no figure: {other.reason}")


def _progress(wanted: Mapping[Side, Sequence[Record]]) -> list[tuple[object, int]]:
    return [(record.status, len(record.samples)) for records in wanted.values() for record in records]


def _store(records: Sequence[Record], cells: Path, block: int, trouble: str | None) -> None:
    results = list(read_results(cells))
    missing = []
    for record in records:
        result = next((each for each in reversed(results) if each.is_of(record)), None)
        if result is None:
            missing.append(record)
            continue
        if result.value is not None:
            record.add_sample(block, result.value, result.calls)
        if result.outcome != "ok":
            record.fail(result.outcome, result.reason or "no reason was given")
    if missing and trouble:
        for record in missing:
            record.fail("failed", f"pair {block + 1}, at {missing[0].label}: {trouble}")


def record_key(record: Record) -> Key:
    """Return the key that a record has on both sides."""
    return record.suite, record.benchmark, record.workload, *record.params.items()


def declare(run: Run, sides: Sequence[Side], peers: Sequence[str]) -> list[Pair]:
    """Declare the records that are judged, and return the launches that measure them.

    Each suite measures the first peer that it supports.
    """
    pairs = []
    for suite in map(suite_named, SUITES):
        settings = suite.profiles.get(PROFILE)
        able = [peer for peer in peers if peer in suite.peers()][:1]
        if settings is None or not able:
            continue
        draft = Run("gate", PROFILE, run.revision, run.command, run.machine)
        for launch in suite.launches(draft, settings, able, workloads.possible(suite.workloads(settings))):
            judged = [
                record for record in launch.records if suite.compared is None or record.benchmark in suite.compared
            ]
            if judged:
                pairs.append(
                    Pair(launch, {side: [_declared(run, side, record) for record in judged] for side in sides})
                )
    return pairs


def _declared(run: Run, side: Side, record: Record) -> Record:
    about = {name: getattr(record, name) for name in ("suite", "benchmark", "workload", "params", "unit", "better")}
    cell = run.cell(peer=side.name, **about)
    if record.status == "skipped" and cell.pending:
        cell.fail("skipped", record.reason or "")
    return cell
