"""Colours of the heat map, for the page and the picture. Blue is faster and orange slower, which colour-blind readers
can distinguish; stronger colours stand for ratios that are further from 1."""

from __future__ import annotations

from reports.figures.formatting import TIMES

#: class -> (background, text)
LIGHT = {
    "better-4": ("#14518f", "#ffffff"),
    "better-3": ("#3578b8", "#ffffff"),
    "better-2": ("#9cc5ea", "#10181f"),
    "better-1": ("#d5e7f7", "#10181f"),
    "same": ("#ececec", "#10181f"),
    "worse-1": ("#fde5cc", "#10181f"),
    "worse-2": ("#f8bd84", "#10181f"),
    "worse-3": ("#e07a28", "#10181f"),
    "worse-4": ("#9a4304", "#ffffff"),
}
DARK = {
    "better-4": ("#7fc0ff", "#08121c"),
    "better-3": ("#3f8fd8", "#08121c"),
    "better-2": ("#24598c", "#ffffff"),
    "better-1": ("#1c3a56", "#e4e8ee"),
    "same": ("#30363d", "#e4e8ee"),
    "worse-1": ("#4a2e14", "#f6e9dc"),
    "worse-2": ("#83450f", "#ffffff"),
    "worse-3": ("#d4771f", "#140b02"),
    "worse-4": ("#ffb26b", "#140b02"),
}
#: class -> the range of ratios
KEY = {
    name: meaning.replace("x", TIMES)
    for name, meaning in {
        "better-4": "over 20x",
        "better-3": "5x to 20x",
        "better-2": "2x to 5x",
        "better-1": "1.1x to 2x",
        "same": "even or unsure",
        "worse-1": "0.5x to 0.9x",
        "worse-2": "0.2x to 0.5x",
        "worse-3": "0.05x to 0.2x",
        "worse-4": "under 0.05x",
    }.items()
}


def css() -> str:
    light, dark = (
        "\n".join(f".{name} {{ background: {back}; color: {ink}; }}" for name, (back, ink) in shades.items())
        for shades in (LIGHT, DARK)
    )
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
