"""Explorers and a learner that share one buffer: how fast both are, which lock matters, which buffer is fastest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reports import plots
from reports.checks import integrity
from reports.figures.formatting import times
from reports.figures.ratios import figure_of, ratio_of
from reports.plots import Picture
from reports.sections.section import Context, Part
from results.jobs import Job, fastest_first
from results.statistics import Figure
from results.suites import SUITES
from results.verdicts import MATTERS, SHARED_REFERENCE, library_of
from results.words import counted

RATES = ("explorers", "learner")
SUITE = SUITES["apex"]

REAL, NO_STEP, NO_WORK = "real", "0 µs", "0 µs"
COMPARED = 8  # explorers with which buffers are compared
PLOTTED = (NO_STEP, "200 µs", REAL)
ALONG = "number of explorers"
#: How many times as fast each side becomes, according to cpprb's author, if only the critical section is locked.
CLAIMED = {"explorers": "3 to 4", "learner": "1.2 to 2"}
_BASE = library_of(SHARED_REFERENCE)
#: (what changes, the buffer with the change, the buffer without it, whether the claim may refer to it)
CLAIMS = (
    ("only the scope of the lock", SHARED_REFERENCE, f"{_BASE}[MP behind one lock]", True),
    ("the whole change: no manager, no pickling, and no lock around each call", SHARED_REFERENCE,
     f"{_BASE}[PER behind one lock]", True),
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """The parameters that the jobs of a launch have in common."""

    workload: str
    capacity: int
    rows: int  # per call
    learner: str  # the work of the learner between samples: "0 µs", "DQN"
    cores: int = 0  # to which the launch was restricted; 0: all

    @classmethod
    def of(cls, job: Job) -> Setting:
        params = job.params
        return cls(
            job.workload,
            int(params.get("capacity", 0)),
            int(params.get("rows", 100)),
            in_micro(params.get("learner", NO_WORK)),
            int(params.get("cores", 0)),
        )


def in_micro(cost: object) -> str:
    """Return a cost of the record, such as "20 us" or "DQN", as readers see it."""
    return str(cost).replace(" us", " µs")


def environment_of(job: Job) -> str:
    return in_micro(job.params.get("environment", REAL))


def explorers_of(job: Job) -> int:
    return int(job.params["explorers"])


def cost_of(environment: str) -> float:
    """Return the sort key of environments, which orders them by their cost, the real one last."""
    return float("inf") if environment == REAL else float(environment.partition(" ")[0])


def compared_fleet(jobs: Sequence[Job]) -> int:
    """Return the number of explorers with which buffers are compared: the largest up to `COMPARED`, or else the
    smallest."""
    numbers = _numbers(jobs)
    return max((number for number in numbers if number <= COMPARED), default=min(numbers, default=0))


def is_plain(job: Job) -> bool:
    """Whether a job has the real environment, a learner without work and all cores."""
    return _is_real(job) and Setting.of(job).learner == NO_WORK


def is_working(job: Job) -> bool:
    """Whether a job has the real environment, a learner with work and all cores."""
    return _is_real(job) and Setting.of(job).learner != NO_WORK


def _is_real(job: Job) -> bool:
    return environment_of(job) == REAL and not Setting.of(job).cores


def parts(context: Context) -> Iterator[Part]:
    jobs = context.jobs_of(SUITE)
    if not jobs:
        return
    settings: dict[Setting, list[Job]] = {}
    for job in jobs:
        settings.setdefault(Setting.of(job), []).append(job)
    counts = Counter(Setting.of(job) for job in jobs if job.benchmark in RATES)
    main = max(settings, key=lambda each: (counts[each], each.learner == NO_WORK))
    rates = {name: [job for job in settings[main] if job.benchmark == name] for name in RATES}
    environments = sorted({environment_of(job) for job in rates["explorers"]}, key=cost_of)
    cores = int(context.run.machine["cores"])
    columns, claims = _claims(rates, environments, [*CLAIMS, *_ours(context)])
    pictures = [each for mine in rates.values() for each in _curves(context, mine, environments)]
    values = {
        "is_oversubscribed": max(_numbers(rates["explorers"]), default=0) >= cores,  # beside the learner
        "cores": cores,
        "columns": columns,
        "claims": claims,
        "setting": main,
        "unsteady": NO_STEP in environments,
        "fleets": [counted(number, "explorer") for number in _numbers(rates["explorers"])],
        "map": list(_map(context, rates, environments)),
        "matters": MATTERS,
        "pictures": pictures,
    }
    yield Part("apex", "apex", SUITE.title, values, pictures)


def _ours(context: Context) -> list[tuple[str, str, str, bool]]:
    """Return the comparisons between our buffer's locks, and between our buffer without a lock and the reference."""
    subject = library_of(context.run.peers[0].name)
    none, critical, buffer = (f"{subject}[lock={lock}]" for lock in ("none", "critical", "buffer"))
    return [
        ("our storage: no lock instead of one around each call", none, buffer, False),
        ("our storage: no lock instead of one around the critical section", none, critical, False),
        ("our storage: only the scope of the lock", critical, buffer, False),
        ("our buffer without a lock instead of the reference", none, SHARED_REFERENCE, False),
    ]


def _numbers(jobs: Sequence[Job]) -> list[int]:
    return sorted({explorers_of(job) for job in jobs})


def _pick(jobs: Sequence[Job], environment: str, explorers: int) -> Job | None:
    return next((job for job in jobs if (environment_of(job), explorers_of(job)) == (environment, explorers)), None)


def _claims(
    rates: Mapping[str, Sequence[Job]],
    environments: Sequence[str],
    comparisons: Sequence[tuple[str, str, str, bool]],
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table about locks: 4 and 8 explorers, or the largest number measured, in each
    environment."""
    numbers = _numbers(rates["explorers"])
    fleets = [number for number in (4, 8) if number in numbers] or numbers[-1:]
    places = [(environment, number) for environment in environments for number in fleets]
    rows = []
    for changed, after, before, is_claim in comparisons:
        for side, jobs in rates.items():
            measured = [job.shown if (job := _pick(jobs, *place)) else {} for place in places]
            ratios = [ratio_of(each.get(after), each.get(before)) for each in measured]
            if any(ratios):
                words = [ratio.words if ratio else "" for ratio in ratios]
                rows.append([changed, side, *words, CLAIMED[side] if is_claim else ""])
    return [f"{environment}, N={number}" for environment, number in places], rows


def _map(context: Context, rates: Mapping[str, Sequence[Job]], environments: Sequence[str]) -> Iterator[list[str]]:
    """Yield rows of an environment, a side and, for each number of explorers, the fastest sound buffers with their
    speed relative to the slowest buffer."""
    unsafe = {peer for peer, each in integrity.outcomes(context.run).items() if each.passed is False}
    for environment in environments:
        for side, jobs in rates.items():
            cells = []
            for explorers in _numbers(rates["explorers"]):
                job = _pick(jobs, environment, explorers)
                records = fastest_first(list(job.measured.values())) if job else []
                sound = [each for each in records if each.peer not in unsafe]
                best = figure_of(sound[0]).value if sound else 0.0
                alike = [each.peer for each in sound if best <= MATTERS * figure_of(each).value]
                least = figure_of(records[-1]).value if records else 0.0
                names = ", ".join(alike[:3]) + (", ..." if len(alike) > 3 else "")
                cells.append(f"{names} ({times(best / least, 2)})" if sound and least and len(records) > 1 else names)
            yield [environment, side, *cells]


def _curves(context: Context, jobs: Sequence[Job], environments: Sequence[str]) -> Iterator[Picture]:
    names = [peer.name for peer in context.run.peers]
    look = plots.looks(names, [name for name in names if any(name in job.cells for job in jobs)])
    for environment in (each for each in environments if each in PLOTTED):
        lines: dict[str, dict[int, Figure]] = {}
        for job in jobs:
            if environment_of(job) == environment:
                for peer, record in job.shown.items():
                    lines.setdefault(peer, {})[explorers_of(job)] = figure_of(record)
        if any(len(line) > 1 for line in lines.values()):
            title = f"{jobs[0].benchmark}, environment {environment}"
            draw = partial(plots.scaling, title, lines, jobs[0].unit, ALONG, look, context.signs)
            yield plots.draw(f"Ape-X: {title}", draw)
