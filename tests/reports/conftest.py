import re
from collections.abc import Iterator

import pytest

from reports import plots
from reports.page import page_of
from results import Run

from .synthetic_runs import large_run


@pytest.fixture(scope="session")
def large() -> Run:
    """SYNTHETIC: six peers, three workloads, two suites, and some failures. Don't change it."""
    return large_run()


@pytest.fixture(scope="module")
def without_pictures() -> Iterator[None]:
    """Draw no pictures, which would take most of the time of a report: for tests of its sentences and tables only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw", lambda name, _make: plots.Picture(name, "<svg></svg>", b"no picture"))
        yield


def pages_of(run: Run) -> tuple[str, str]:
    """Return the HTML and the Markdown of a run's report."""
    page = page_of(run)
    return page.html, page.markdown


def section(markdown: str, title: str) -> str:
    """Return the section whose title begins with this text, without that text."""
    return markdown.split(f"\n## {title}")[1].split("\n## ")[0]


def figures_of(markdown: str) -> dict[tuple[str, str, str], str]:
    """Return the cells of a report's tables of all figures in Markdown: (suite and workload, peer, job) -> text."""
    found = {}
    for title, table in re.findall(r"^### (.*)$|((?:^\|.*\n)+)", section(markdown, "All figures\n"), re.MULTILINE):
        if title:
            heading = title
            continue
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        for peer, *cells in rows[2:]:
            found |= {(heading, peer, job): cell for job, cell in zip(rows[0][1:], cells, strict=True)}
    return found
