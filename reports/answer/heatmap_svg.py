"""The heat map as a picture for README and the Markdown page: one SVG for light pages and one for dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from reports.answer.heatmap import HeatCell, HeatColumn, HeatMap, HeatTable
from reports.answer.shades import SHADES

#: theme -> colours of (page, text, faint text, lines)
PAGES = {"light": ("#ffffff", "#1c2128", "#5d6673", "#d5dae1"), "dark": ("#0d1117", "#e4e8ee", "#9aa5b3", "#343c47")}
CELL, ROW, LETTER, MARGIN = 53, 22, 7.0, 10  # pixels; LETTER is an upper bound of the average width
LINE = 12  # height of a line of a column heading
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


def pictures(heat: HeatMap) -> dict[str, str]:
    """Map each theme to its SVG; return an empty mapping for a heat map without tables."""
    return {theme: picture(heat, theme) for theme in PAGES} if heat.tables else {}


def picture(heat: HeatMap, theme: str) -> str:
    page, ink, faint, line = PAGES[theme]
    names = max(len(f"{row.peer} {row.marks}") for table in heat.tables for row in table.rows) * LETTER
    width = 2 * MARGIN + names + CELL * max(len(table.columns) for table in heat.tables)
    parts, top = [], float(MARGIN)
    for table in heat.tables:
        drawn, top = _table(table, theme, MARGIN + names, top)
        parts += drawn
    drawn, top = _key(heat, theme, top, width)
    parts += drawn
    title = "Peers by jobs: how many times as fast as the reference"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {top:.0f}' width='{width:.0f}' "
            f"height='{top:.0f}' role='img' aria-label='{title}' {FONT} font-size='12' fill='{ink}'>",
            f"<defs><pattern id='none' width='6' height='6' patternUnits='userSpaceOnUse'>"
            f"<path d='M0 6L6 0' stroke='{line}'/></pattern></defs>",
            f"<style>.f{{fill:{faint};font-size:10.5px}}.k{{font-size:9.5px}}.m{{text-anchor:middle}}.b{{font-weight:600}}</style>",
            f"<rect width='100%' height='100%' fill='{page}'/>",
            *parts,
            "</svg>\n",
        ]
    )


def _table(table: HeatTable, theme: str, left: float, top: float) -> tuple[list[str], float]:
    """Return the SVG elements of a table, and the y coordinate below it."""
    heading = f"{table.title}: times as fast as {table.reference}"
    parts = [_text(MARGIN, top + 14, heading, "b")]
    top += 22
    at = left
    for name, count in table.groups.items():
        for number, line in enumerate(name.split(", ")):
            parts.append(_text(at + count * CELL / 2, top + LINE * (number + 1), line, "f m"))
        at += count * CELL
    lines = max(len(_lines(column)) for column in table.columns)
    top += 6 + LINE * (2 + lines)
    for place, column in enumerate(table.columns):
        words = _lines(column)
        for number, word in enumerate(words):
            height = top - LINE * (len(words) - number - 1) - 3
            parts.append(_text(left + (place + 0.5) * CELL, height, word, "f m"))
    for row in table.rows:
        parts.append(_text(MARGIN, top + 15, f"{row.peer} {row.marks}".strip()))
        for place, cell in enumerate(row.cells):
            parts += _cell(cell, theme, left + place * CELL, top)
        top += ROW
    return parts, top + 12


def _lines(column: HeatColumn) -> Sequence[str]:
    """Return the lines of a column's heading, wrapped to the column's width."""
    lines = [""]
    for word in column.label.split():
        joined = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], joined] if len(joined) <= 9 else [*lines, word]
    return lines


def _cell(cell: HeatCell, theme: str, x: float, y: float) -> Iterator[str]:
    back, ink = getattr(SHADES[cell.css], theme) if cell.css in SHADES else ("url(#none)", PAGES[theme][2])
    yield f"<rect x='{x:.0f}' y='{y:.0f}' width='{CELL - 1}' height='{ROW - 1}' fill='{back}'/>"
    yield _text(x + CELL / 2, y + 15, cell.text, "m", ink)


def _key(heat: HeatMap, theme: str, top: float, width: float) -> tuple[list[str], float]:
    parts, each = [], (width - 2 * MARGIN) / len(SHADES)
    for place, shade in enumerate(SHADES.values()):
        back, ink = getattr(shade, theme)
        x = MARGIN + place * each
        parts.append(f"<rect x='{x:.0f}' y='{top:.0f}' width='{each:.0f}' height='18' fill='{back}'/>")
        parts.append(_text(x + each / 2, top + 13, shade.meaning, "k m", ink))
    top += 34
    for sign, meaning in heat.notes:
        parts.append(_text(MARGIN, top, f"{sign} {meaning}", "f"))
        top += 15
    return parts, top


def _text(x: float, y: float, text: str, kind: str = "n", ink: str = "") -> str:
    color = f" fill='{ink}'" if ink else ""
    return f"<text x='{x:.0f}' y='{y:.0f}' class='{kind}'{color}>{escape(text)}</text>"
