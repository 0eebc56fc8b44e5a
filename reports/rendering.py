"""Fills in the templates of the pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports.answer import shades
from reports.figures.formatting import gbit, interval, listed, number, runnable, share, size, times
from results.suites import suite_of
from results.words import counted

FOLDERS = [
    Path(__file__).resolve().parent / name
    for name in ("templates", "answer", "sections", "gate", "site", "advice", "planning")
]


def render(template: str, page: Mapping[str, Any]) -> str:
    """Fill in a template of one of the FOLDERS, whose name ends in .html.j2 or .md.j2."""
    style = Markup((FOLDERS[0] / "style.css").read_text(encoding="utf-8") + shades.css())
    return _environment(template).get_template(template).render(**page, style=style, Markup=Markup)


def worded(template: str, sentence: str, **values: Any) -> str:
    """Fill in one sentence, a macro of a template of plain text."""
    return str(getattr(_environment(template).get_template(template).module, sentence)(**values)).strip()


@cache
def _environment(template: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDERS),
        autoescape=template.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,  # a misspelt name must be an error, not an empty string
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["suite_of"] = suite_of
    environment.filters.update(
        breakable=_breakable,
        cell=_markdown_cell,
        counted=counted,
        gbit=gbit,
        interval=interval,
        listed=listed,
        number=number,
        runnable=runnable,
        share=share,
        size=size,
        times=times,
    )
    return environment


def _breakable(name: str) -> Markup:
    """Add line-break opportunities to a peer's name: before its variant, after "_", and before capitals in a word."""
    return Markup("<wbr>").join(re.split(r"(?=\[)|(?<=_)|(?<=[a-z])(?=[A-Z])", name))


def _markdown_cell(text: object) -> str:
    """Return the text as one line, escaped for a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
