import pytest

from results import Run

from .synthetic_runs import large_run


@pytest.fixture(scope="session")
def large() -> Run:
    """SYNTHETIC: six peers, three workloads, two suites, and some failures. Don't change it."""
    return large_run()
