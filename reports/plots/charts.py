"""The charts: dots with intervals, lines over the number of explorers, learning curves, multiples of 1, fill levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reports.figures.formatting import Scale, number
from reports.figures.statistics import Figure
from reports.plots.looks import FAINT, GRID, INK, MARKERS, Look, names_width

LEGEND_LINE = 4.5  # font sizes: enough to tell a dashed line from a dotted one behind a marker


@dataclass(frozen=True)
class Dot:
    """One peer in a dot plot: its figure, or its status if it has none."""

    peer: str
    marks: str  # footnotes
    figure: Figure | None
    status: str


def dots(title: str, entries: Sequence[Dot], scale: Scale, better: str, look: Mapping[str, Look]) -> Drawing:
    """Draw peers from top to bottom, with values on a log axis and figures at the right margin."""
    height = 0.95 + 0.27 * len(entries)  # inches
    names, plot = names_width(look), 2.86
    width = names + plot + 1.0
    picture = Drawing(figsize=(width, height), layout=None)
    # Fixed margins, so that the axes of plots side by side line up.
    axes = picture.add_axes((names / width, 0.5 / height, plot / width, 1 - 0.8 / height))
    measured = [entry.figure for entry in entries if entry.figure]
    axes.set_title(title, loc="left", x=-names / plot, fontsize=11, fontweight="bold", color=INK)
    axes.set_ylim(len(entries) - 0.4, -0.6)
    axes.set_yticks(range(len(entries)), [entry.peer + (f" {entry.marks}" if entry.marks else "") for entry in entries])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for row, entry in enumerate(entries):
        if entry.figure is None:
            axes.text(
                0.01, row, entry.status, transform=axes.get_yaxis_transform(), va="center", color=FAINT, fontsize=9
            )
            continue
        value, low, high = (
            number / scale.factor for number in (entry.figure.value, entry.figure.low, entry.figure.high)
        )
        style = look[entry.peer]
        axes.plot([low, high], [row, row], color=style.color, linewidth=2, solid_capstyle="butt")
        axes.plot(value, row, style.marker, color=style.color, markersize=6.5)
        at = (1.03, row)
        axes.text(
            *at, scale.number(entry.figure.value), transform=axes.get_yaxis_transform(), va="center", fontsize=9.5
        )
    if measured:
        _log_axis(axes, [end / scale.factor for figure in measured for end in (figure.low, figure.high)])
    else:
        axes.set_xticks([])
    axes.set_xlabel(f"{scale.unit}   ({'left' if better == 'lower' else 'right'} is better)", fontsize=9)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return picture


def _log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic. A value of 0 cannot be shown."""
    positive = [value for value in values if value > 0]
    if not positive:
        return
    low, high = min(positive) / 1.25, max(positive) * 1.25
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _log_ticks(axes.xaxis, high / low)
    axes.tick_params(axis="x", labelsize=8.5)


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


def _frame(title: str, legend_rows: int) -> tuple[Drawing, Axes]:
    """Start a picture of one plot, with room for a legend below it."""
    picture = Drawing(figsize=(5.4, 3.1 + 0.22 * legend_rows), layout="constrained")
    axes = picture.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    return picture, axes


def _finish(picture: Drawing, axes: Axes, columns: int) -> None:
    """Add the grid and, if there are lines, the legend below the plot."""
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        picture.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=columns, handlelength=LEGEND_LINE)


def scaling(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    along: str,
    look: Mapping[str, Look],
    marks: Mapping[str, str],
    log: bool = False,
    predicted: Mapping[str, Mapping[int, float]] | None = None,
) -> Drawing:
    """Draw one line per peer: its figure over `along` (such as the number of explorers), on an axis from zero or a log
    axis. `marks` are shown beside the peers' names. With `predicted`, lines are predictions, and figures are markers.
    """
    picture, axes = _frame(title, len(lines))
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
        name = f"{peer} {marks[peer]}".strip()
        axes.errorbar(
            shifted, values, [below, above], label="" if predicted else name,
            color=style.color, marker=style.marker, linestyle="" if predicted else style.line, markersize=6,
            linewidth=1.6, elinewidth=1.6, capsize=3,
        )  # fmt: skip
        if predicted:
            said = predicted[peer]
            axes.plot(sorted(said), [said[at] for at in sorted(said)], color=style.color, linestyle=style.line)
            axes.plot(
                [], [], label=name, color=style.color, marker=style.marker, linestyle=style.line
            )  # for the legend
    if log:
        ends = [
            end for line in lines.values() for figure in line.values() for end in (figure.low, figure.high) if end > 0
        ]
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, max(ends, default=1.0) / min(ends, default=1.0))
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: number(value) if value else "0"))
    axes.set_xticks(ticks)
    axes.set_xlabel(along)
    axes.set_ylabel(f"{unit}   (higher is better)")
    axes.tick_params(axis="y", colors=FAINT)
    _finish(picture, axes, columns=1)
    return picture


def curves(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    along: str,
    target: float | None,
    look: Mapping[str, Look],
) -> Drawing:
    """Draw a panel per peer: its line with the interval as a band, the other peers' lines behind it in grey, and the
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
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8.5, labelbottom=True)
    picture.supxlabel(along, fontsize=9)
    picture.supylabel(f"{unit}   (higher is better)", fontsize=9)
    return picture


def multiples(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], peers: Sequence[str], look: Mapping[str, Look]
) -> Drawing:
    """Draw one panel per workload: peers from top to bottom, a marker for each kind, multiples of 1 on a log axis."""
    kinds = list(dict.fromkeys(kind for panel in panels.values() for kind in panel))
    each, legend = 0.55 + 0.27 * len(peers), 0.2 + 0.21 * ((len(kinds) + 1) // 2)  # inches
    height = (each + 0.55) * len(panels) + legend
    names, plot = names_width(peers), 3.56
    width = names + plot + 0.3
    picture = Drawing(figsize=(width, height), layout=None)
    for place, (title, panel) in enumerate(panels.items()):
        bottom = height - (each + 0.55) * (place + 1) + 0.45
        axes = picture.add_axes((names / width, bottom / height, plot / width, (each - 0.3) / height))
        axes.set_title(title, loc="left", x=-names / plot, fontsize=11, fontweight="bold", color=INK)
        axes.set_ylim(len(peers) - 0.4, -0.6)
        axes.set_yticks(range(len(peers)), peers)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        values = [value for points in panel.values() for value in points.values()]
        if values:
            _log_axis(axes, [*values, 1.0])
        axes.axvline(1.0, color=FAINT, linewidth=1.0)
        for number_of, kind in enumerate(kinds):
            for peer, value in panel.get(kind, {}).items():
                # Shifted slightly, so that markers of equal values do not hide each other.
                row = peers.index(peer) + 0.13 * (number_of - (len(kinds) - 1) / 2)
                axes.plot(value, row, MARKERS[number_of % len(MARKERS)], color=look[peer].color, markersize=5)
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    for number_of, kind in enumerate(kinds):
        axes.plot([], [], MARKERS[number_of % len(MARKERS)], color=FAINT, markersize=5, label=kind)
    if kinds:
        axes.set_xlabel("times the row's own bytes   (left is better)", fontsize=9)
        picture.legend(loc="lower left", frameon=False, fontsize=9, ncols=2)
    return picture


def filling(
    title: str, curves: Mapping[str, Sequence[tuple[float, float]]], shown: Sequence[str], look: Mapping[str, Look]
) -> Drawing:
    """Draw bytes per transition of capacity over the fill level, on a log axis. The line of a buffer that uses hardly
    any memory starts at the axis's lower end. Peers not in `shown` are faint lines behind the others."""
    picture, axes = _frame(title, (len(shown) + 1) // 2)
    least = min((value for points in curves.values() for share, value in points if share and value), default=1.0) / 2
    most = max([2 * least, *(value for points in curves.values() for _, value in points)])
    for peer in sorted(curves, key=lambda peer: (peer in shown, [*shown, peer].index(peer))):
        shares, values = zip(*curves[peer], strict=True)
        levels = [max(value, least) for value in values]
        if peer not in shown:
            axes.plot(shares, levels, color=GRID, linewidth=1.0)
            continue
        how = look[peer]
        axes.plot(
            shares, levels, how.marker, color=how.color, linestyle=how.line, markersize=5, linewidth=1.4, label=peer
        )
    axes.set_yscale("log")
    axes.set_ylim(least / 1.1, most * 1.25)
    _log_ticks(axes.yaxis, most / least)
    axes.set_xticks([0, 0.25, 0.5, 1.0], ["empty", "quarter", "half", "full"])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_ylabel("B/transition of capacity", fontsize=9)
    _finish(picture, axes, columns=2)
    return picture
