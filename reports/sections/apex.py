"""Explorers and a learner around one shared buffer: how fast both are, what they wait for, and which lock matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reports import plots
from reports.checks import integrity
from reports.checks.integrity import Safety
from reports.figures.ratios import Ratio, figure_of, ratio_of
from reports.plots import Picture
from reports.rendering import worded
from reports.sections.section import Context, Part, Section
from reports.tables.crowding import crowding_note
from results.jobs import Job, fastest_first
from results.statistics import Figure
from results.suites import SUITES
from results.verdicts import ENOUGH, MATTERS, SHARED_REFERENCE, library_of
from results.words import counted

RATES = ("explorers", "learner")
SUITE = SUITES["apex"]

REAL, NO_STEP, NO_WORK, DQN = "real", "0 µs", "0 µs", "DQN"
#: The author of cpprb's claim about locking only the critical section instead of the whole buffer.
MORE, AS, LESS = "more than claimed", "as claimed", "less than claimed"
UNDECIDED = "neither confirmed nor refuted"
CLAIMED = {"explorers": (3.0, 4.0), "learner": (1.2, 2.0)}
COMPARED = 8  # explorers with which buffers are compared
PLOTTED = (NO_STEP, "200 µs", REAL)
ALONG = "number of explorers"

said = partial(worded, "apex_notes.j2")


@dataclass(frozen=True)
class Comparison:
    """What changes, the buffer with the change, and the buffer without it."""

    changed: str
    after: str
    before: str

    def ratio(self, job: Job | None) -> Ratio | None:
        return ratio_of(job.shown.get(self.after), job.shown.get(self.before)) if job else None

    @property
    def sentence_start(self) -> str:
        return self.changed[0].upper() + self.changed[1:]


#: The two changes that the author's claim may mean.
SCOPE = Comparison(
    "the scope of the lock alone", SHARED_REFERENCE, f"{library_of(SHARED_REFERENCE)}[MP behind one lock]"
)
WHOLE_CHANGE = Comparison(
    "the whole change: no manager, no pickling, and no lock around each call",
    SHARED_REFERENCE,
    f"{library_of(SHARED_REFERENCE)}[PER behind one lock]",
)


@dataclass(frozen=True)
class Setting:
    """What the jobs of a launch have in common."""

    workload: str
    capacity: int
    rows: int
    learner: str
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

    @property
    def spoken(self) -> str:
        return ", ".join(filter(None, self._words))

    @property
    def learner_spoken(self) -> str:
        return said("learner", trains=self.learner == DQN, works=self.learner != NO_WORK, work=self.learner)

    def differences(self, other: Setting) -> list[str]:
        """Return what differs from another setting, in words."""
        return [mine for mine, theirs in zip(self._words, other._words, strict=True) if mine != theirs]

    @property
    def _words(self) -> list[str]:
        cores = f"on {counted(self.cores, 'core')}" if self.cores else ""
        rows = f"{counted(self.rows, 'row')} per call"
        return [self.workload, f"capacity {self.capacity:,}", rows, self.learner_spoken, cores]


def in_micro(cost: object) -> str:
    """Return a cost of the record, such as "20 us" or "DQN", as readers see it."""
    return str(cost).replace(" us", " µs")


def environment_of(job: Job) -> str:
    return in_micro(job.params.get("environment", REAL))


def explorers_of(job: Job) -> int:
    return int(job.params["explorers"])


def cost_of(environment: str) -> float:
    """The order of environments: by their cost, the real one last."""
    return float("inf") if environment == REAL else float(environment.partition(" ")[0])


def spoken(environment: str, workload: str) -> str:
    return workload if environment == REAL else f"steps of {environment}"


def compared_crowd(jobs: Sequence[Job]) -> int:
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


@dataclass(frozen=True)
class ClaimRow:
    changed: str
    side: str
    cells: Sequence[str]


@dataclass(frozen=True)
class ApeX:
    crowding: str
    verdict: Sequence[str]
    claim_columns: Sequence[str]
    claim: Sequence[ClaimRow]
    map_title: str
    map_columns: Sequence[str]
    map: Sequence[tuple[str, Sequence[str]]]  # environment, and a cell per number of explorers
    pictures: Sequence[Picture]


def parts(context: Context) -> list[Part]:
    jobs = context.jobs_of(SUITE)
    if not jobs:
        return []
    settings: dict[Setting, list[Job]] = {}
    for job in jobs:
        settings.setdefault(Setting.of(job), []).append(job)
    counts = Counter(Setting.of(job) for job in jobs if job.benchmark in RATES)
    main = max(settings, key=lambda each: (counts[each], each.learner == NO_WORK))
    rates = {name: [job for job in settings[main] if job.benchmark == name] for name in RATES}
    claimed, ours = [SCOPE, WHOLE_CHANGE], _ours(context)
    columns, claim = _claim(rates, [*claimed, *ours])
    drawn = [each for mine in rates.values() for each in _curves(context, mine)]
    pictures = [plots.draw(title, make) for title, make in drawn]
    body = ApeX(
        crowding=crowding_note(context.run, rates["explorers"]),
        verdict=_verdict(rates, claimed, [span for each in ours if (span := _span(jobs, each, main))]) if claim else [],
        claim_columns=columns,
        claim=claim,
        map_title=main.spoken,
        map_columns=[counted(number, "explorer") for number in _numbers(rates["explorers"])],
        map=_map(rates, integrity.safety_of(context.run)),
        pictures=pictures,
    )
    return [Part("apex", "apex", SUITE.title, body, pictures)]


def _ours(context: Context) -> list[Comparison]:
    subject = library_of(context.run.peers[0].name)
    locks = [replace(each, changed=f"our storage: {each.changed}") for each in of_locks(subject)]
    without = f"{subject}[lock=none]"
    return [*locks, Comparison("our buffer without a lock instead of the reference", without, SHARED_REFERENCE)]


def of_locks(library: str) -> list[Comparison]:
    """Return the comparisons of a buffer's settings of its lock."""
    none, critical, buffer = (f"{library}[lock={lock}]" for lock in ("none", "critical", "buffer"))
    return [
        Comparison("no lock instead of one around each call", none, buffer),
        Comparison("no lock instead of one around the critical section", none, critical),
        Comparison(SCOPE.changed, critical, buffer),
    ]


def _numbers(jobs: Sequence[Job]) -> list[int]:
    return sorted({explorers_of(job) for job in jobs})


def _environments(jobs: Sequence[Job]) -> list[str]:
    return sorted({environment_of(job) for job in jobs}, key=cost_of)


def _pick(jobs: Sequence[Job], environment: str, explorers: int) -> Job | None:
    return next((job for job in jobs if (environment_of(job), explorers_of(job)) == (environment, explorers)), None)


def _claim(rates: Mapping[str, Sequence[Job]], comparisons: Sequence[Comparison]) -> tuple[list[str], list[ClaimRow]]:
    """Return the columns and rows of the table about the claim: 4 and 8 explorers, or the most measured, in each
    environment."""
    numbers = _numbers(rates["explorers"])
    crowds = [number for number in (4, 8) if number in numbers] or numbers[-1:]
    places = [(each, number) for each in _environments(rates["explorers"]) for number in crowds]
    rows = []
    for comparison in comparisons:
        for side, jobs in rates.items():
            ratios = [comparison.ratio(_pick(jobs, *place)) for place in places]
            if any(ratios):
                rows.append(ClaimRow(comparison.changed, side, [ratio.words if ratio else "" for ratio in ratios]))
    kept = [i for i in range(len(places)) if any(row.cells[i] for row in rows)]
    columns = [f"{places[i][0]}, N={places[i][1]}" for i in kept]
    return columns, [ClaimRow(row.changed, row.side, [row.cells[i] for i in kept]) for row in rows]


def _verdict(rates: Mapping[str, Sequence[Job]], claimed: Sequence[Comparison], spans: Sequence[str]) -> list[str]:
    """Return sentences: where the claim is confirmed, what our buffer changes, and how much buffers differ."""
    unsteady = [said("unsteady")] if NO_STEP in _environments(rates["explorers"]) else []
    return [*_answers(rates, claimed), *spans, *_spreads(rates["explorers"]), *unsteady]


def _answers(rates: Mapping[str, Sequence[Job]], claimed: Sequence[Comparison]) -> Iterator[str]:
    """Yield the claim and, for each comparison that it may mean and each side, where it is confirmed."""
    yield said("claim", explorers=CLAIMED["explorers"], learner=CLAIMED["learner"])
    for comparison in claimed:
        for side, (low, high) in CLAIMED.items():
            explorers = compared_crowd(rates[side])
            places: dict[str, list[str]] = {MORE: [], AS: [], UNDECIDED: [], LESS: []}
            for environment in _environments(rates[side]):
                job = _pick(rates[side], environment, explorers)
                if job and (ratio := comparison.ratio(job)):
                    places[_kind(ratio.figure, low, high)].append(_where(job, ratio))
            found = {kind: where for kind, where in places.items() if where}
            if found:
                yield said("answer", start=comparison.sentence_start, side=side, explorers=explorers, found=found)


def _kind(found: Figure, low: float, high: float) -> str:
    """Return how an interval compares with the claimed range."""
    if found.launches < ENOUGH:
        return UNDECIDED
    if found.low > high:
        return MORE
    if found.high < low:
        return LESS
    return AS if low <= found.low and found.high <= high else UNDECIDED


def _where(job: Job, ratio: Ratio) -> str:
    return f"{spoken(environment_of(job), job.workload)} ({ratio.words})"


def _span(jobs: Sequence[Job], comparison: Comparison, main: Setting) -> str:
    """Return the least and the most that the change makes of each side's rate, in any setting."""
    spans: dict[str, list[str]] = {}
    for side in RATES:
        ratios = [(ratio, job) for job in jobs if job.benchmark == side and (ratio := comparison.ratio(job))]
        if ratios:
            least, most = (pick(ratios, key=lambda pair: pair[0].value) for pick in (min, max))
            spans[side] = list(dict.fromkeys(_at(*each, main) for each in (least, most)))
    about = {"start": comparison.sentence_start, "after": comparison.after, "before": comparison.before}
    return said("span", spans=spans, **about) if spans else ""


def _at(ratio: Ratio, job: Job, main: Setting) -> str:
    place = [environment_of(job), f"N={explorers_of(job)}", *Setting.of(job).differences(main)]
    return f"{ratio.words} ({', '.join(place)})"


def _spreads(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield how much the choice of a buffer can matter to the explorers in each environment, and where it does not."""
    explorers, spreads = compared_crowd(jobs), {}
    for environment in _environments(jobs):
        job, place = _pick(jobs, environment, explorers), spoken(environment, jobs[0].workload)
        rates = {peer: figure_of(record).value for peer, record in job.shown.items()} if job else {}
        if idle := [peer for peer, rate in rates.items() if not rate]:
            yield said("idle", place=place, explorers=explorers, peers=idle)
        elif len(rates) > 1:
            spreads[place] = max(rates.values()) / min(rates.values())
    if spreads:
        ends = [said("spread", ratio=ratio, place=place) for place, ratio in spreads.items()]
        yield said("spreads", explorers=explorers, ends=ends)
    if ties := [place for place, ratio in spreads.items() if ratio <= MATTERS]:
        yield said("ties", places=ties, explorers=explorers)


def _map(rates: Mapping[str, Sequence[Job]], safety: Mapping[str, Safety]) -> list[tuple[str, list[str]]]:
    """Return which buffer is fastest for each environment and number of explorers, and by how much it leads. Buffers
    that returned broken rows are left out."""
    rows = []
    for environment in _environments(rates["explorers"]):
        cells = []
        for explorers in _numbers(rates["explorers"]):
            found = [_winner(_pick(jobs, environment, explorers), side, safety) for side, jobs in rates.items()]
            cells.append("; ".join(filter(None, found)))
        rows.append((environment, cells))
    return rows


def _winner(job: Job | None, side: str, safety: Mapping[str, Safety]) -> str:
    if job is None:
        return ""
    sound = [record for peer, record in job.measured.items() if not (peer in safety and safety[peer].mark)]
    if not sound:
        return ""
    first = fastest_first(sound)[0]
    alike = [
        record.peer for record in fastest_first(sound) if figure_of(first).value <= MATTERS * figure_of(record).value
    ]
    ratio = ratio_of(first, job.shown.get(SHARED_REFERENCE))
    return said("winner", side=side, peers=alike, ratio=ratio.text if ratio else "", reference=SHARED_REFERENCE)


def _curves(context: Context, jobs: Sequence[Job]) -> Iterator[tuple[str, Callable[[], Any]]]:
    run = context.run
    names = [peer.name for peer in run.peers]
    look = plots.looks(names, [name for name in names if any(name in job.cells for job in jobs)])
    for environment in _environments(jobs):
        lines: dict[str, dict[int, Figure]] = {}
        for job in jobs:
            if environment_of(job) == environment:
                for peer, record in job.shown.items():
                    lines.setdefault(peer, {})[explorers_of(job)] = figure_of(record)
        if environment in PLOTTED and any(len(line) > 1 for line in lines.values()):
            title = f"{jobs[0].benchmark}, environment {environment}"
            yield (
                f"Ape-X: {title}",
                partial(plots.scaling, title, lines, jobs[0].unit, ALONG, look, context.signs, log=True),
            )


SECTION = Section(parts)
