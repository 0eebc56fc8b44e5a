"""Write the figures of README and docs/ from the committed records.  python -m reports.readme

The text between a line `<!-- generated: NAME -->` and the next `<!-- end -->` is replaced. The heat map is written to
docs/answer-light.svg and docs/answer-dark.svg. The same records always give the same text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from reports import memory_task, use_cases
from reports.answer.heatmap import HeatMap, heat_map
from reports.answer.heatmap_svg import pictures
from reports.figures.formatting import launches_of, listed
from reports.planning import page as planning
from reports.rendering import table, worded
from reports.sections import context_of, trainings
from reports.sections.section import Context
from results import REFERENCE, BadRecord, Run, load
from results.machine import kind
from results.record import RecordedPeer
from results.validation import check

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/own-loop.md", "docs/planning.md", "docs/sb3.md")
STEM = "answer"
#: Profiles in the order in which they are searched for a figure: profiles made for a single question come before the
#: profile of `make bench`.
PROFILES = ("paired_training", "solve_time", "apex", "quick", "full", "survey", "sweep", "hosts")
#: profile -> profiles whose records are merged into its record, since they answer parts of the same question
PARTS_OF = {"paired_training": ("paired_speed",)}
#: Profiles whose records show the effect of prioritized replay on training.
PRIORITIZED = ("paired_sparse", "paired_prioritized")
said = partial(worded, "figures.j2")


@dataclass
class Reference:
    """A committed record, or several records of the same machine that are read as one."""

    paths: list[Path]
    run: Run

    @cached_property
    def context(self) -> Context:
        return context_of(self.run)

    @cached_property
    def heat(self) -> HeatMap:
        return heat_map(self.context, with_variants=False)

    @property
    def source(self) -> str:
        return said("source", machine=self.run.machine, records=[path.name for path in self.paths])

    def joined(self, others: Sequence[Reference]) -> Reference:
        """Return this record merged with those of `others` that were measured on the same machine.

        Raises BadRecord if a cell is in two of them.
        """
        here = [each for each in others if kind(each.run.machine) == kind(self.run.machine)]
        runs = [self.run, *(each.run for each in here)]
        peers: dict[str, RecordedPeer] = {}  # the first one is the subject
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


def references(folder: Path = REFERENCE) -> dict[str, Reference]:
    """Return the newest committed run of each profile."""
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


def pictured(found: Mapping[str, Reference]) -> Reference | None:
    """Return the record whose heat map has the most tables; among several such records, the one with the most
    buffers."""

    def size(each: Reference) -> tuple[int, int]:
        return len(each.heat.tables), sum(len(table.rows) for table in each.heat.tables)

    return max(_in_order(found), key=size, default=None)


def picture_lines(found: Mapping[str, Reference]) -> list[str]:
    each = pictured(found)
    if each is None or not each.heat.tables:
        return []
    launches = launches_of([job for job in each.context.jobs if job.suite == "throughput"])
    tables = list(dict.fromkeys(str(table.reference) for table in each.heat.tables))
    return said("picture", stem=STEM, references=tables, launches=launches, source=each.source).splitlines()


def paired_training_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of the training runs with another library's learner."""
    for each in _in_order(found):
        if rows := list(trainings.speed_rows(each.context)):
            return [table(trainings.SPEED_COLUMNS, rows), each.source, ""]
    return []


def prioritized_lines(found: Mapping[str, Reference]) -> list[str]:
    """Return a table of the training runs with prioritized replay, for each of their records."""
    lines = []
    for profile in PRIORITIZED:
        if profile in found and (rows := list(trainings.outcome_rows(found[profile].context))):
            lines += [table(trainings.OUTCOME_COLUMNS, rows), found[profile].source, ""]
    return lines


def planning_lines(part: str, found: Mapping[str, Reference]) -> list[str]:
    """Return a part of docs/planning.md, from the record of the hosts suite."""
    each = found.get(planning.PROFILE)
    return [each.source, "", *planning.PARTS[part](each.paths[0])] if each else []


def use_case_lines(found: Mapping[str, Reference]) -> list[str]:
    return use_cases.lines({profile: each.run for profile, each in found.items()})


PARTS: Mapping[str, Callable[[Mapping[str, Reference]], list[str]]] = {
    "use cases": use_case_lines,
    "picture": picture_lines,
    "paired_training": paired_training_lines,
    "prioritized": prioritized_lines,
    "memory task": lambda _found: memory_task.agents(),
    "memory task by buffer": lambda _found: memory_task.buffers(),
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
