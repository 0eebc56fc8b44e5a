"""The answer first: which peer is fastest at which job, by what factor, and how sure that is."""

from __future__ import annotations

import statistics as plain_statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reports.formatting import counted, listed, times
from reports.jobs import Job, base_name, fastest_first, reference_record
from reports.statistics import FEWEST_FOR_INTERVAL, Figure, figure, speed_up, speed_ups
from results import Peer, Record, Run
from results.record import first_line

#: Where a library's code happens to lie in memory is worth up to 10%, in every launch (docs/measuring.md).
MATTERS = 1.1
FEWEST_FOR_CLEAR = 5  # launches: fewer can't give an interval worth the name


@dataclass(frozen=True)
class Answer:
    """Who is fastest at one job (among all, or among the peers that do as much as the others)."""

    job: Job
    among_copying: bool  # peers that keep references to the caller's arrays were left out
    winner: str | None
    figure: Figure | None = None
    over_reference: Figure | None = None  # None if the winner is the reference, or there is none
    reference: str | None = None
    runner_up: str | None = None
    runner_up_figure: Figure | None = None
    over_runner_up: Figure | None = None
    blocks_won: tuple[int, int] | None = None  # over the runner-up: of how many
    keeps_references: bool = False

    @property
    def clear(self) -> bool:
        ratio = self.over_runner_up
        return ratio is not None and ratio.launches >= FEWEST_FOR_CLEAR and ratio.low > MATTERS

    @property
    def likely(self) -> bool:
        """Not clear, but the interval says faster."""
        ratio = self.over_runner_up
        return not self.clear and ratio is not None and not ratio.is_range and ratio.low > 1

    @property
    def sureness(self) -> str:
        """In words, for the table's last column."""
        if self.winner is None:
            return "nobody was measured"
        if self.runner_up is None:
            return "no rival measured"
        if self.over_runner_up is None or self.blocks_won is None:
            return "no block has both"
        if self.over_runner_up.is_range:
            return f"too few launches to tell ({self.over_runner_up.launches})"
        won, blocks = self.blocks_won
        word = "clear" if self.clear else "likely" if self.likely else "too close to call"
        return f"{word} ({won} of {blocks} blocks)"


def keeps_references(peer: Peer, job: Job) -> bool:
    """This add stores the caller's arrays themselves: less work, and they must not change afterwards.

    The feature says "yes...", "no..." or, where they differ, "one step: yes...; a batch: no...".
    """
    if job.benchmark not in ("add", "add_dicts", "add_prioritized"):  # lists become arrays that nobody else has
        return False
    said = peer.features.get("copies_on_add", "")
    parts = dict(part.partition(": ")[::2] for part in said.split("; "))
    return parts.get("one step" if job.params.get("batch", 1) == 1 else "a batch", said).startswith("no")


def answers_of(run: Run, jobs: Sequence[Job], reference: str | None) -> list[Answer]:
    """One answer a job; two where the fastest add is one that copies nothing."""
    answers = []
    for job in jobs:
        careless = {peer.name for peer in run.peers if keeps_references(peer, job)}
        records = fastest_first(list(job.measured.values()))
        first = _answer(job, records, reference, careless)
        answers.append(first)
        if first.keeps_references:
            copying = [record for record in records if record.peer not in careless]
            answers.append(_answer(job, copying, reference, set(), among_copying=True))
    return answers


def _answer(
    job: Job, records: list[Record], reference_name: str | None, careless: set[str], among_copying: bool = False
) -> Answer:
    """`records` fastest first by their medians."""
    if not records:
        return Answer(job, among_copying, None)
    winner, runner_up = podium(records)
    reference = reference_record(job, reference_name)
    ratios = speed_ups(winner, runner_up) if runner_up else {}
    return Answer(
        job=job,
        among_copying=among_copying,
        winner=winner.peer,
        figure=figure_of(winner),
        over_reference=speed_up(winner, reference) if reference and reference is not winner else None,
        reference=reference.peer if reference else None,
        runner_up=runner_up.peer if runner_up else None,
        runner_up_figure=figure_of(runner_up) if runner_up else None,
        over_runner_up=speed_up(winner, runner_up) if runner_up else None,
        blocks_won=(sum(ratio > 1 for ratio in ratios.values()), len(ratios)) if ratios else None,
        keeps_references=winner.peer in careless,
    )


def podium(records: list[Record]) -> tuple[Record, Record | None]:
    """Winner and runner-up by the ratios within blocks, which is what the report shows of them. Medians over
    launches may say otherwise where a slow minute hit some blocks more than others."""

    def ratio(record: Record, other: Record) -> float:
        found = speed_up(record, other)
        return found.value if found else 1.0

    winner = records[0]
    for record in records[1:]:
        if ratio(record, winner) > 1:
            winner = record
    others = [record for record in records if record is not winner]
    return winner, min(others, key=lambda record: ratio(winner, record)) if others else None


def figure_of(record: Record) -> Figure:
    return figure([sample.value for sample in record.samples])


@dataclass(frozen=True)
class Standing:
    """How one peer did over all jobs of a suite."""

    peer: str
    fastest: int
    clearly: int
    fastest_copying: int  # among the peers that copy what they add
    faster: int  # than the reference
    slower: int
    typical: float | None  # geometric mean of the speed-ups over the reference
    jobs: int  # in which it has a figure


def standings(run: Run, jobs: Sequence[Job], answers: Sequence[Answer], reference: str | None) -> list[Standing]:
    """One row for every peer that has a cell in these jobs, in the run's order."""
    rows = []
    for peer in run.peers:
        mine = [job for job in jobs if peer.name in job.cells]
        if not mine:
            continue
        measured = [job for job in mine if job.cells[peer.name].ok]
        ratios = []
        for job in measured:
            against = reference_record(job, reference)
            ratio = speed_up(job.cells[peer.name], against) if against and against.peer != peer.name else None
            ratios += [ratio] if ratio else []
        won = [answer for answer in answers if answer.winner == peer.name]
        overall = [answer for answer in won if not answer.among_copying]
        copying = [answer for answer in won if not answer.keeps_references]
        rows.append(
            Standing(
                peer=peer.name,
                fastest=len(overall),
                clearly=sum(answer.clear for answer in overall),
                fastest_copying=len(copying),
                faster=sum(ratio.low > 1 and not ratio.is_range for ratio in ratios),
                slower=sum(ratio.high < 1 and not ratio.is_range for ratio in ratios),
                typical=plain_statistics.geometric_mean(ratio.value for ratio in ratios) if ratios else None,
                jobs=len(measured),
            )
        )
    return rows


@dataclass(frozen=True)
class Summary:
    """The answer in plain language, said of one suite from its data alone."""

    by_workload: Sequence[tuple[str, str]]  # (workload, who to take for it)
    remarks: str  # over all workloads: who loses where, and what is unsure

    def __str__(self) -> str:
        return "\n".join([*(f"{workload}: {text}" for workload, text in self.by_workload), self.remarks])


def summary(run: Run, suite: str, jobs: Sequence[Job], answers: Sequence[Answer], reference: str | None) -> Summary:
    overall = [answer for answer in answers if not answer.among_copying and answer.winner]
    if not overall:
        return Summary([], f"Nothing was measured in the {suite} suite.")
    by_workload = [
        (workload, _take_for([answer for answer in answers if answer.job.workload == workload and answer.winner]))
        for workload in dict.fromkeys(answer.job.workload for answer in overall)
    ]
    wins = _wins(overall)
    sentences = _where_not_fastest(run, next(iter(wins)), overall)
    absent = [peer for peer in run.peers if peer.reason and any(peer.name in job.cells for job in jobs)]
    for reason in dict.fromkeys(first_line(peer.reason) for peer in absent):  # peers share an environment
        sharing = [peer.name for peer in absent if first_line(peer.reason) == reason]
        sentences.append(f"Not measured: {listed(sharing, most=len(sharing))} ({reason}).")
    never = [
        peer.name for peer in run.peers if peer.name not in wins and any(peer.name in job.measured for job in jobs)
    ]
    if never:
        sentences.append(f"Never fastest: {listed(never)}.")
    silent = [job.full_label for job in jobs if not job.measured]
    if silent:
        sentences.append(f"Nobody was measured at: {listed(silent)}.")
    few = min(answer.figure.launches for answer in overall if answer.figure)
    if few < FEWEST_FOR_INTERVAL:
        sentences.append(f"With {counted(few, 'launch')} a peer nothing here is sure.")
    return Summary(by_workload, " ".join(sentences))


def _wins(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The winners' answers, who wins most first."""
    wins: dict[str, list[Answer]] = {}
    for answer in answers:
        wins.setdefault(answer.winner or "", []).append(answer)
    ranked = sorted(wins, key=lambda peer: (-len(wins[peer]), -sum(answer.clear for answer in wins[peer])))
    return {peer: wins[peer] for peer in ranked}


def _take_for(answers: Sequence[Answer]) -> str:
    """One workload's winners, and who wins among those that copy where the winner doesn't."""
    overall = [answer for answer in answers if not answer.among_copying]
    copying = [answer for answer in answers if answer.among_copying]
    sentences = [_wins_of(peer, won, len(overall)) for peer, won in _wins(overall).items()]
    sentences += [f"Of those that copy, {_wins_of(peer, won, len(copying))}" for peer, won in _wins(copying).items()]
    return " ".join(sentences)


def _wins_of(peer: str, answers: Sequence[Answer], jobs: int) -> str:
    """ "A is fastest at 2 of 6 jobs (add 1 and add 100; clearly at all), so many times the speed of B." """
    if all(answer.runner_up is None for answer in answers):
        return f"only {peer} was measured{'' if len(answers) == jobs else f' at {len(answers)} of {jobs} jobs'}."
    clear = sum(answer.clear for answer in answers)
    where = "" if len(answers) == jobs else f"{listed([answer.job.label for answer in answers])}; "
    how_sure = f"clearly at {clear or 'none'}" if clear < len(answers) else "clearly at all" if clear > 1 else "clearly"
    at = f"all {counted(jobs, 'job')}" if len(answers) == jobs > 1 else f"{len(answers)} of {counted(jobs, 'job')}"
    sentence = f"{peer} is fastest at {at} ({where}{how_sure})"
    ratios = [answer.over_reference for answer in answers if answer.over_reference]
    if ratios:
        low, high = min(ratio.value for ratio in ratios), max(ratio.value for ratio in ratios)
        references = {answer.reference or "" for answer in answers if answer.over_reference}
        reference = references.pop() if len(references) == 1 else f"the fastest {base_name(references.pop())} there"
        span = times(low) if len(ratios) == 1 else f"{times(low)} to {times(high)}"
        sentence += f", {span} the speed of {reference}"
    careless = sum(answer.keeps_references for answer in answers)
    if careless:
        which = "there" if careless == len(answers) else f"in {careless} of them"
        sentence += f" (but {which} it copies nothing: it keeps references to the caller's arrays)"
    return sentence + "."


def _where_not_fastest(run: Run, leader: str, overall: Sequence[Answer]) -> list[str]:
    """Of the leader, and of the library that the run lists first: a report must not hide where its subject loses."""
    if not any(answer.runner_up for answer in overall):
        return []
    first = next((peer.name for peer in run.peers if any(peer.name in a.job.measured for a in overall)), leader)
    subjects = [leader] if base_name(first) == base_name(leader) else [leader, first]
    sentences = []
    for subject in subjects:
        lost: dict[str, list[Answer]] = {}
        for answer in overall:
            if answer.winner and answer.winner != subject and subject in answer.job.cells:
                lost.setdefault(answer.winner, []).append(answer)
        if lost:
            behind = [_behind(subject, winner, answers) for winner, answers in lost.items()]
            sentences.append(f"{subject} is not fastest where it meets {'; '.join(behind)}.")
        else:
            sentences.append(f"No job here has a faster peer than {subject}.")
    return sentences


def _behind(subject: str, winner: str, answers: Sequence[Answer]) -> str:
    """ "cpprb at sample 32 on CartPole-v1 and Pendulum-v1 (1.04 to 1.20 times its speed, too close to call in 1)" """
    places: dict[str, list[str]] = {}
    for answer in answers:
        places.setdefault(answer.job.label, []).append(answer.job.workload)
    where = listed([f"{label} on {listed(workloads)}" for label, workloads in places.items()])
    remarks = []
    both = [(answer, answer.job.cells[subject]) for answer in answers]
    ratios = [speed_up(answer.job.cells[winner], record) for answer, record in both if record.ok]
    values = [ratio.value for ratio in ratios if ratio]
    if values:
        remarks.append(f"{times(min(values))}{f' to {times(max(values))}' if len(values) > 1 else ''} its speed")
    close = sum(answer.runner_up == subject and not answer.clear for answer in answers)
    if close:
        remarks.append("too close to call" + (f" in {close}" if close < len(answers) else ""))
    without = sum(not record.ok for _, record in both)
    if without:
        remarks.append(f"{subject} itself has no figure in {without}")
    return f"{winner} at {where} ({', '.join(remarks)})" if remarks else f"{winner} at {where}"
