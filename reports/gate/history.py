"""How main's speed has changed, from the records of `make gate-history`: reveals drifts that no single change explains.

    python -m reports.gate.history [--out reports/out/gate-history.html]

Each record compares a commit with the same fixed commit, side by side, so that figures from different days can be
compared. New levels are found by PELT (Killick, Fearnhead and Eckley 2012), as implemented in the Python package
`ruptures`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import ruptures
from scipy.stats import median_abs_deviation

from reports.gate.page import Panel
from reports.gate.table import grown
from reports.plots import Changes, changes, draw
from reports.rendering import render
from results import BadRecord, load
from results.analysis.rules import Rule
from results.analysis.studies import HISTORY
from results.analysis.verdict import HEAD, HarnessError, judge

OUT = Path(__file__).resolve().parents[1] / "out" / "gate-history.html"
FEWEST = 8  # a series with fewer commits is not searched for new levels
IS_ZERO, WAS_ZERO = -0.99, 100.0  # stand for the changes -1 and infinity of a count, whose logarithms are infinite
LEVEL = 2  # the smallest number of commits in a level
LEAST_NOISE = {True: 0.001, False: 0.01}  # of exact figures (True) and of timed ones (False)
#: The reduction in squared error that a new level must achieve, in units of the noise's variance times the logarithm of
#: the number of commits. Where there is no new level, a penalty of 6 still finds one in 1.5% of series of 20 commits,
#: and in 9% of series of 8, which are too short to show the noise. It finds a jump of three standard deviations in 78%.
#: (Simulated with normal noise; the usual 2 finds a level in 26% of series of 20.)
PENALTY = 6.0


@dataclass
class Series:
    """A benchmark's changes relative to the fixed commit, as fractions, by commit; above 0 is worse."""

    rule: Rule
    commits: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    @cached_property
    def steps(self) -> list[int]:
        """The numbers of the commits at which a new level begins."""
        if len(self.values) < FEWEST:
            return []
        series = np.log1p(self.values)
        jumps = np.diff(series)
        noise = max(LEAST_NOISE[self.rule.exact], median_abs_deviation(jumps, scale="normal") / math.sqrt(2))
        search = ruptures.Pelt(model="l2", min_size=LEVEL, jump=1).fit(series / noise)
        return search.predict(pen=PENALTY * math.log(len(series)))[:-1]

    def new_levels(self) -> Iterator[tuple[str, float]]:
        """Yield each commit at which a level begins, and the fraction by which it differs from the previous level
        (infinite if that level was 0).
        """
        ends = [0, *self.steps, len(self.values)]
        levels = [median(self.values[begin:end]) for begin, end in pairwise(ends)]
        for begin, (before, after) in zip(self.steps, pairwise(levels), strict=True):
            if before == IS_ZERO or after == WAS_ZERO:
                change = math.inf
            elif after == IS_ZERO or before == WAS_ZERO:
                change = -1.0
            else:
                change = (1 + after) / (1 + before) - 1
            yield self.commits[begin], change


@dataclass
class History:
    """All measured commits, in their order, and the series of each benchmark."""

    commits: list[str] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path = HISTORY) -> History:
        """Read the records. A commit in which a benchmark has no figure is left out of its series."""
        every = cls()
        for path in sorted(folder.glob("*.json")):
            run = load(path)
            commit = str(run.peer(HEAD).version)[:10]
            every.commits.append(commit)
            for verdict in judge(run):
                if not math.isnan(verdict.change):
                    series = every.series.setdefault(verdict.job.full_label, Series(verdict.rule))
                    series.commits.append(commit)
                    series.values.append({-1.0: IS_ZERO, math.inf: WAS_ZERO}.get(verdict.change, verdict.change))
        return every


def lines(history: History) -> list[str]:
    """Return the changes by commit, with the largest changes of each commit first."""
    by_commit: dict[str, list[tuple[float, str]]] = {commit: [] for commit in history.commits}
    for label, each in history.series.items():
        for commit, change in each.new_levels():
            by_commit[commit].append((change, label))
    if not any(by_commit.values()):
        return ["no new level in any benchmark"]
    said = []
    for commit, some in by_commit.items():
        if not some:
            continue
        said.append(f"since {commit}:")
        said += [f"  {grown(change):>8}  {label}" for change, label in sorted(some, key=lambda each: -abs(each[0]))]
    return said


def page(history: History) -> str:
    """Return the page as HTML: benchmarks with new levels first."""
    panels = []
    for label, each in sorted(history.series.items(), key=lambda item: not item[1].steps):
        shown = Changes(each.values, each.rule.effect, "commit", steps=each.steps)
        said = "; ".join(f"{grown(change)} since {commit}" for commit, change in each.new_levels()) or "no new level"
        panels.append(Panel(label, said, draw(f"{label}, by commit", partial(changes, shown))))
    return render("history.html.j2", {"panels": panels, "commits": history.commits})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.gate.history", description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=HISTORY)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(arguments)
    try:
        history = History.load(args.folder)
    except (BadRecord, HarnessError) as error:
        print(f"gate-history: {error}", file=sys.stderr)
        return 1
    if not history.commits:
        print(f"there is no record in {args.folder.name} yet")
        return 0
    print("\n".join(lines(history)))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(page(history), encoding="utf-8")
    print(f"each benchmark over all commits: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
