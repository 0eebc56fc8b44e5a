"""Start-up: how long a user waits for the first batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.formatting import interval, scale_for
from reports.figures.jobs import Job, Kind, Suite, launches_of
from reports.figures.ratios import figure_of, ratio_of
from reports.sections.section import Context, Part, Section
from reports.tables.cells import Cell, without_figure
from reports.tables.troubles import Trouble
from results.verdicts import REFERENCE

#: benchmark -> heading of its column; other benchmarks follow, under their own names
STEPS = {
    "import": "import",
    "construct": "construct",
    "first_add": "first add",
    "fill": "fill",
    "first_sample": "first sample",
    "first_cycle": "first prioritized cycle",
}
SUITE = Suite(
    "startup",
    title="Start-up",
    spoken="start-up",
    kind=Kind.AMOUNTS,
    benchmarks=STEPS
    | {
        "first_sample": "first sample of 32",
        "first_cycle": "first prioritized cycle of 32",
        "installed": "installed files",
    },
)
#: Steps with a ratio. The others run once, mostly in a fraction of a millisecond.
WITH_RATIO = ("fill",)
LEAST = 1e-9  # seconds: older records store this in place of 0, for a peer that imports nothing


@dataclass(frozen=True)
class Startup:
    """A row per peer, a column per step. Each cell has its own unit, since times range from µs to seconds."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    where: str
    reference: str
    launches: str

    @property
    def explained(self) -> str:
        launches = f"; {self.launches} per cell" if self.launches else ""
        return (
            "This table shows how long a user waits for the first batch in a fresh process "
            f"({self.where}{launches}). Import: the time spent in import statements while the buffer is constructed; "
            "Python and NumPy are already loaded, and files are in the page cache. Construct: the rest of the "
            "construction, including the start of a server. Fill: adding columns, at most 1,000 rows per call, until "
            f"the buffer is full; the ratio says how many times as fast as {self.reference} this is. The first add, "
            "the first sample of 32 rows, and the first prioritized sample and update of 32 rows include whatever is "
            "compiled or allocated on first use, which the other suites exclude from their figures."
        )


def parts(context: Context) -> list[Part]:
    jobs, troubles = context.jobs_of(SUITE), context.troubles
    if not jobs:
        return []
    peers = [peer.name for peer in context.run.peers if any(peer.name in job.cells for job in jobs)]
    body = Startup(
        columns=[STEPS.get(job.benchmark, job.benchmark) for job in jobs],
        rows=[(peer, [_cell(job, peer, troubles) for job in jobs]) for peer in peers],
        where=f"{jobs[0].workload}, capacity {jobs[0].params['capacity']:,}",
        reference=REFERENCE,
        launches=launches_of(jobs),
    )
    return [Part("startup", "startup", SUITE.title, body)]


def _cell(job: Job, peer: str, troubles: Sequence[Trouble]) -> Cell | None:
    record = job.cells.get(peer)
    if record is None:
        return None
    if not record.ok:
        return without_figure(record, "", troubles)
    figure = figure_of(record)
    scale = scale_for(record.unit, [figure.value])
    ratio = ratio_of(record, job.measured.get(REFERENCE)) if job.benchmark in WITH_RATIO else None
    least = min(figure_of(other).value for other in job.measured.values())
    return Cell(
        peer=peer,
        marks="",
        value=f"{scale.of(figure)} {scale.unit}" if figure.value > LEAST else "nothing",
        interval="" if figure.launches == 1 else interval(figure, scale.factor),
        ratio=ratio.text if ratio else "",
        fastest=figure.value == least,
    )


SECTION = Section(parts, SUITE)
