"""Write the figures of README and docs/ from the committed records.  python -m reports.readme

The text between a line `<!-- generated: NAME -->` and the next `<!-- end -->` is replaced. The heat map is written to
docs/answer-light.svg and docs/answer-dark.svg. The same records always give the same text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from reports import use_cases
from reports.answer import in_learners
from reports.answer.headlines import headlines
from reports.answer.heatmap import HeatMap, heat_map, typical_workloads
from reports.answer.heatmap_svg import pictures
from reports.figures.formatting import NOTHING, TIMES, counted, listed
from reports.figures.jobs import Job, launches_of
from reports.figures.ratios import ratio_of
from reports.planning import page as planning
from reports.sections import context_of, sharing, throughput
from reports.sections.integrity import safety_of
from reports.sections.section import Context
from reports.tables import notes
from results import REFERENCE, BadRecord, Run, load
from results.record import Peer
from results.validation import check

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/figures.md", "docs/planning.md", "docs/sb3.md")
STEM = "answer"
#: Profiles in the order in which they are searched for a figure: those made for one question, and then that of
#: `make bench`.
PROFILES = ("learners", "learning", "apex", "quick", "full", "survey", "sweep", "hosts")
#: profile -> profiles whose records are merged into its record, since they answer parts of the same question
PARTS_OF = {"learners": ("learners-speed",)}
#: Profiles whose records show what prioritized replay changes in trainings.
PRIORITIZED = ("learners-sparse", "learners-prioritized")
SHARED_COLUMNS = (
    ("prioritized_adds", 100, "prioritized, add 100: adds"),
    ("prioritized_cycles", 100, "cycles"),
    ("adds", 1, "uniform, add 1: adds"),
    ("samples", 1, "samples"),
    ("adds", 100, "uniform, add 100: adds"),
    ("samples", 100, "samples"),
)


@dataclass
class Reference:
    """A committed record, or several of the same machine that are read as one."""

    paths: list[Path]
    run: Run

    @cached_property
    def context(self) -> Context:
        return context_of(self.run)

    @cached_property
    def heat(self) -> HeatMap:
        return heat_map(self.context)

    @property
    def source(self) -> str:
        cores = counted(int(self.run.machine["cores"]), "core")
        first, *more = (f"`make report RUN=results/reference/{path.name}`" for path in self.paths)
        added = f", and {listed(more)} what was added to it" if more else ""
        return f"Measured on {cores} ({self.run.machine['cpu']}); {first} shows the record{added}."

    def joined(self, others: Sequence[Reference]) -> Reference:
        """Return this record merged with those of `others` that were measured on the same machine.

        Raises BadRecord if a cell is in two of them.
        """
        here = [each for each in others if _machine(each.run) == _machine(self.run)]
        runs = [self.run, *(each.run for each in here)]
        peers: dict[str, Peer] = {}  # the first one is the subject
        for peer in (peer for run in runs for peer in run.peers):
            peers.setdefault(peer.name, peer)
        workloads = {workload.name: workload for run in runs for workload in run.workloads}
        records = [record for run in runs for record in run.records]
        paths = [path for each in (self, *here) for path in each.paths]
        run = replace(
            self.run,
            peers=list(peers.values()),
            workloads=list(workloads.values()),
            records=records,
            declared=len(records),
        )
        check(run.to_dict(), listed([path.name for path in paths]))
        return Reference(paths, run)


def _machine(run: Run) -> tuple[object, object]:
    return run.machine["cpu"], run.machine["cores"]


def references(folder: Path = REFERENCE) -> dict[str, Reference]:
    """The newest committed run of each profile."""
    found: dict[str, Reference] = {}
    for path in sorted(folder.glob("*.json")):
        run = load(path)
        known = found.get(run.profile)
        if run.kind == "bench" and (known is None or known.run.started < run.started):
            found[run.profile] = Reference([path], run)
    for profile, parts in PARTS_OF.items():
        if profile in found:
            found[profile] = found[profile].joined([found[part] for part in parts if part in found])
    return found


def _in_order(found: Mapping[str, Reference]) -> list[Reference]:
    return [found[profile] for profile in PROFILES if profile in found]


def headline_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a headline of each kind, from the first record that has one."""
    lines = []
    found_in = [(each, headlines(each.context)) for each in _in_order(found)]
    for kind in ("learners", "training", "apex", "step", "calls", "hosts"):
        chosen = next(
            ((each, headline) for each, mine in found_in for headline in mine if headline.kind == kind),
            None,
        )
        if chosen:
            each, headline = chosen
            points = [*headline.points, f"*Limits:* {headline.not_shown}", each.source]
            lines += [f"- **{headline.title}**", *(f"  - {point}" for point in points)]
    return [*lines, ""] if lines else []


def pictured(found: Mapping[str, Reference]) -> Reference | None:
    """Return the record whose heat map has the most tables."""
    known = _in_order(found)
    return max(known, key=lambda each: len(each.heat.tables), default=None)


def picture_lines(found: Mapping[str, Reference]) -> list[str]:
    each = pictured(found)
    if each is None or not each.heat.tables:
        return []
    launches = launches_of([job for job in each.context.jobs if job.suite == throughput.SUITE.name])
    references = listed(list(dict.fromkeys(str(table.reference) for table in each.heat.tables)))
    about = f"Heat map of peers by jobs: how many times as fast as {references}"
    return [
        "<picture>",
        f'  <source media="(prefers-color-scheme: dark)" srcset="docs/{STEM}-dark.svg">',
        f'  <img alt="{about}" src="docs/{STEM}-light.svg">',
        "</picture>",
        "",
        f"{launches} per figure. {each.source}" if launches else each.source,
        "",
    ]


def large_row_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of all adds, samples and prioritized cycles on the workload of large rows, for every peer."""
    for each in _in_order(found):
        speeds = [job for job in each.context.jobs if job.suite == throughput.SUITE.name]
        _, workload = typical_workloads(each.run, speeds)
        jobs = [
            job
            for job in speeds
            if workload and job.workload == workload.name and job.benchmark in ("add", "sample", "prioritized")
        ]
        if workload is None or not jobs:
            continue
        reference = each.context.reference(throughput.SUITE)
        subject = each.run.peers[0].name
        behind = [
            f"{job.label} ({ratio.short})"
            for job in jobs
            if (ratio := ratio_of(job.shown.get(subject), job.shown.get(reference or ""))) and ratio.value < 1
        ]
        lost = f"{subject} is slower than {reference} at {listed(behind)}." if behind else ""
        return [
            f"Times as fast as {reference} on {workload.name}, {workload.row_bytes:,} bytes per row, "
            f"{int(jobs[0].params['capacity']):,} rows stored. {each.source} {lost}".strip(),
            "",
            *_table(each.context, [(job.label, job) for job in jobs], reference),
        ]
    return []


def sharing_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of shared buffers in empty loops, with the most explorers measured, and their integrity."""
    for each in _in_order(found):
        jobs = [job for job in each.context.jobs if job.suite == sharing.SUITE.name]
        mine = [job for job in jobs if "explorers" in job.params]
        if not mine:
            continue
        workload = max((job.workload for job in mine), key=[job.workload for job in mine].count)
        most = max(int(job.params["explorers"]) for job in mine if job.workload == workload)
        columns = [
            (name, job)
            for benchmark, batch, name in SHARED_COLUMNS
            for job in mine
            if (job.workload, job.benchmark, job.params["explorers"], job.params["batch"])
            == (workload, benchmark, most, batch)
        ]
        steps = [job for job in jobs if job.benchmark == "step"]
        columns += [(f"step, {int(job.params['capacity']):,} rows", job) for job in steps[-1:]]
        return [
            f"Times as fast as {sharing.SUITE.reference}: {counted(most, 'explorer')} and one learner in loops that "
            f"make only buffer calls, on {workload}. In real use, an environment and a network take most of the time: "
            f"see the Ape-X figure. {each.source}",
            "",
            *_table(each.context, columns, sharing.SUITE.reference, with_integrity=True),
        ]
    return []


def _table(
    context: Context, columns: Sequence[tuple[str, Job]], reference: str | None, with_integrity: bool = False
) -> list[str]:
    """Return a table with a row for each peer that has a figure."""
    run, signs = context.run, context.signs
    peers = [peer for peer in run.peers if any(peer.name in job.shown for _, job in columns)]
    second = ["integrity"] if with_integrity else []
    lines = [_row(["peer", *second, *(name for name, _ in columns)])]
    lines.append(_row(["---", *("---" for _ in second), *("--:" for _ in columns)]))
    words = {name: f"{each.word}: {each.found}" if each.found else each.word for name, each in safety_of(run).items()}
    for peer in peers:
        figures = [_figure(peer.name, job, reference, notes.marks(peer, job)) for _, job in columns]
        lines.append(
            _row(
                [f"{peer.name} {signs[peer.name]}".strip(), *(words.get(peer.name, NOTHING) for _ in second), *figures]
            )
        )
    meanings = {**notes.MEANINGS, **dict(context.explained("".join(signs.values())))}
    used = {mark: meaning for mark, meaning in meanings.items() if any(mark in line for line in lines)}
    return [*lines, "", *(f"{mark} {meaning.rstrip('.')}.  " for mark, meaning in used.items())]


def _figure(peer: str, job: Job, reference: str | None, marks: str) -> str:
    record, against = job.shown.get(peer), job.shown.get(reference or "")
    if record is None or against is None:
        return NOTHING
    ratio = ratio_of(record, against)
    text = ratio.short if ratio else f"1{TIMES}" if record is against else NOTHING
    return f"{text} {marks if record.ok else marks + notes.BEFORE_IT_WENT_WRONG}".strip()


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def learners_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of the trainings with another library's learner."""
    for each in _in_order(found):
        if lines := in_learners.table_lines(each.context):
            return [*lines, f"{each.source} Intervals are those of 95%. {in_learners.LIMITS}", ""]
    return []


def prioritized_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of the trainings with prioritized replay, for each of their records."""
    lines = []
    for profile in PRIORITIZED:
        if profile in found and (table := in_learners.outcome_lines(found[profile].context)):
            lines += [*table, f"{found[profile].source} {in_learners.OUTCOMES}", ""]
    return lines


def planning_lines(part: str, found: Mapping[str, Reference]) -> list[str]:
    """Return a part of docs/planning.md, from the record of the hosts suite."""
    each = found.get(planning.PROFILE)
    return [each.source, "", *planning.PARTS[part](each.paths[0])] if each else []


def use_case_lines(found: Mapping[str, Reference]) -> list[str]:
    return use_cases.lines({profile: each.run for profile, each in found.items()})


PARTS: Mapping[str, Callable[[Mapping[str, Reference]], list[str]]] = {
    "headlines": headline_lines,
    "use cases": use_case_lines,
    "picture": picture_lines,
    "large rows": large_row_lines,
    "sharing": sharing_lines,
    "learners": learners_lines,
    "prioritized": prioritized_lines,
    **{name: partial(planning_lines, name) for name in planning.PARTS},
}
MARKED = re.compile(r"(<!-- generated: (?P<name>[^>]+) -->\n)(?P<old>.*?)(<!-- end -->)", re.DOTALL)


def generated(text: str, found: Mapping[str, Reference]) -> str:
    """Return the text of a page, with its marked parts generated from these records."""

    def part(match: re.Match[str]) -> str:
        lines = PARTS[match["name"]](found)
        body = "\n".join(lines).rstrip()
        return f"{match[1]}{body}\n{match[4]}" if body else f"{match[1]}{match[4]}"

    return MARKED.sub(part, text)


def files(root: Path = ROOT, folder: Path = REFERENCE) -> dict[Path, str]:
    """Return the content that each page with figures, and each of README's pictures, should have."""
    found = references(folder)
    pages = [root / name for name in PAGES if (root / name).exists()]
    wanted = {page: generated(page.read_text(encoding="utf-8"), found) for page in pages}
    each = pictured(found)
    for theme, drawn in pictures(each.heat).items() if each else ():
        wanted[root / "docs" / f"{STEM}-{theme}.svg"] = drawn
    return wanted


def main() -> int:
    try:
        wanted = files()
    except BadRecord as error:
        print(f"the figures were not updated: {error}", file=sys.stderr)
        return 1
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"updated from the committed records: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
