"""A table of peers and jobs, one column per job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.jobs import Job
from reports.sections.section import Context
from reports.tables.cells import Cell, scale_of, speed_cell


@dataclass(frozen=True)
class MatrixTable:
    title: str
    columns: Sequence[tuple[str, str]]  # label and unit
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    reference: str | None  # of the ratios; None: there are none

    @property
    def caption(self) -> str:
        ratio = f", its interval, and its ratio to {self.reference}: above 1 is better"
        shown = ratio if self.reference else " and its interval"
        return f"{self.title}. Median over launches{shown}. Bold: best in its column."


def matrix(context: Context, title: str, columns: Sequence[tuple[str, Job]], reference: str | None) -> MatrixTable:
    """Return the table of these jobs by label, with ratios to `reference`, if any."""
    jobs = [job for _, job in columns]
    scales = [scale_of(job) for job in jobs]
    peers = [peer.name for peer in context.run.peers if any(peer.name in job.cells for job in jobs)]
    rows = [
        (
            peer,
            [
                speed_cell(job, peer, reference, context.troubles, context.signs[peer], scale)
                for job, scale in zip(jobs, scales, strict=True)
            ],
        )
        for peer in peers
    ]
    labels = [(label, scale.unit) for (label, _), scale in zip(columns, scales, strict=True)]
    return MatrixTable(title, labels, rows, reference)
