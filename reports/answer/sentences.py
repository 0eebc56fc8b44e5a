"""One sentence for each kind of reader, from the records alone: which peer is best, by how much, and where it loses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reports.answer.heatmap import shared_columns, typical_workloads
from reports.checks import Check, integrity
from reports.checks.integrity import APEX
from reports.commands import peers_option
from reports.figures.formatting import listed
from reports.figures.ranking import WITHIN, Answer, answer_among, answers_of, careless_peers
from reports.figures.ratios import Ratio, ratio_of
from reports.rendering import worded
from reports.sections.section import Context
from results import RecordedWorkload, Run
from results.jobs import Job
from results.suites import SUITES, suite_of
from results.verdicts import library_of
from results.words import counted

DEFAULT = "quick"  # the profile of `make bench`
said = partial(worded, "sentences.j2")


@dataclass(frozen=True)
class Sentence:
    reader: str
    text: str


def sentences(context: Context) -> list[Sentence]:
    """Return the sentences for which the run has records."""
    speeds = [job for job in context.jobs if job.suite == "throughput"]
    small, large = typical_workloads(context.run, speeds)
    checked = [text for check in _checks(context) if (text := _checked(context.run, check))]
    found = [
        ("One process, small rows", _one_process(context, speeds, small)),
        ("One process, large rows", _one_process(context, speeds, large)),
        ("Many processes", _many_processes(context)),
        ("Correctness first", " ".join(checked)),
        ("Compared", _compared(context.run) if speeds else ""),
    ]
    return [Sentence(reader, text) for reader, text in found if text]


def _compared(run: Run) -> str:
    """Name the libraries of a run of the default peers, and say how to compare more; return "" for other runs."""
    if run.profile != DEFAULT or peers_option(run.command):
        return ""
    return said("compared", libraries=list(dict.fromkeys(library_of(peer.name) for peer in run.peers)))


def _checks(context: Context) -> list[Check]:
    """Return the suites that check answers; without the integrity suite, what Ape-X checked instead."""
    absent = bool(integrity.missing(context))
    return [integrity.ROWS if absent and check is integrity.CHECK else check for check in context.checks]


def _one_process(context: Context, jobs: Sequence[Job], workload: RecordedWorkload | None) -> str:
    """Name the peer that is fastest at the most jobs with a rival, as certainly as the table of these jobs says."""
    mine = [job for job in jobs if workload and job.workload == workload.name and job.measured]
    run, reference = context.run, context.reference(SUITES["throughput"])
    # If the fastest peer keeps references, use the table's second row, which compares the peers that copy.
    answers = {id(each.job): each for each in answers_of(run, mine, reference) if not each.keeps_references}
    rivalled = [each for each in answers.values() if each.winner and each.runner_up]
    if not rivalled:
        return ""
    contested = [each for each in rivalled if _is_contested(each.job)]
    few = [each.job.label for each in rivalled if contested and not _is_contested(each.job)]
    rivalled = contested or rivalled
    leader = Counter(each.winner for each in rivalled).most_common(1)[0][0]
    compared = [each for each in rivalled if leader in each.job.measured]
    others: dict[str, list[Answer]] = {}
    for each in compared:
        if library_of(str(each.winner)) != library_of(leader) and not _is_close_to(leader, each):
            others.setdefault(str(each.winner), []).append(each)
    kept = [each for each in answers_of(run, mine, reference) if each.keeps_references]
    return said(
        "one_process",
        copying=any(careless_peers(run, job) for job in mine),
        leader=leader,
        standing=_standing(leader, compared, reference),
        elsewhere=[_won(peer, answers) for peer, answers in others.items()],
        keeping=_keeping(leader, kept),
        few=few,
        alone=len(mine) - len(compared) - len(few),
    )


def _is_contested(job: Job) -> bool:
    """Whether more than two libraries can do this job."""
    return len(set(map(library_of, job.measured))) > 2


def _keeping(leader: str, answers: Sequence[Answer]) -> str:
    """Return the speed, relative to the leader, of the buffers that keep references, at the jobs at which they are
    fastest."""
    ratios = [ratio_of(each.job.measured[str(each.winner)], each.job.measured.get(leader)) for each in answers]
    known = [ratio for ratio in ratios if ratio]
    if not known:
        return ""
    peers = list(dict.fromkeys(each.winner for each in answers))
    return said("keeping", peers=peers, jobs=[each.job.label for each in answers], ends=_ends(known))


def _is_close_to(peer: str, answer: Answer) -> bool:
    """Whether a variant of this peer is close to the best of another library."""
    return answer.is_close and library_of(peer) in map(library_of, (str(answer.winner), str(answer.runner_up)))


def _standing(leader: str, compared: Sequence[Answer], reference: str | None) -> list[str]:
    """Return the number of these jobs at which the leader is the fastest, by certainty, and the number at which it is
    close."""
    ahead = [each for each in compared if library_of(str(each.winner)) == library_of(leader)]
    clear, sure = [each for each in ahead if each.clear], [each for each in ahead if each.clear or each.likely]
    close = [each for each in compared if _is_close_to(leader, each)]
    unsure = [each for each in ahead if each not in sure and each not in close]
    is_next = all(each.runner_up == reference for each in sure)  # otherwise its ratios would appear twice
    parts, span = [], "" if sure and is_next else _span([each.job for each in compared], leader, reference)
    if sure:
        counts = {"clear": len(clear), "sure": len(sure), "jobs": _jobs(compared)}
        parts.append(said("surely", **counts, lead=_lead(sure), span=span))
    if unsure:
        parts.append(said("ahead", count=len(unsure), jobs="" if sure else _jobs(compared), span="" if sure else span))
    for what, some in (
        ("equal", [each for each in close if each.is_equal]),
        ("undecided", [each for each in close if not each.is_equal]),
    ):
        if some:
            total = 0 if parts else len(compared)  # appears once
            words, on = said(what, within=WITHIN), compared[0].job.workload
            parts.append(said("among_jobs", what=words, count=len(some), jobs=total, workload=on))
    return parts


def _won(peer: str, answers: Sequence[Answer]) -> str:
    """Return at which jobs a peer is the fastest, and by how much if that is known."""
    where = listed([each.job.label for each in answers], most=2)
    return said("won", peer=peer, where=where, lead=_lead([each for each in answers if not each.is_close]))


def _lead(answers: Sequence[Answer]) -> str:
    ratios = [each.over_runner_up for each in answers if each.over_runner_up]
    is_variant = not all(each.over_another_library for each in answers)
    return said("lead", ends=_ends(ratios), is_variant=is_variant) if ratios else ""


def _ends(ratios: Sequence[Ratio]) -> list[str]:
    """Return the smallest and the largest ratio, or only one of them if they look the same."""
    return list(dict.fromkeys(pick(ratios, key=lambda ratio: ratio.value).short for pick in (min, max)))


def _jobs(answers: Sequence[Answer]) -> str:
    return f"{counted(len(answers), 'job')} on {answers[0].job.workload}"


def _span(jobs: Sequence[Job], peer: str, reference: str | None) -> str:
    """Return the smallest and the largest ratio to the reference, over all of these jobs, not only those at which the
    peer is fastest."""
    measured = [job for job in jobs if peer in job.measured]
    ratios = [ratio for job in measured if (ratio := ratio_of(job.measured[peer], job.shown.get(reference or "")))]
    return said("span", ends=_ends(ratios), reference=reference) if ratios else ""


def _many_processes(context: Context) -> str:
    """Name the buffer without a known fault that has the fastest learner, in Ape-X or else in empty loops. Compare the
    speeds of its learner and of its explorers with those of the fastest buffer of another library, whether or not that
    buffer is sound."""
    columns = shared_columns(context.jobs)
    plain = [column.job for column in (columns.in_apex or columns.in_loops)[:2]]
    if len(plain) < 2 or not plain[1].measured:
        return ""
    adds, learns = plain
    reference = context.reference(suite_of(adds.suite))
    sound, checked, unchecked = _sound(context, list(learns.measured))
    best, idle = answer_among(learns, sound, reference), None
    if len(columns.working) == 2:
        beside, works = (column.job for column in columns.working)
        working = answer_among(works, sound, reference)
        if working.over_another_library:
            best, idle, adds = working, answer_among(learns, [str(working.winner)], reference), beside
    if best.winner is None:
        return said("none_sound", suite=adds.suite)
    checks = integrity.outcomes(context.run)
    unsafe = {peer: each.found for peer, each in checks.items() if each.passed is False}
    return said(
        "many_processes",
        place="in Ape-X" if adds.suite == APEX else "in empty loops",
        explorers=int(adds.params["explorers"]),
        best=best,
        checked=checked,
        unchecked=unchecked,
        idle=idle,
        adds=answer_among(adds, [best.winner], reference),
        unsafe=unsafe,
    )


def _sound(context: Context, measured: Sequence[str]) -> tuple[Sequence[str], str, Sequence[str]]:
    """Return the peers whose rows passed the checks, or all peers if nothing was checked; how a sentence refers to
    them; and the peers that were not checked."""
    rows_only = bool(integrity.missing(context))
    outcomes = integrity.rows_checked(context.run) if rows_only else integrity.outcomes(context.run)
    passed = {peer: outcome.passed for peer, outcome in outcomes.items()}
    if all(each is None for each in passed.values()):
        return measured, "nothing_checked" if integrity.outcomes(context.run) else "", []
    unknown = [peer for peer in measured if passed.get(peer) is None]
    sound = [peer for peer in measured if passed.get(peer)]
    if unknown and not sound:
        return unknown, "not_unsafe", unknown
    return sound, "whole_rows" if rows_only else "found_sound" if unknown else "sound", unknown


def _checked(run: Run, check: Check) -> str:
    """Say in which peers a check found no fault, which peers failed it and which were not checked. Variants of a
    library with the same outcome are grouped.

    Empty if the run lacks the suite. A peer that was only partly checked counts as not checked.
    """
    outcomes = check.outcomes(run)
    order = [peer.name for peer in run.peers if peer.name in outcomes]
    if not order:
        return ""
    unknown = [peer for peer in order if outcomes[peer].passed is None]
    launches = {len(record.samples) for record in run.records if record.suite == check.suite and record.samples}
    return said(
        "checked",
        title=check.title,
        is_once=check is integrity.CHECK and launches == {1},  # whether its faults appear is a matter of chance
        good=_by_library({peer: "" for peer in order if outcomes[peer].passed}),
        wrong=_by_library({peer: outcomes[peer].found for peer in order if outcomes[peer].passed is False}),
        unknown=unknown,
        is_left_out=any(record.suite == check.suite and record.status == "left_out" for record in run.records),
    )


def _by_library(found: Mapping[str, str]) -> list[str]:
    """Return the peers, each with what was found; variants of a library with the same finding are combined."""
    alike: dict[tuple[str, str], list[str]] = {}
    for peer, what in found.items():
        alike.setdefault((library_of(peer), what), []).append(peer)
    return [said("alike", library=library, peers=peers, found=what) for (library, what), peers in alike.items()]


def not_said(context: Context) -> str:
    """Return why the page does not say whether shared buffers are sound, or "" if it does."""
    missing = integrity.missing(context)
    if not missing or not any(_is_shared(jobs) for jobs in context.ranking.values()):
        return ""
    return said("not_said", missing=missing)


def _is_shared(jobs: Sequence[Job]) -> bool:
    return all("explorers" in job.params for job in jobs)
