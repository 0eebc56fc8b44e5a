"""Colours of the heat map, for the page and the picture. Blue is faster and orange slower, which colour-blind readers
can distinguish; stronger colours stand for ratios that are further from 1."""

from __future__ import annotations

from dataclasses import dataclass

from reports.figures.formatting import TIMES


@dataclass(frozen=True)
class Shade:
    """The range of ratios that a shade stands for, and its colours (background, text) on light and on dark pages."""

    meaning: str
    light: tuple[str, str]
    dark: tuple[str, str]


#: By CSS class, from the fastest to the slowest.
SHADES = {
    "better-4": Shade(f"over 20{TIMES}", ("#14518f", "#ffffff"), ("#7fc0ff", "#08121c")),
    "better-3": Shade(f"5{TIMES} to 20{TIMES}", ("#3578b8", "#ffffff"), ("#3f8fd8", "#08121c")),
    "better-2": Shade(f"2{TIMES} to 5{TIMES}", ("#9cc5ea", "#10181f"), ("#24598c", "#ffffff")),
    "better-1": Shade(f"1.1{TIMES} to 2{TIMES}", ("#d5e7f7", "#10181f"), ("#1c3a56", "#e4e8ee")),
    "same": Shade("even or unsure", ("#ececec", "#10181f"), ("#30363d", "#e4e8ee")),
    "worse-1": Shade(f"0.5{TIMES} to 0.9{TIMES}", ("#fde5cc", "#10181f"), ("#4a2e14", "#f6e9dc")),
    "worse-2": Shade(f"0.2{TIMES} to 0.5{TIMES}", ("#f8bd84", "#10181f"), ("#83450f", "#ffffff")),
    "worse-3": Shade(f"0.05{TIMES} to 0.2{TIMES}", ("#e07a28", "#10181f"), ("#d4771f", "#140b02")),
    "worse-4": Shade(f"under 0.05{TIMES}", ("#9a4304", "#ffffff"), ("#ffb26b", "#140b02")),
}


def css() -> str:
    """Return a rule for each shade. The browser chooses between the colours of light and of dark pages."""
    return "".join(
        f".{name} {{ background: light-dark({shade.light[0]}, {shade.dark[0]});"
        f" color: light-dark({shade.light[1]}, {shade.dark[1]}); }}\n"
        for name, shade in SHADES.items()
    )
