"""README's table of programs and what each gains with our buffer. The table's words are written by hand in
`advice/use_cases.md.j2`; this module computes its numbers from the committed records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

import pandas as pd

from reports.figures.formatting import NOTHING, TIMES, number, span
from reports.rendering import render
from results import Run, frames

TEMPLATE = "use_cases.md.j2"


@dataclass(frozen=True)
class Multiple:
    """How many times as fast, or as small, as a reference; without launches, there is no such figure."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    launches: int = 0

    def __str__(self) -> str:
        return f"{self._number(self.value)}{TIMES}" if self.launches else NOTHING

    @property
    def spread(self) -> str:
        """The multiple, with its interval in parentheses."""
        return f"{self} ({span((self.low, self.high), self._number)})" if self.launches > 1 else str(self)

    def _number(self, value: float) -> str:
        """Format with two significant digits, or three if the multiple is near 1."""
        return number(value, 3 if 0.5 < self.value < 2 else 2)


def lines(runs: Mapping[str, Run]) -> list[str]:
    """Return the table as lines of Markdown. `runs` maps a profile to its newest committed record."""

    @cache
    def samples(profile: str) -> pd.DataFrame:
        return frames.table({profile: runs[profile]} if profile in runs else {})

    def chosen(profile: str, peers: Collection[str], where: Mapping[str, object]) -> pd.DataFrame:
        """Return the samples with these values; a name that is not a column is the name of a parameter."""
        found = samples(profile)
        for name, value in where.items():
            column = name if name in found else f"param.{name}"
            found = found[found[column] == value] if column in found else found.iloc[:0]
        return found[found["peer"].isin(peers)]

    def ratio(profile: str, reference: str, peer: str, **where: object) -> Multiple:
        """Return the ratio of a peer to the reference at the only job with these values."""
        return multiple(frames.ratios(chosen(profile, (peer, reference), where), reference), peer)

    def figure(profile: str, peer: str, **where: object) -> Multiple:
        """Return the figure of a job whose figure already is a ratio."""
        return multiple(frames.figures(chosen(profile, (peer,), where)), peer)

    table = render(TEMPLATE, {"ratio": ratio, "figure": figure}).splitlines()
    return table if any(TIMES in line for line in table) else []


def multiple(found: pd.DataFrame, peer: str) -> Multiple:
    found = found[found["peer"] == peer]
    if len(found) > 1:
        raise ValueError(f"{TEMPLATE} must choose one job per figure, got {[*found['params']]}")
    return Multiple(*found.iloc[0][["value", "low", "high", "launches"]]) if len(found) else Multiple()
