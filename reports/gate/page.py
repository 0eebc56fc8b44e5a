"""The gate's page: the verdicts as a table, and each timed benchmark's change in every pair. It loads nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from reports.figures.formatting import spoken_time
from reports.gate import table
from reports.plots import Changes, Picture, changes, draw
from reports.rendering import render
from results import Run
from results.analysis.verdict import BASE, HEAD, Verdict


@dataclass(frozen=True)
class Panel:
    title: str
    said: str  # its verdict
    picture: Picture


def page(run: Run, verdicts: Sequence[Verdict], commands: Sequence[str], answer: str) -> str:
    """Return the page as HTML."""
    return render(
        "gate.html.j2",
        {
            "run": run,
            "title": answer,
            "started": spoken_time(run.started),
            "versions": {side: run.peer(side).version for side in (BASE, HEAD)},
            "columns": table.COLUMNS,
            "right": table.TO_THE_RIGHT,
            "rows": table.rows_of(verdicts),
            "commands": commands,
            "panels": [_panel(each) for each in table.in_order(verdicts) if each.differences],
        },
    )


def _panel(verdict: Verdict) -> Panel:
    changed = [math.expm1(each) for each in verdict.differences]
    shown = Changes(changed, verdict.rule.effect, "pair", verdict.bounds)
    title = verdict.job.full_label
    return Panel(title, str(verdict.word), draw(f"{title}, change in each pair", partial(changes, shown)))
