"""How often the gate raises a false alarm, and what it detects, from the records of `make gate-power`.

    python -m reports.gate.power        writes the table into docs/gate.md

There are two estimates, which must agree: one from measured gates, and one from gates whose pairs are drawn from a pool
of pairs of equal builds. Pairs are drawn with replacement, all benchmarks of a pair together, and judged one after the
other, as in a real gate. To simulate a slow-down of one benchmark at a time, its logarithm is added to each of the
benchmark's differences.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
from scipy import stats

from reports.figures.formatting import span
from reports.rendering import table
from reports.tables.budget import run_minutes
from results import Run, load
from results.analysis import evidence, rules, verdict
from results.analysis.pairs import by_block, log_slow_downs
from results.analysis.rules import MANY, SINGLE, WORK, Rule, rule_of
from results.analysis.studies import BESIDE, COUNTED, LEVELS, NEIGHBOUR, POWER, WAYS
from results.analysis.verdict import BASE, HEAD, Verdict, Word, decide, judge
from results.machine import processor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gate.md"
BEGIN, END = "<!-- measured by make gate-power -->", "<!-- end -->"
DRAWN_GATES, DRAWN_BENCHMARKS = 1_000, 100
ABOUT = 0.75, 1.33  # times a level: the level's row counts benchmarks of real gates whose slow-down is between these
MOST_PAIRS = 35  # per benchmark: ten minutes suffice for these even if no benchmark is decided
SEED = 17
#: The code that decides: a table that was made with different code is out of date.
DECIDES = (evidence, rules, verdict)
HEADER = ("", "drawn from the pool", "real gates")
NOISE_HEADER = ("", "spread of pairs, median", "largest", "largest bias")


@dataclass(frozen=True)
class Share:
    """A count out of a total, with the exact 95% interval of Clopper and Pearson (1934)."""

    count: int
    of: int

    def __str__(self) -> str:
        if not self.of:
            return "not measured"
        interval = stats.binomtest(self.count, self.of).proportion_ci(0.95, method="exact")
        return f"{self.count / self.of:.1%} ({span(interval, '{:.1%}'.format)}) of {self.of:,}"


@dataclass(frozen=True)
class Pool:
    """Pairs of equal builds: the differences and the rule of each timed benchmark."""

    differences: np.ndarray  # (benchmarks, pairs), logs of head's time divided by base's; NaN: this pair did not count
    rules: Sequence[Rule]

    @classmethod
    def of(cls, run: Run) -> Pool:
        jobs = [each.job for each in judge(run) if each.pairs and not each.rule.exact]
        blocks = sorted({sample.block for record in run.records for sample in record.samples})
        differences = np.full((len(jobs), len(blocks)), np.nan)
        for row, job in zip(differences, jobs, strict=True):
            base, head = (by_block(job.cells[side]) for side in (BASE, HEAD))
            row[np.isin(blocks, sorted(base.keys() & head.keys()))] = log_slow_downs(base, head, job.better)
        return cls(differences, [rule_of(job) for job in jobs])

    def gates(self) -> Iterator[list[Word]]:
        """Yield each drawn gate's decisions on all benchmarks."""
        random = np.random.default_rng(SEED)
        for _ in range(DRAWN_GATES):
            drawn = self.differences[:, self._drawn(random)]
            yield [self._decide(each, rule) for each, rule in zip(drawn, self.rules, strict=True)]

    def found(self, level: float, rule: Rule) -> Share:
        """Return how often this slow-down (a fraction) is found to be a regression, in the benchmarks with this
        rule."""
        random = np.random.default_rng(SEED)
        some = [row for row, its in zip(self.differences, self.rules, strict=True) if its == rule]
        drawn = [row[self._drawn(random)] + math.log1p(level) for row in some for _ in range(DRAWN_BENCHMARKS)]
        return Share(sum(self._decide(each, rule) is Word.REGRESSION for each in drawn), len(drawn))

    def _drawn(self, random: np.random.Generator) -> np.ndarray:
        return random.integers(0, self.differences.shape[1], MOST_PAIRS)

    def _decide(self, differences: np.ndarray, rule: Rule) -> Word:
        return decide(differences[np.isfinite(differences)].tolist(), rule.effect, len(self.rules))[0]


Gates = Sequence[Sequence[Verdict]]


def runs_of(folder: Path, name: str) -> list[Run]:
    """Return the complete runs of this name."""
    runs = [load(path) for path in sorted(folder.glob(f"{name}-[0-9]*.json"))]
    return [run for run in runs if run.is_whole]


def gates_of(folder: Path, name: str) -> Gates:
    return [judge(run) for run in runs_of(folder, name)]


def alarms(gates: Sequence[Sequence[Word]]) -> Share:
    return Share(sum(Word.REGRESSION in gate for gate in gates), len(gates))


def undecided(gates: Sequence[Sequence[Word]]) -> Share:
    """Return the share of undecided benchmarks among all benchmarks of all gates."""
    every = [word for gate in gates for word in gate]
    return Share(every.count(Word.CANT_TELL), len(every))


def minutes(folder: Path, name: str) -> str:
    """Return the median and the range of the minutes that these gates took."""
    took = [run_minutes(run) or 0.0 for run in runs_of(folder, name)]
    return f"{median(took):.1f} ({span((min(took), max(took)), '{:.1f}'.format)})" if took else "not measured"


def words(gates: Gates) -> list[list[Word]]:
    return [[each.word for each in gate if each.word is not Word.NOT_JUDGED] for gate in gates]


Slowed = list[tuple[float, Verdict]]


def slowed(gates: Gates) -> Slowed:
    """Return the verdicts of gates with the same slow-down of calls, each with the actual slow-down of its benchmark:
    the median of the benchmark's changes in these gates.

    A benchmark that spends much of its time in Python code slows down by less than its calls.
    """
    alike = defaultdict(list)
    for each in chain.from_iterable(gates):
        if each.pairs and each.job.suite != "startup":
            alike[each.job.full_label].append(each)
    return [(median(each.change for each in some), one) for some in alike.values() for one in some]


def slowed_in(folder: Path) -> Slowed:
    """Return the verdicts and actual slow-downs of all levels."""
    return [each for level in LEVELS for each in slowed(gates_of(folder, f"slowed-{level}"))]


def found(verdicts: Slowed, level: float, rule: Rule) -> Share:
    """Return how often a benchmark with this rule was found to be a regression, among benchmarks whose actual slow-down
    was about this level (for the highest level: at least about this level)."""
    most = math.inf if level == LEVELS[-1] / 100 else ABOUT[1]
    some = [each for change, each in verdicts if each.rule == rule and ABOUT[0] <= change / level <= most]
    return Share(sum(each.word is Word.REGRESSION for each in some), len(some))


def fingerprint() -> str:
    """Return a hash of the code that decides."""
    code = b"".join(Path(str(module.__file__)).read_bytes() for module in DECIDES)
    return hashlib.sha256(code).hexdigest()[:12]


def rows(folder: Path) -> Iterator[tuple[str, str, str]]:
    for prefix, where in (("", ""), (f"{NEIGHBOUR}-", BESIDE)):
        real = words(gates_of(folder, f"{prefix}equal"))
        record = folder / f"{prefix}pool.json"
        drawn = list(Pool.of(load(record)).gates()) if record.exists() else []
        yield f"gates with a false alarm{where}", str(alarms(drawn)), str(alarms(real))
        yield f'benchmarks left at "can\'t tell"{where}', str(undecided(drawn)), str(undecided(real))
        yield f"minutes per gate, without builds{where}", "", minutes(folder, f"{prefix}equal")
    pool = Pool.of(load(folder / "pool.json"))
    real_ones = slowed_in(folder)
    for rule, what in ((SINGLE, "one process"), (MANY, "several processes")):
        for level in LEVELS:
            shares = pool.found(level / 100, rule), found(real_ones, level / 100, rule)
            yield f"{level}% slower, {what}: found", *map(str, shares)
    share = found(slowed(gates_of(folder, COUNTED)), 0.05, WORK)
    yield "5% more instructions, counted: found", "", str(share)


def noise_rows(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield, for each way to measure pairs, how much equal builds differ."""
    for way in WAYS:
        record = folder / f"{way.record}.json"
        if record.exists():
            differences = Pool.of(load(record)).differences
            spreads = [stats.median_abs_deviation(row, scale="normal", nan_policy="omit") for row in differences]
            biases = [abs(float(np.nanmedian(row))) for row in differences]
            yield way.what, *(f"{each:.1%}" for each in (median(spreads), max(spreads), max(biases)))


def lines(folder: Path = POWER) -> list[str]:
    """Return the table of docs/gate.md."""
    run = load(folder / "pool.json")
    where = f"{run.machine['cores']} cores, {processor(run.machine)}"
    return [
        f"Measured from {run.started[:10]} on {where}. Code that decides: `{fingerprint()}`.",
        "",
        table(HEADER, rows(folder)).rstrip(),
        "",
        "How much the rules against noise gain, in pairs of equal builds and benchmarks of one process. The rows for a",
        "quiet machine, one busy process and two busy processes were measured together, one pair per row at a time.",
        "",
        table(NOISE_HEADER, noise_rows(folder)).rstrip(),
    ]


def main() -> int:
    if not (POWER / "pool.json").exists():
        print(f"not updated: {PAGE.name}, since there is no pool of pairs yet")
        return 0
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text("\n".join([text[:begin], *lines(), text[end:]]), encoding="utf-8")
    print(f"updated: {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
