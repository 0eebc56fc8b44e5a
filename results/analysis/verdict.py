"""Judges whether "head" is slower than "base" in a gate run that is complete or still being measured.

A timed figure is judged after each pair, by the evidence of its pairs so far (`evidence.py`), until it is decided:

- It is a regression if there is enough evidence that head is slower *and* it is slower by at least the smallest
  relevant change (`rules.py`). Over all benchmarks of a gate together, the probability that any of them is wrongly
  found to be slower is at most `FALSE_ALARM`, however often the evidence is examined: the evidence required is the
  number of benchmarks divided by `FALSE_ALARM` (Bonferroni).
- It passes if a slow-down by the smallest relevant change is ruled out, which is wrong with probability `MISSED`.
- Otherwise it is undecided ("can't tell").

A counted figure is a regression if, in each of three launches, head's count is higher than all of base's by the
smallest relevant change. A benchmark that base can run but head cannot is a regression, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from statistics import median

from results import Record, Run
from results.analysis.evidence import bounds, log_wealth
from results.analysis.pairs import by_block, log_slow_downs
from results.analysis.rules import CONFIRMED, FALSE_ALARM, MISSED, Rule, rule_of
from results.jobs import Job, jobs_of
from results.words import counted

BASE, HEAD = "base", "head"
FASTER, LESS_WORK = "faster", "less work"  # notes on a benchmark that passes
NOT_YET = "not measured yet"
DIFFERS = "differs from launch to launch"  # for a count, further launches cannot decide


class Status(IntEnum):
    """The exit status of a gate."""

    PASS = 0
    REGRESSION = 1
    CANT_TELL = 2
    HARNESS_ERROR = 3


class Word(StrEnum):
    PASS = "pass"
    REGRESSION = "regression"
    CANT_TELL = "can't tell"
    NOT_JUDGED = "not judged"


class HarnessError(Exception):
    """The run cannot be judged."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one benchmark.

    Changes are fractions: 0.3 means that head takes 30% longer, or has 30% less throughput.
    """

    job: Job
    rule: Rule
    word: Word
    note: str = ""
    pairs: int = 0
    base: float = math.nan  # median over launches, in the job's unit
    head: float = math.nan
    change: float = math.nan
    differences: tuple[float, ...] = ()  # for each pair, the log of head's time divided by base's

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """A lower and an upper bound of the change, each of which is wrong with probability `MISSED`."""
        if not self.differences:
            return self.change, self.change
        expected = math.log1p(self.rule.effect)
        low, high = (math.expm1(each) for each in bounds(self.differences, MISSED, expected))
        return low, high

    @property
    def is_known(self) -> bool:
        """Whether any pair was measured, or there is a reason why none was."""
        return bool(self.pairs) or self.note != NOT_YET

    @property
    def is_lost(self) -> bool:
        """Whether head can no longer run what base can, or returns wrong answers."""
        return self.word is Word.REGRESSION and not self.pairs

    @property
    def is_open(self) -> bool:
        """Whether more pairs could decide the benchmark."""
        return self.word is Word.CANT_TELL and self.note != DIFFERS


def judge(run: Run) -> list[Verdict]:
    """Return a verdict on each benchmark of the run, from what has been measured so far. Raises `HarnessError`."""
    verdicts, trouble = judge_what_can_be(run)
    if trouble:
        raise trouble
    return verdicts


def judge_what_can_be(run: Run) -> tuple[list[Verdict], HarnessError | None]:
    """Return the verdicts on the benchmarks that can be judged, and if there are others, why one of them cannot."""
    jobs = jobs_of(run)
    timed = sum(not rule_of(job).exact for job in jobs)
    verdicts, trouble = [], None
    for job in jobs:
        try:
            verdicts.append(_judge(job, timed))
        except HarnessError as error:
            trouble = trouble or error
    return verdicts, trouble


def _judge(job: Job, timed: int) -> Verdict:
    rule = rule_of(job)
    if lost := _lost(job):
        return Verdict(job, rule, *lost)
    base, head = (by_block(job.cells[side]) for side in (BASE, HEAD))
    blocks = sorted(base.keys() & head.keys())
    if not blocks:
        return Verdict(job, rule, Word.CANT_TELL, NOT_YET)
    middles = median(base[block] for block in blocks), median(head[block] for block in blocks)
    if rule.exact:
        return _judge_counts(job, rule, base, head, middles)
    differences = list(log_slow_downs(base, head, job.better))
    word, note, looked = decide(differences, rule.effect, timed)
    seen = tuple(differences[:looked])
    change = math.expm1(median(seen))
    is_faster = log_wealth([-each for each in seen], 0.0, 2 * math.log1p(rule.effect))[-1] >= -math.log(MISSED)
    if word is Word.PASS and change <= -rule.effect and is_faster:
        note = FASTER
    return Verdict(job, rule, word, note, looked, *middles, change, seen)


def decide(differences: Sequence[float], effect: float, timed: int) -> tuple[Word, str, int]:
    """Return the first decision that these pairs permit, a note, and the number of pairs after which it was made.

    `differences` are logs of head's time divided by base's; `timed` is the number of timed benchmarks of the gate.
    """
    limit = math.log1p(effect)
    slower = log_wealth(differences, 0.0, 2 * limit)
    within = log_wealth([-each for each in differences], -limit, limit)
    for looked in range(1, len(differences) + 1):
        is_slower = slower[looked - 1] >= math.log(timed / FALSE_ALARM)
        if is_slower and median(differences[:looked]) >= limit:
            return Word.REGRESSION, "", looked
        if within[looked - 1] >= -math.log(MISSED):
            return Word.PASS, "slower, but by less than the smallest relevant change" if is_slower else "", looked
    return Word.CANT_TELL, _what_is_missing(differences, limit, timed, slower[-1], within[-1]), len(differences)


def _what_is_missing(differences: Sequence[float], limit: float, timed: int, slower: float, within: float) -> str:
    """Estimate how many more pairs would decide, if the wealth continued to grow at the same rate."""
    count, centre = len(differences), median(differences)
    enough, wealth = (math.log(timed / FALSE_ALARM), slower) if centre >= limit else (-math.log(MISSED), within)
    more = (enough - wealth) * count / wealth if wealth > 0 else math.inf
    if more <= 20 * count:
        return f"needs about {counted(max(1, math.ceil(more)), 'more pair')}"
    return "its change is close to the smallest relevant one" if abs(centre - limit) < limit / 2 else "too noisy"


def _judge_counts(
    job: Job, rule: Rule, base: dict[int, float], head: dict[int, float], middles: tuple[float, float]
) -> Verdict:
    def change(mine: float, other: float) -> float:
        if abs(mine - other) <= rule.ignored:
            return 0.0
        ratio = mine / other if other else (1.0 if mine == other else math.inf)
        return (ratio if job.better == "lower" else 1 / ratio) - 1

    changes = [change(mine, other) for mine in head.values() for other in base.values()]
    least, most = min(changes), max(changes)
    word, note = Word.PASS, ""
    if least > rule.effect:
        missing = CONFIRMED - min(len(base), len(head))
        word = Word.CANT_TELL if missing > 0 else Word.REGRESSION
        note = f"more, needs {counted(missing, 'more pair')}" if missing > 0 else ""
    elif most > rule.effect:
        word, note = Word.CANT_TELL, DIFFERS
    elif most < -rule.effect:
        note = LESS_WORK
    return Verdict(job, rule, word, note, len(head), *middles, change(middles[1], middles[0]))


def _lost(job: Job) -> tuple[Word, str] | None:
    """Return the verdict on a benchmark for which a side has no figure."""
    base, head = job.cells.get(BASE), job.cells.get(HEAD)
    if base is None or head is None:
        raise HarnessError(f"{job.full_label}: no record for {BASE if base is None else HEAD}")
    for side in (base, head):
        if side.status == "broken" or (side is base and side.status in ("failed", "wrong")):
            raise HarnessError(f"{side.status}: {side.label}: {side.reason}")
    if base.status == "skipped":
        return Word.NOT_JUDGED, f"base has no figure: {base.reason}"
    if head.status in ("failed", "wrong", "skipped"):
        return Word.REGRESSION, f"{head.status}: {head.reason}"
    return None


def check_kind(run: Run) -> None:
    """Raise `HarnessError` unless this is a gate run whose sides could be measured."""
    if run.kind != "gate":
        raise HarnessError(f"this is a {run.kind} run, not a gate run")
    names = sorted(peer.name for peer in run.peers)
    if names != [BASE, HEAD]:
        raise HarnessError(f'the peers must be "base" and "head", not: {", ".join(names) or "none"}')
    for peer in run.peers:
        if peer.reason:
            raise HarnessError(f"{peer.name} could not be measured: {peer.reason}")


def incomplete(run: Run) -> str:
    """Return why the run is incomplete, or "" if every benchmark has a figure or a reason for having none."""
    if problems := run.problems(excused=_is_judged):
        return "the run is incomplete:\n  " + "\n  ".join(problems)
    return "" if run.finished is not None else "the run never finished"


def _is_judged(record: Record) -> bool:
    return record.peer == HEAD and record.status in ("failed", "wrong")


def status_of(verdicts: Sequence[Verdict], strict: bool = False) -> Status:
    """Return the gate's exit status. With `strict`, an undecided benchmark fails the gate."""
    words = {verdict.word for verdict in verdicts}
    if words <= {Word.NOT_JUDGED}:
        raise HarnessError("there is no benchmark that both base and head can run")
    if Word.REGRESSION in words:
        return Status.REGRESSION
    if Word.CANT_TELL in words:
        return Status.REGRESSION if strict else Status.CANT_TELL
    return Status.PASS
