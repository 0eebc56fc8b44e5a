"""The charts: lines over the number of explorers, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axis import Axis
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reports.plots.looks import FAINT, INK, Look
from results.statistics import Figure

LEGEND_LINE = 4.5  # font sizes: enough to tell a dashed line from a dotted one behind a marker


def _log_ticks(axis: Axis, span: float) -> None:
    """Set the ticks. `span` is the ratio of the axis's ends."""
    steps: tuple[float, ...] = (1,)
    if span < 400:
        steps = (1, 3)
    if span < 60:
        steps = (1, 2, 5)
    if span < 4:
        steps = (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(subs=steps, numticks=7 if span > 1e5 else 20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.10g}"))


def scaling(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    along: str,
    look: Mapping[str, Look],
    marks: Mapping[str, str],
) -> Drawing:
    """Draw one line per peer: its figure over `along` (such as the number of explorers), on a log axis. `marks` appear
    beside the peers' names.
    """
    picture = Drawing(figsize=(5.4, 3.1 + 0.22 * len(lines)), layout="constrained")  # with room for the legend
    axes = picture.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    ticks = sorted({count for line in lines.values() for count in line})
    # Shifted slightly, so that intervals of equally fast peers do not hide each other.
    apart = 0.012 * (max(ticks) - min(ticks) or 1) if ticks else 0
    for place, (peer, line) in enumerate(lines.items()):
        counts = sorted(line)
        shifted = [count + apart * (place - (len(lines) - 1) / 2) for count in counts]
        values = [line[count].value for count in counts]
        below = [line[count].value - line[count].low for count in counts]
        above = [line[count].high - line[count].value for count in counts]
        style = look[peer]
        axes.errorbar(
            shifted, values, [below, above], label=f"{peer} {marks[peer]}".strip(),
            color=style.color, marker=style.marker, linestyle=style.line, markersize=6,
            linewidth=1.6, elinewidth=1.6, capsize=3,
        )  # fmt: skip
    ends = [end for line in lines.values() for figure in line.values() for end in (figure.low, figure.high) if end > 0]
    axes.set_yscale("log")
    _log_ticks(axes.yaxis, max(ends, default=1.0) / min(ends, default=1.0))
    axes.set_xticks(ticks)
    axes.set_xlabel(along)
    axes.set_ylabel(f"{unit}   (higher is better)")
    axes.tick_params(axis="y", colors=FAINT)
    picture.legend(loc="outside lower left", frameon=False, fontsize=9, handlelength=LEGEND_LINE)
    return picture


def curves(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    along: str,
    target: float | None,
    look: Mapping[str, Look],
) -> Drawing:
    """Draw one panel per peer: its line with the interval as a band, the other peers' lines in grey behind it, and the
    target, if there is one, as a dotted line."""
    columns = min(2, len(lines))
    rows = -(-len(lines) // columns)
    picture = Drawing(figsize=(0.4 + 2.9 * columns, 0.8 + 1.9 * rows), layout="constrained")
    picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
    panels = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(lines) :]:
        axes.set_visible(False)
    for axes, (peer, line) in zip(panels, lines.items(), strict=False):
        axes.set_title(peer, loc="left", fontsize=9, color=look[peer].color)
        if target is not None:
            axes.axhline(target, color=INK, linewidth=0.8, linestyle=":")
        for other in lines.values():
            axes.plot(sorted(other), [other[at].value for at in sorted(other)], color=FAINT, linewidth=0.7)
        along_x = sorted(line)
        low, high = ([getattr(line[at], end) for at in along_x] for end in ("low", "high"))
        axes.fill_between(along_x, low, high, color=look[peer].color, alpha=0.2, linewidth=0)
        axes.plot(along_x, [line[at].value for at in along_x], color=look[peer].color, linewidth=1.8)
        axes.tick_params(labelsize=8.5, labelbottom=True)
    picture.supxlabel(along, fontsize=9)
    picture.supylabel(f"{unit}   (higher is better)", fontsize=9)
    return picture
