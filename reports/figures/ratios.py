"""Ratios to a reference peer, and what can be concluded from them, given the number of launches and calls."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.figures.formatting import TIMES, digits_of, interval, times
from results import Record
from results.statistics import Figure, figure, speed_up
from results.verdicts import ENOUGH, FEWEST_CALLS, MATTERS


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as the reference."""

    figure: Figure
    is_bound: bool = False  # only a lower bound is known

    @property
    def value(self) -> float:
        """The number that is shown: the median, or the bound."""
        return rounded_down(self.figure.low) if self.is_bound else self.figure.value

    @property
    def clearly_faster(self) -> bool:
        return self.figure.launches >= ENOUGH and self.figure.low > MATTERS

    @property
    def text(self) -> str:
        """ "1.94", "~1.9" if too few launches for an interval, ">500" if only a bound is known, or "~>500"."""
        return self._text(digits_of(self.figure))

    @property
    def short(self) -> str:
        return self._text(2)

    @property
    def shortest(self) -> str:
        """The ratio for a narrow cell: one digit below 0.1, and no multiplication sign unless it is a bound."""
        return self.short if self.is_bound else self._text(1 if self.figure.value < 0.1 else 2).removesuffix(TIMES)

    @property
    def words(self) -> str:
        """The ratio and its interval: "1.94 (1.80 to 2.07)", or "more than 500"."""
        return f"more than {self._bound}" if self.is_bound else f"{self.text} {interval(self.figure)}"

    @property
    def _bound(self) -> str:
        return f"{rounded_down(self.figure.low):,g}{TIMES}"

    def _text(self, digits: int) -> str:
        about = "~" if self.figure.is_range else ""
        return about + (f">{self._bound}" if self.is_bound else times(self.figure.value, digits))


def ratio_of(record: Record | None, reference: Record | None) -> Ratio | None:
    """Return the ratio to the reference, which is a bound if the reference made fewer than FEWEST_CALLS calls. Return
    None for the reference itself, without a reference, or without a common block."""
    if record is None or reference is None or record is reference:
        return None
    found = speed_up(record, reference)
    calls = [sample.calls for sample in reference.samples if sample.calls is not None]
    few = bool(calls) and min(calls) < FEWEST_CALLS
    return Ratio(found, few and found.low > 1) if found else None


def rounded_down(value: float) -> float:
    """Round down to 1, 2 or 5 times a power of ten: 500 for 730, 0.2 for 0.31."""
    power = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return float(f"{max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-12)) * power:.1g}")


def figure_of(record: Record) -> Figure:
    return figure([sample.value for sample in record.samples])
