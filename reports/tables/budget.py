"""Sentences about the time budget of a run, and about what was left out because of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from typing import Literal

from reports.rendering import worded
from results import Run
from results.jobs import is_finding
from results.words import counted

said = partial(worded, "budget.j2")


def left_out(run: Run, undecided: int = 0) -> str:
    """Say how long the run took, its budget, what was left out, and how many jobs have no verdict on the fastest peer;
    "" for a complete run without a budget."""
    dropped = [record for record in run.records if record.status == "left_out"]
    if run.minutes is None and not dropped:
        return ""
    by_peer = Counter(record.peer for record in dropped)
    what = [f"{counted(count, 'cell')} of {peer}" for peer, count in by_peer.items()]
    about = {"took": run_minutes(run), "budget": run.minutes, "cells": len(dropped), "what": what}
    return said("left_out", **about, undecided=undecided if run.is_whole else 0)


def left_out_whole(run: Run, what: Literal["suite", "peer"] = "suite") -> list[str]:
    """Return the suites or the peers that have no figure because of the budget."""
    seen = {getattr(each, what) for each in run.records if each.ok or is_finding(each) or each.samples}
    names = dict.fromkeys(getattr(each, what) for each in run.records if each.status == "left_out")
    return [name for name in names if name not in seen]


def budget_line(run: Run, spoken: Mapping[str, str], with_ratios: Collection[str]) -> str:
    """Say, for the top of the page, how much of the run the budget allowed and with how few launches; return "" if
    nothing was left out.

    `spoken` has the names of suites for sentences, `with_ratios` the suites whose figures are compared as ratios.
    """
    dropped = sum(record.status == "left_out" for record in run.records)
    compared = {len(each.samples) for each in run.records if each.ok and each.suite in with_ratios}
    return said(
        "line",
        budget=run.minutes,
        measured=sum(record.ok or is_finding(record) for record in run.records),
        declared=run.declared,
        dropped=dropped,
        suites=[spoken.get(suite, suite) for suite in left_out_whole(run)],
        peers=left_out_whole(run, "peer"),
        launched_once=compared == {1} and bool(dropped or run.minutes is not None),
    )


def run_minutes(run: Run) -> float | None:
    if run.finished is None:
        return None
    started, finished = (datetime.fromisoformat(time) for time in (run.started, run.finished))
    return (finished - started).total_seconds() / 60
