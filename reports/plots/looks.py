"""The appearance of peers in all plots: colours, markers, lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from results.verdicts import library_of

#: Colours of the light theme; templates/style.css has the dark ones. They suit colour-blind readers; markers differ.
INK, FAINT, GRID = "#1c2128", "#5d6673", "#d5dae1"
PALETTE = ("#1f6fb4", "#c2560a", "#1a8754", "#8250c4", "#c2334d", "#0e7c86", "#7a6a00", "#5f6672")
MARKERS = "osD^vPX*"
STYLES = ("-", "--", ":", "-.")

RC = {
    "font.size": 10,
    "font.family": "DejaVu Sans",  # used to measure text; the page replaces it with its own font, which is no wider
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
}


@dataclass(frozen=True)
class Look:
    """How a peer is drawn in all plots: the colour stands for the library, the marker and the line for its variant."""

    color: str
    marker: str
    line: str


def looks(peers: Sequence[str], shown: Sequence[str]) -> dict[str, Look]:
    """Return how to draw the peers `shown`. `peers` are all peers of the run: a library has one colour in all plots."""
    libraries = list(dict.fromkeys(library_of(peer) for peer in peers))
    seen: dict[str, int] = {}
    result = {}
    for peer in shown:
        library = libraries.index(library_of(peer))
        color = PALETTE[library % len(PALETTE)]
        # There may be too few colours. All peers that share one have different markers or lines.
        nth = seen.setdefault(color, 0)
        seen[color] += 1
        marker = MARKERS[(library + nth) % len(MARKERS)]
        result[peer] = Look(color, marker, STYLES[(nth + nth // len(MARKERS)) % len(STYLES)])
    return result
