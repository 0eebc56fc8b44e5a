"""Plots of one job (dots with intervals) and of a scaling suite (lines over N).

The page holds the pictures inline, as SVG whose colours are the page's CSS variables, so they follow its light or
dark theme. The same code draws PNG files for the Markdown report, in the light colours.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reports.figures.formatting import Scale, number
from reports.figures.peers import base_name
from reports.figures.statistics import Figure

#: Light theme; templates/style.css has the dark ones. The colour-blind can tell them apart, and markers differ as well.
INK, FAINT, GRID = "#1c2128", "#5d6673", "#d5dae1"
PALETTE = ("#1f6fb4", "#c2560a", "#1a8754", "#8250c4", "#c2334d", "#0e7c86", "#7a6a00", "#5f6672")
MARKERS = "osD^vPX*"
STYLES = ("-", "--", ":", "-.")
NAMES = 1.54  # inches, for peers' names beside a plot's axes
LINES_A_PLOT = 8

CSS_OF = {INK: "currentColor", FAINT: "var(--faint)", GRID: "var(--line)"} | {
    color: f"var(--peer-{number})" for number, color in enumerate(PALETTE)
}
RC = {
    "font.size": 10,
    "font.family": "DejaVu Sans",  # what matplotlib measures with; the page puts its own, no wider, in its place
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Look:
    """How a peer is drawn, everywhere: the colour says which library, marker and line which variant of it."""

    color: str
    marker: str
    line: str


def looks(peers: Sequence[str], shown: Sequence[str]) -> dict[str, Look]:
    """Of the peers `shown` together; `peers` are all of the run, so that a library keeps its colour in every plot."""
    libraries = list(dict.fromkeys(base_name(peer) for peer in peers))
    seen: dict[str, int] = {}
    result = {}
    for peer in shown:
        again, library = divmod(libraries.index(base_name(peer)), len(PALETTE))
        variant = seen.setdefault(base_name(peer), 0)
        seen[base_name(peer)] += 1
        # A library that has another's colour, since there are no more of them, has other markers and lines.
        result[peer] = Look(
            PALETTE[library],
            MARKERS[(library + variant + 3 * again) % len(MARKERS)],
            STYLES[(variant + again) % len(STYLES)],
        )
    return result


def names_width(peers: Iterable[str]) -> float:
    """Inches that the longest of these names takes with three marks; the same in all plots of usual names."""
    ends = [TextPath((0, 0), f"{peer} †§◊", size=RC["font.size"]).get_extents().x1 for peer in peers]
    return max(NAMES, max(ends, default=0.0) / 72 + 0.15)


@dataclass(frozen=True)
class Dot:
    """One peer in a dot plot: its figure, or the word for why it has none."""

    peer: str
    marks: str  # footnotes
    figure: Figure | None
    status: str


def dots(title: str, entries: Sequence[Dot], scale: Scale, better: str, look: Mapping[str, Look]) -> Drawing:
    """Peers from top to bottom, values on a log axis, figures at the right margin."""
    height = 0.95 + 0.27 * len(entries)  # inches
    names, plot = names_width(look), 2.86
    width = names + plot + 1.0
    picture = Drawing(figsize=(width, height), layout=None)
    # Fixed margins: the plots of a page stand side by side, and their axes should line up.
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
    """A value of 0 has no place on it."""
    positive = [value for value in values if value > 0]
    if not positive:
        return
    low, high = min(positive) / 1.25, max(positive) * 1.25
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _log_ticks(axes.xaxis, high / low)
    axes.tick_params(axis="x", labelsize=8.5)


def _log_ticks(axis: Axis, decades: float) -> None:
    """`decades`: by what factor its end is above its beginning."""
    steps: tuple[float, ...] = (1,)
    if decades < 400:
        steps = (1, 3)
    if decades < 60:
        steps = (1, 2, 5)
    if decades < 4:
        steps = (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(subs=steps, numticks=7 if decades > 1e5 else 20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:,.10g}"))


def scaling(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    along: str,
    look: Mapping[str, Look],
    marks: Mapping[str, str],
    log: bool = False,
) -> Drawing:
    """One line per peer: figure over `along` (the number of explorers, say), from zero or on a log axis. `marks` stand
    beside the peers' names."""
    picture = Drawing(figsize=(5.4, 3.1 + 0.22 * len(lines)), layout="constrained")
    axes = picture.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    ticks = sorted({count for line in lines.values() for count in line})
    # A little apart, so that intervals of peers that are equally fast don't hide each other.
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
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if lines:
        picture.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=1)
    return picture


def multiples(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], peers: Sequence[str], look: Mapping[str, Look]
) -> Drawing:
    """A panel per workload: peers from top to bottom, a marker for each kind, multiples of 1 on a log axis."""
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
                # A little apart, so that kinds that cost the same don't hide each other.
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


def in_parts(peers: Sequence[str], look: Mapping[str, Look]) -> list[list[str]]:
    """Even parts of so few that their lines can be told apart, the variants of a library side by side."""
    order = list(look)
    libraries = list(dict.fromkeys(base_name(peer) for peer in order))
    sorted_ = sorted(peers, key=lambda peer: (libraries.index(base_name(peer)), order.index(peer)))
    parts = math.ceil(len(sorted_) / LINES_A_PLOT)
    width = math.ceil(len(sorted_) / parts) if parts else 1
    return [sorted_[start : start + width] for start in range(0, len(sorted_), width)]


def filling(
    title: str, curves: Mapping[str, Sequence[tuple[float, float]]], shown: Sequence[str], look: Mapping[str, Look]
) -> Drawing:
    """Bytes per transition of capacity over the share of it that is filled, on a log axis. A buffer that holds hardly
    any memory yet starts at the axis's lower end. Peers not in `shown` are faint lines behind the others."""
    picture = Drawing(figsize=(5.4, 3.0 + 0.2 * ((len(shown) + 1) // 2)), layout="constrained")
    axes = picture.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    least = min((value for points in curves.values() for share, value in points if share), default=1.0) / 2
    most = max((value for points in curves.values() for _, value in points), default=1.0)
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
    axes.set_xticks([0, 0.25, 0.5, 1.0], ["just made", "quarter", "half", "full"])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.set_ylabel("B/transition of capacity", fontsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    picture.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=2)
    return picture


@dataclass(frozen=True)
class Picture:
    name: str  # also names its file beside the Markdown report
    svg: str
    png: bytes

    @property
    def file(self) -> str:
        return "plots/" + "".join(c if c.isalnum() else "-" for c in self.name).strip("-").lower() + ".png"


def draw(name: str, make: Callable[[], Drawing]) -> Picture:
    """For the page and for a file. `name` says what it shows and is not used twice in a page."""
    with mpl.rc_context(RC):
        picture = make()
        png, svg = io.BytesIO(), io.StringIO()
        FigureCanvasAgg(picture)
        picture.savefig(png, format="png", dpi=144, facecolor="white", metadata={"Software": None})
        FigureCanvasSVG(picture)
        # The salt goes into the ids by which an SVG refers to its own parts: they must differ within a page.
        with mpl.rc_context({"svg.hashsalt": name}):
            picture.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    return Picture(name, _for_the_page(svg.getvalue(), name), png.getvalue())


def _for_the_page(svg: str, name: str) -> str:
    """Only the <svg> element, named for those who can't see it, with the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<(g|path) id="[a-zA-Z.\d]+_\d+"', r"<\1", svg
    )  # the same in every picture, and nothing refers to them
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("'DejaVu Sans'", "var(--font)")
    for color, variable in CSS_OF.items():
        svg = svg.replace(color, variable)
    return svg.replace("<svg", f'<svg role="img" aria-label="{_attribute(name)}"', 1)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
