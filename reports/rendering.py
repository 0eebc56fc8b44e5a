"""Fills in the templates. A page is written once, in Markdown; its HTML is generated from that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import markdown
from markupsafe import Markup

from reports.answer import shades
from reports.figures.formatting import NOTHING, gbit, interval, listed, number, runnable, share, size, times
from reports.plots import Picture
from results.machine import processor
from results.suites import suite_of
from results.words import counted

FOLDERS = [
    Path(__file__).resolve().parent / name
    for name in ("templates", "answer", "sections", "gate", "site", "advice", "planning")
]
#: Characters that Markdown would interpret as markup. An underscore inside a word is not markup, nor is a bracket that
#: does not begin a link.
MARKUP = re.compile(r"[*|`\\]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=\()|!(?=\[)")
#: Text that Markdown would interpret as markup at the start of a line: a heading, or an item of a list.
START = re.compile(r"^(\s*\d*)([#+.-])(?=\s)")
NUMBER = re.compile(r"(~|&gt;|[+-])*\d")
EXTENSIONS = ("tables", "sane_lists", "md_in_html")
#: Pictures side by side, as they appear in the HTML.
PICTURES = re.compile(r"<p>((?:<img [^>]*>\s*)+)</p>")
PICTURE = re.compile(r'<img [^>]*src="([^"]*)"[^>]*>')


def render(template: str, page: Mapping[str, Any]) -> str:
    """Fill in a template of one of the FOLDERS, whose name ends in .html.j2 or .md.j2."""
    style = Markup((FOLDERS[0] / "style.css").read_text(encoding="utf-8") + shades.css())
    return _environment(template).get_template(template).render(**page, style=style, Markup=Markup)


def worded(template: str, sentence: str, **values: Any) -> str:
    """Fill in one sentence, which is a macro in a template of plain text."""
    return str(getattr(_environment(template).get_template(template).module, sentence)(**values)).strip()


def to_html(text: str, pictures: Mapping[str, Markup]) -> Markup:
    """Return Markdown as HTML. `pictures` maps the files of its pictures to the HTML that replaces them."""
    html = markdown.markdown(text, extensions=EXTENSIONS)
    html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Markup(PICTURES.sub(partial(_figures, pictures), html))


def _figures(pictures: Mapping[str, Markup], found: re.Match[str]) -> str:
    drawn = [f"<figure>{pictures[file]}</figure>" for file in PICTURE.findall(found[1])]
    return f'<div class="plots">{"".join(drawn)}</div>'


@cache
def _environment(template: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        autoescape=template.endswith((".html.j2", ".md.j2")),
        finalize=escaped if template.endswith(".md.j2") else None,
        undefined=jinja2.StrictUndefined,  # a misspelt name must be an error, not an empty string
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(shown=shown, suite_of=suite_of, table=table)
    environment.filters.update(
        block=block,
        code=code,
        code_in_cell=code_in_cell,
        counted=counted,
        gbit=gbit,
        interval=interval,
        listed=listed,
        number=number,
        processor=processor,
        runnable=runnable,
        share=share,
        size=size,
        times=times,
    )
    return environment


def escaped(text: object) -> Markup:
    """Escape a text for a line or a table cell of Markdown, so that it has no markup."""
    if isinstance(text, Markup):
        return text
    line = START.sub(r"\g<1>\\\g<2>", MARKUP.sub(r"\\\g<0>", _one_line(text)))
    return Markup(line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def _one_line(text: object) -> str:
    return re.sub(r"\s*[\r\n]\s*", " ", str(text))


def bold(text: object) -> Markup:
    return Markup(f"**{escaped(text)}**")


def code(text: object) -> Markup:
    """Return a text as code, in a line."""
    line = _one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return Markup(fence + pad + line + pad + fence)


def code_in_cell(text: object) -> Markup:
    """Return a text as code for a table cell, in HTML, because programs differ in how they interpret "|" in code."""
    return Markup(f"<code>{escaped(text)}</code>".replace(r"\|", "&#124;"))


def block(text: object) -> Markup:
    """Return lines of text as code."""
    return Markup("".join(f"    {line}\n" for line in str(text).splitlines()))


def table(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table in Markdown. Columns of numbers, except the first, are aligned to the right; an empty cell shows a
    dash."""
    cells = [[escaped(cell if cell not in (None, "") else NOTHING) for cell in row] for row in rows]
    kinds = ["--:" if at and _are_numbers([row[at] for row in cells]) else "---" for at in range(len(columns))]
    lines = [[escaped(column) for column in columns], kinds, *cells]
    return Markup("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether most cells are numbers; the other cells say why there is no number."""
    return 2 * sum(bool(NUMBER.match(cell)) for cell in cells) > sum(cell != NOTHING for cell in cells)


def shown(pictures: Iterable[Picture]) -> Markup:
    """Return pictures side by side, in Markdown."""
    return Markup("\n".join(f"![{escaped(picture.name)}]({picture.file})" for picture in pictures))
