"""The contract of a section: the parts of the page that it makes from a run.

A section is a module of this folder with a function `parts` and its template beside it. `reports/sections/__init__.py`
lists them in the order of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from reports import checks
from reports.checks import Check
from reports.plots import Picture
from reports.tables import budget
from reports.tables.troubles import Trouble, troubles
from results import Run
from results.jobs import Job, reference_name
from results.suites import Kind, SuitePresentation, suite_of


@dataclass(frozen=True)
class Part:
    """A part of the page: its template, TEMPLATE.md.j2, with the values that it shows."""

    template: str
    anchor: str  # the id of its <section>
    link: str  # its name in the navigation
    values: Mapping[str, object] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    html: str = ""  # a template of HTML, for what Markdown cannot do
    folded: bool = True  # whether it is closed until the reader opens it or follows a link to its anchor


@dataclass(frozen=True)
class Context:
    """A run, plus the values that several sections use. Input to the page, README's figures and the first screen."""

    run: Run
    jobs: Sequence[Job]
    checks: Sequence[Check]

    @cached_property
    def measured(self) -> list[Job]:
        """The jobs of all suites except those that were left out entirely because of the time budget."""
        return [job for job in self.jobs if job.suite not in self.left_out_whole]

    def jobs_of(self, suite: SuitePresentation) -> list[Job]:
        return [job for job in self.measured if job.suite == suite.name]

    @cached_property
    def ranking(self) -> dict[str, list[Job]]:
        """Suite -> its jobs, for the suites that determine which peer is fastest."""
        found: dict[str, list[Job]] = {}
        for job in self.measured:
            suite = suite_of(job.suite)
            if suite.kind is Kind.RANKS and job.benchmark not in suite.counts:
                found.setdefault(job.suite, []).append(job)
        return found

    def reference(self, suite: SuitePresentation) -> str | None:
        return reference_name(self.run, suite)

    @cached_property
    def troubles(self) -> list[Trouble]:
        return troubles(self.run, self.jobs)

    @cached_property
    def left_out_whole(self) -> list[str]:
        return budget.left_out_whole(self.run)

    @cached_property
    def signs(self) -> dict[str, str]:
        """Peer -> the signs beside its name and figures; "" if no fault is known."""
        return checks.signs_of(self.run, self.checks)

    def signed(self, peer: str, mark: str = "") -> str:
        """Return a peer's name, with a mark and its signs."""
        return f"{peer} {mark}{self.signs[peer]}".strip()

    def explained(self, text: str) -> list[tuple[str, str]]:
        """(sign, meaning) of the signs in this text."""
        return checks.explained(self.checks, text)
