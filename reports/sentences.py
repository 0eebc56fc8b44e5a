"""One sentence for each kind of reader, from the records alone: what to take, by how much, and where that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.answers import keeps_references
from reports.conformance import failed_checks
from reports.formatting import counted, listed
from reports.heatmap import shared_columns, typical_workloads
from reports.integrity import safety_of
from reports.jobs import (
    APEX_SUITE,
    CONFORMANCE_SUITE,
    INTEGRITY_SUITE,
    THROUGHPUT_SUITE,
    Job,
    base_name,
    fastest_first,
    reference_name,
)
from reports.ratios import Ratio, ratio_of
from results import Run, Workload


@dataclass(frozen=True)
class Sentence:
    reader: str
    text: str


def sentences(run: Run, jobs: Sequence[Job]) -> list[Sentence]:
    """Those that the run has records for."""
    speeds = [job for job in jobs if job.suite == THROUGHPUT_SUITE]
    small, large = typical_workloads(run, speeds)
    found = [
        ("One process, small rows", _one_process(run, speeds, small)),
        ("One process, large rows such as Atari frames", _one_process(run, speeds, large)),
        ("Many processes", _many_processes(run, jobs)),
        ("Correctness first", _correctness(run)),
    ]
    return [Sentence(reader, text) for reader, text in found if text]


def _one_process(run: Run, jobs: Sequence[Job], workload: Workload | None) -> str:
    """The peer that wins most jobs among those that copy what they add, and which others win the rest."""
    mine = [job for job in jobs if workload and job.workload == workload.name and job.measured]
    if not mine:
        return ""
    winners: dict[str, list[Job]] = {}
    for job in mine:
        if winner := _fastest_copying(run, job):
            winners.setdefault(winner, []).append(job)
    if not winners:
        return ""
    leader = max(winners, key=lambda peer: len(winners[peer]))
    where = f"{len(winners[leader])} of {counted(len(mine), 'job')} on {mine[0].workload}"
    among = " of the buffers that copy what they add" if any(_careless(run, job) for job in mine) else ""
    text = f"{leader} is fastest{among} at {where}{_span(run, winners[leader], leader)}"
    others = [
        f"{peer} at {listed([job.label for job in won], most=2)}" for peer, won in winners.items() if peer != leader
    ]
    if others:
        text += f"; faster there: {listed(others, most=3)}"
    return f"{text}."


def _careless(run: Run, job: Job) -> set[str]:
    """The peers measured here that only keep references to what they are given."""
    return {peer.name for peer in run.peers if peer.name in job.measured and keeps_references(peer, job)}


def _fastest_copying(run: Run, job: Job) -> str | None:
    careless = _careless(run, job)
    ranked = fastest_first([record for peer, record in job.measured.items() if peer not in careless])
    return ranked[0].peer if ranked else None


def _span(run: Run, jobs: Sequence[Job], peer: str) -> str:
    """The least and the largest ratio to the reference."""
    reference = reference_name(run, THROUGHPUT_SUITE)
    ratios = [ratio for job in jobs if (ratio := ratio_of(job.measured[peer], job.shown.get(reference or "")))]
    if not ratios:
        return ""
    least, most = (pick(ratios, key=lambda ratio: ratio.value) for pick in (min, max))
    span = least.short if least is most else f"{least.short} to {most.short}"
    return f", {span} the speed of {reference}"


def _many_processes(run: Run, jobs: Sequence[Job]) -> str:
    """In Ape-X, else in empty loops: the soundest buffer first, and its explorers beside its learner."""
    apex, sharing = shared_columns(jobs)
    columns = apex or sharing
    sides = [column.job for column in columns[:2]]
    if len(sides) < 2:
        return ""
    suite = sides[0].suite
    reference, safety = reference_name(run, suite), safety_of(run)
    sound = {peer for peer in sides[0].measured if not safety or (peer in safety and safety[peer].word == "sound")}
    ranked = fastest_first([record for peer, record in sides[1].measured.items() if peer in sound])
    if not ranked:
        return f"no buffer in the {suite} suite passed every check of its rows."
    best = ranked[0].peer
    adds, learns = (ratio_of(job.shown.get(best), job.shown.get(reference or "")) for job in sides)
    where = f"{'in Ape-X' if suite == APEX_SUITE else 'in empty loops'} with"
    where += f" {counted(int(sides[0].params['explorers']), 'explorer')}"
    passed = f"{best} has the fastest learner of the {'sound ' if safety else ''}buffers {where}"
    if not (adds and learns):
        return f"{passed}."
    unsafe = f", which is unsafe ({safety[reference].found})" if reference in safety and safety[reference].mark else ""
    return f"{passed}: it samples {_said(learns)} and adds {_said(adds)} as fast as {reference}{unsafe}."


def _said(ratio: Ratio) -> str:
    return f"more than {ratio.short.removeprefix('>')}" if ratio.is_bound else ratio.short


def _correctness(run: Run) -> str:
    """Of the peers that were checked, which passed; which did not, by what was found."""
    safety = safety_of(run)
    looking = (CONFORMANCE_SUITE, INTEGRITY_SUITE)
    results = [record for record in run.records if record.suite in looking and record.status in ("ok", "wrong")]
    checked = {record.peer for record in results}
    if not checked:
        return ""
    failed: dict[str, list[str]] = {peer: list(checks) for peer, checks in failed_checks(run).items()}
    for peer, each in safety.items():
        if each.mark:
            failed.setdefault(peer, []).append(each.found)
    order = [peer.name for peer in run.peers if peer.name in checked]
    passed = [peer for peer in order if peer not in failed and not (peer in safety and safety[peer].word != "sound")]
    subject = next((peer.name for peer in run.peers), "")
    first = sorted(passed, key=lambda peer: base_name(peer) != base_name(subject))
    wrong = [peer for peer in order if peer in failed]
    text = f"{len(passed)} of {counted(len(order), 'peer')} passed every check"
    text += f", among them {listed(first, most=4)}" if len(first) > 4 else f": {listed(first)}" if first else ""
    if wrong:
        shown = [f"{peer} ({failed[peer][0]})" for peer in wrong]
        text += f"; {len(wrong)} did not, such as {listed(shown[:2])}" if len(wrong) > 3 else f"; not {listed(shown)}"
    return f"{text}."
