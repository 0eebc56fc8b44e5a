"""How long an Ape-X training takes, with each way of sharing its buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from reports import plots
from reports.figures.formatting import counted, listed, number
from reports.figures.jobs import SHARED_REFERENCE, Job, Kind, Suite
from reports.figures.peers import base_name
from reports.figures.ratios import FEWEST_FOR_CLEAR, figure_of, ratio_of
from reports.plots import Picture
from reports.sections.matrix import MatrixTable, matrix
from reports.sections.section import Context, Part, Section

NEEDED = {"seconds": "time", "transitions": "transitions", "steps": "learner steps"}
SUITE = Suite(
    "learning",
    title="Learning",
    spoken="learning",
    kind=Kind.RATIOS,
    reference=SHARED_REFERENCE,
    benchmarks={
        "solved": "solved",
        **{name: f"{label} to solve it" for name, label in NEEDED.items()},
        "score": "score",
    },
    counts=("solved", "transitions", "steps", "score"),
)
EXPLAINED = (
    "Each launch trains a dueling double DQN with {explorers}, one learner and one evaluator, which are the same for "
    "all buffers, until the mean return of 100 greedy episodes reaches the target. A training that does not reach it "
    "counts with the time limit, so a median over such trainings is a lower bound. The seed is the number of the "
    "launch."
)


@dataclass(frozen=True)
class TaskPart:
    title: str
    solved: Sequence[tuple[str, str]]  # peer, "5 of 5"
    table: MatrixTable
    per_sample: str
    picture: Picture


@dataclass(frozen=True)
class LearningBody:
    explained: str
    tasks: Sequence[TaskPart]


def parts(context: Context) -> list[Part]:
    jobs = context.jobs_of(SUITE)
    tasks = [
        _task(context, [job for job in jobs if job.workload == workload])
        for workload in dict.fromkeys(job.workload for job in jobs if job.shown)
    ]
    if not tasks:
        return []
    explorers = counted(int(jobs[0].params["explorers"]), "explorer")
    pictures = [task.picture for task in tasks]
    return [
        Part("learning", "learning", SUITE.title, LearningBody(EXPLAINED.format(explorers=explorers), tasks), pictures)
    ]


def _task(context: Context, jobs: Sequence[Job]) -> TaskPart:
    by_name = {job.benchmark: job for job in jobs if job.benchmark != "score"}
    target = float(jobs[0].params["target"])
    title = title_of(jobs[0])
    reference = reference_of(by_name["seconds"])
    return TaskPart(
        title=title,
        solved=[
            (peer, f"{sum(sample.value for sample in record.samples):.0f} of {len(record.samples)}")
            for peer, record in by_name["solved"].shown.items()
        ],
        table=matrix(context, title, [(label, by_name[name]) for name, label in NEEDED.items()], reference),
        per_sample=_per_sample(by_name, reference),
        picture=_curves(context, [job for job in jobs if job.benchmark == "score"], by_name["seconds"], title, target),
    )


def title_of(job: Job) -> str:
    return f"{job.workload} to a mean return of {float(job.params['target']):g}"


def reference_of(job: Job) -> str:
    """Return the buffer to which others are compared: the usual one, or another of the same library."""
    alike = [peer for peer in job.shown if base_name(peer) == base_name(SHARED_REFERENCE)]
    return SHARED_REFERENCE if SHARED_REFERENCE in alike else alike[0] if alike else next(iter(job.shown))


def _per_sample(by_name: dict[str, Job], reference: str) -> str:
    """Return a sentence on whether some buffer needs more or fewer transitions or steps than the reference does."""
    said, launches = [], 0
    for name in ("transitions", "steps"):
        job = by_name[name]
        for peer, record in job.shown.items():
            ratio = ratio_of(record, job.shown[reference])
            if ratio is None or peer == reference:
                continue
            launches = max(launches, ratio.figure.launches)
            if ratio.clearly_faster or ratio.clearly_slower:
                said.append(f"{peer} needs {number(1 / ratio.value, 2)} times as many {NEEDED[name]}")
    if said:
        return f"Compared with {reference}, {listed(said)}."
    if not launches:
        return ""  # there is nothing to compare with
    if launches < FEWEST_FOR_CLEAR:
        return f"With {counted(launches, 'seed')} there is no verdict on the transitions and learner steps it needs."
    return f"No buffer clearly needs more or fewer transitions or learner steps than {reference}."


def _curves(context: Context, jobs: Sequence[Job], needed: Job, title: str, target: float) -> Picture:
    """Draw the scores until the last training has ended."""
    last = max(sample.value for record in needed.shown.values() for sample in record.samples)
    moments = sorted({int(job.params["second"]) for job in jobs})
    shown = moments[: 1 + sum(moment < last for moment in moments)]
    jobs = [job for job in jobs if job.params["second"] in shown]
    names = [peer.name for peer in context.run.peers if any(peer.name in job.shown for job in jobs)]
    look = plots.looks([peer.name for peer in context.run.peers], names)
    lines = {
        peer: {int(job.params["second"]): figure_of(job.shown[peer]) for job in jobs if peer in job.shown}
        for peer in names
    }
    draw = partial(plots.curves, title, lines, "mean return", "seconds", target, look)
    return plots.draw(f"learning: {title}", draw)


SECTION = Section(parts, SUITE)
