"""A chart as a picture, for both pages.

The HTML page embeds it as SVG whose colours are CSS variables of the page, so that it follows the light or dark theme.
The Markdown page shows a PNG file in light colours.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing

from reports.plots.looks import FAINT, GRID, INK, PALETTE, RC

CSS_OF = {INK: "currentColor", FAINT: "var(--faint)", GRID: "var(--line)"} | {
    color: f"var(--peer-{number})" for number, color in enumerate(PALETTE)
}


@dataclass(frozen=True)
class Picture:
    name: str  # also names its file beside the Markdown report
    svg: str
    png: bytes

    @property
    def file(self) -> str:
        ascii_name = self.name.replace("µ", "u")
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in ascii_name)
        return f"plots/{name.strip('-').lower()}.png"


def draw(name: str, make: Callable[[], Drawing]) -> Picture:
    """Draw a picture. `name` describes it, and must be unique within a page."""
    with mpl.rc_context(RC):
        picture = make()
        png, svg = io.BytesIO(), io.StringIO()
        FigureCanvasAgg(picture)
        picture.savefig(png, format="png", dpi=144, facecolor="white", metadata={"Software": None})
        FigureCanvasSVG(picture)
        # The ids by which an SVG refers to its own parts depend on the salt; they must be unique within a page.
        with mpl.rc_context({"svg.hashsalt": name}):
            picture.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    return Picture(name, _for_the_page(svg.getvalue(), name), png.getvalue())


def _for_the_page(svg: str, name: str) -> str:
    """Return only the <svg> element, with the page's colours and font and an accessible name."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<(g|path) id="[a-zA-Z.\d]+_\d+"', r"<\1", svg
    )  # ids that repeat in every picture, and are not referenced
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("'DejaVu Sans'", "var(--font)")
    for color, variable in CSS_OF.items():
        svg = svg.replace(color, variable)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(name)}"', 1)
