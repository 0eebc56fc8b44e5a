import re
from collections.abc import Iterator

import pytest

from reports import plots
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


def figures_of(markdown: str) -> dict[tuple[str, str, str], str]:
    """Return the cells of a report's tables of all figures in Markdown: (suite and workload, peer, job) -> text."""
    found = {}
    told = markdown.split("\n## All figures\n")[1].split("\n## ")[0]
    for title, table in re.findall(r"^### (.*)$|((?:^\|.*\n)+)", told, re.MULTILINE):
        if title:
            heading = title
            continue
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        for peer, *cells in rows[2:]:
            found |= {(heading, peer, job): cell for job, cell in zip(rows[0][1:], cells, strict=True)}
    return found
