"""The commands with which the gate measures a single benchmark, and then also says how to profile it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from reports.figures.formatting import runnable
from results import Run
from results.analysis.verdict import Verdict, Word

MOST = 3  # benchmarks for which commands are shown


def commands(run: Run, verdicts: Sequence[Verdict]) -> list[str]:
    """Return shell commands for the worst regressions, if there are any."""
    worse = [each for each in verdicts if each.word is Word.REGRESSION and not each.rule.exact]
    command = measured_again(run.command)
    return [
        f"{command} --only {shlex.quote(verdict.job.full_label)}"
        for verdict in sorted(worse, key=lambda each: (bool(each.pairs), -each.change if each.pairs else 0.0))[:MOST]
    ]


def measured_again(command: str) -> str:
    """Return the command of a gate as it is typed in a checkout, without its output file and its selection."""
    words = shlex.split(command)
    for option in {"--out", "--only"} & set(words):
        at = words.index(option)
        del words[at : at + 2]
    return runnable(shlex.join(words))
