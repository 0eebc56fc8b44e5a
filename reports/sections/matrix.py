"""A table of peers and jobs, one column per job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.tables.cells import Cell


@dataclass(frozen=True)
class MatrixTable:
    title: str
    columns: Sequence[tuple[str, str]]  # label and unit
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    reference: str | None  # of the ratios; None: there are none
