"""How peers look in every plot: colours, markers, lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.textpath import TextPath

from reports.figures.peers import base_name

#: Light theme; templates/style.css has the dark ones. The colour-blind can tell them apart, and markers differ as well.
INK, FAINT, GRID = "#1c2128", "#5d6673", "#d5dae1"
PALETTE = ("#1f6fb4", "#c2560a", "#1a8754", "#8250c4", "#c2334d", "#0e7c86", "#7a6a00", "#5f6672")
MARKERS = "osD^vPX*"
STYLES = ("-", "--", ":", "-.")
NAMES = 1.54  # inches, for peers' names beside a plot's axes
LINES_A_PLOT = 8

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
    """How to draw the peers `shown`. `peers` are all of the run, so that a library keeps its colour in every plot."""
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


def in_parts(peers: Sequence[str], look: Mapping[str, Look]) -> list[list[str]]:
    """Even groups small enough to tell their lines apart; the variants of a library stay together."""
    order = list(look)
    libraries = list(dict.fromkeys(base_name(peer) for peer in order))
    sorted_ = sorted(peers, key=lambda peer: (libraries.index(base_name(peer)), order.index(peer)))
    parts = math.ceil(len(sorted_) / LINES_A_PLOT)
    width = math.ceil(len(sorted_) / parts) if parts else 1
    return [sorted_[start : start + width] for start in range(0, len(sorted_), width)]
