"""A plot of a benchmark's change in each pair of a gate, or in each commit of main."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports.figures.formatting import percent
from reports.plots.looks import FAINT, INK, PALETTE

WIDEST = 10.0  # a larger change, above +1,000%, is drawn at the edge
LEAST_TOP = 0.01  # of the axis


@dataclass(frozen=True)
class Changes:
    """Fractions of the base's figure, in order; above 0 is worse."""

    values: Sequence[float]
    threshold: float  # the smallest change that matters; 0: any
    axis_label: str  # the order of the changes
    interval: tuple[float, float] | None = None  # of their centre; its ends may be infinite
    steps: Sequence[int] = ()  # where a new level begins


def changes(what: Changes) -> Drawing:
    """Draw a dot per change, the interval of their centre as a band, and the change that matters as a dashed line."""
    picture = Drawing(figsize=(3.9, 1.75), layout="constrained")
    axes = picture.add_subplot()
    values = [min(value, WIDEST) for value in what.values]
    top = 1.15 * max(what.threshold, *(abs(value) for value in values), LEAST_TOP)
    axes.set_ylim(-top, top)
    axes.set_xlim(0.4, max(len(values), 3) + 0.6)
    if what.interval:
        low, high = what.interval
        axes.axhspan(max(low, -top), min(high, top), color=PALETTE[0], alpha=0.15, linewidth=0)
    axes.axhline(0.0, color=FAINT, linewidth=0.9)
    if what.threshold:
        axes.axhline(what.threshold, color=PALETTE[1], linewidth=0.9, linestyle="--")
    axes.plot(range(1, len(values) + 1), values, "o", color=PALETTE[0], markersize=3.5)
    for step in what.steps:
        axes.axvline(step + 0.5, color=INK, linewidth=0.9, linestyle=":")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: percent(value) if value else "0"))
    axes.set_xlabel(what.axis_label, fontsize=8)
    axes.tick_params(labelsize=8)
    return picture
