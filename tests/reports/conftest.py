from collections.abc import Iterator

import pytest

from reports import plots
from reports.answer.headlines import Headline
from results import Run

from .synthetic_runs import large_run


def text_of(headline: Headline) -> str:
    """Return a headline's sentences as one text."""
    return " ".join(headline.points)


@pytest.fixture(scope="session")
def large() -> Run:
    """SYNTHETIC: six peers, three workloads, two suites, and some failures. Don't change it."""
    return large_run()


@pytest.fixture(scope="module")
def without_pictures() -> Iterator[None]:
    """Drawing takes most of the time of a report: for tests of its sentences and tables alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "draw", lambda name, _make: plots.Picture(name, "<svg></svg>", b"no picture"))
        yield
