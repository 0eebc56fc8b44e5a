"""Jobs that differ in the number of explorers, and what a machine with few cores does to them."""

from __future__ import annotations

from collections.abc import Sequence

from reports.rendering import worded
from results import Run
from results.jobs import Job

#: The parameter of these jobs.
ALONG = "explorers"


def is_scaling(jobs: Sequence[Job]) -> bool:
    return all(ALONG in job.params for job in jobs)


def crowding_note(run: Run, jobs: Sequence[Job]) -> str:
    """Return a note if explorers and learner outnumber the cores, so that scheduling affects the figures; else ""."""
    cores = int(run.machine["cores"])
    most = max((int(job.params[ALONG]) for job in jobs), default=0)
    return worded("crowds_notes.j2", "crowding", cores=cores) if most + 1 > cores else ""
