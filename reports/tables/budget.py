"""Sentences about the time budget of a run, and what was left out because of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from reports.figures.formatting import listed
from results import Record, Run
from results.jobs import is_finding
from results.words import counted


def left_out(run: Run) -> str:
    """Say how long the run took, its budget, and what was left out; "" for a complete run without a budget."""
    dropped = [record for record in run.records if record.status == "left_out"]
    if run.minutes is None and not dropped:
        return ""
    minutes = run_minutes(run)
    took = "The run did not finish" if minutes is None else f"The run took {_minutes(round(minutes, 1))}"
    budget = "" if run.minutes is None else f" of its {run.minutes:g}-minute budget"
    if run.minutes is not None and minutes is None:
        budget = f"; its budget was {_minutes(run.minutes)}"
    if not dropped:
        return f"{took}{budget}; no cell was left out."
    by_peer: dict[str, int] = {}
    for record in dropped:
        by_peer[record.peer] = by_peer.get(record.peer, 0) + 1
    what = listed([f"{counted(count, 'cell')} of {peer}" for peer, count in by_peer.items()], most=12)
    were = "was" if len(dropped) == 1 else "were"
    return f"{took}{budget}. {counted(len(dropped), 'cell')} {were} left out because of the budget: {what}."


def _minutes(count: float) -> str:
    return f"{count:g} minute{'' if count == 1 else 's'}"


def left_out_whole(run: Run) -> list[str]:
    """The suites that have no figure because of the budget."""
    suites = dict.fromkeys(record.suite for record in run.records if record.status == "left_out")
    return [suite for suite in suites if not any(_has_result(each) for each in run.records if each.suite == suite)]


def _has_result(record: Record) -> bool:
    return record.ok or is_finding(record) or bool(record.samples)


def peers_left_out_whole(run: Run) -> list[str]:
    """The peers that have no figure because of the budget."""
    peers = dict.fromkeys(record.peer for record in run.records if record.status == "left_out")
    return [peer for peer in peers if not any(_has_result(each) for each in run.records if each.peer == peer)]


def budget_line(run: Run, spoken: Mapping[str, str], with_ratios: Collection[str]) -> str:
    """Say how much of the run the budget allowed and with how few launches, for the top of the page; "" if all of it.

    `spoken` has the names of suites for sentences, `with_ratios` the suites whose figures are compared as ratios.
    """
    parts = []
    if dropped := sum(record.status == "left_out" for record in run.records):
        measured = sum(record.ok or is_finding(record) for record in run.records)
        budget = "Time budget" if run.minutes is None else f"{run.minutes:g}-minute budget"
        parts.append(f"{budget}: {measured:,} of {run.declared:,} figures measured, {dropped:,} left out.")
        if whole := left_out_whole(run):
            names = [spoken.get(suite, suite) for suite in whole]
            parts.append(f"Suites left out entirely: {listed(names, most=len(names))}.")
        if peers := peers_left_out_whole(run):
            parts.append(f"No figures for {listed(peers, most=len(peers))}.")
    compared = {len(each.samples) for each in run.records if each.ok and each.suite in with_ratios}
    if compared == {1} and (dropped or run.minutes is not None):
        parts.append("Every ratio is based on one launch.")
    return " ".join(parts)


def run_minutes(run: Run) -> float | None:
    if run.finished is None:
        return None
    started, finished = (datetime.fromisoformat(time) for time in (run.started, run.finished))
    return (finished - started).total_seconds() / 60
