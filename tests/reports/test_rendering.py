"""Text from a record cannot add markup to a page, neither in Markdown nor in HTML."""

from __future__ import annotations

import html
import re

import pytest
from markupsafe import Markup

from reports.rendering import block, bold, code, code_in_cell, escaped, table, to_html

PLACES = {
    "line": lambda text: Markup(f"Before {escaped(text)} after"),
    "start of a line": lambda text: Markup(f"Before\n\n{escaped(text)}\n\nafter"),
    "cell": lambda text: table(["before", "after"], [["-", text]]),
    "code": lambda text: Markup(f"Before {code(text)} after"),
    "code in a cell": lambda text: table(["before", "after"], [["-", code_in_cell(text)]]),
    "block": lambda text: Markup(f"Before\n\n{block(text)}\nafter"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a | b",
        "*x* **y**",
        "__init__.py",
        "`code` ``",
        r"back\slash",
        "a\n```\n<b>",
        "[a](javascript:b)",
        "![a](http://b)",
        "x[MP](3)",
        "&lt;b&gt;",
        "# x",
        "- x",
        "1. x",
        "> x",
        "one\rtwo",
    ],
)
def test_text_is_escaped_in_every_context(text, place):
    page = to_html(PLACES[place](text), {})
    words = html.unescape(re.sub(r"</?(p|pre|code|div|table|thead|tbody|tr|th|td)( [^>]*)?>", " ", page)).split()
    assert " ".join(text.split()) in " ".join(words)
    assert not re.search("<(script|b|em|strong|a|img|h1|li|blockquote)\\b", page)


def test_columns_of_numbers_are_aligned_to_the_right():
    rows = [["a", "1.5 (1 to 2)", ""], ["b", "~>20", None], ["c", "skipped", ""]]
    rule = table(["name", "ratio", "empty"], rows).splitlines()[1]
    assert rule == "| --- | --: | --- |"


def test_bold_text_keeps_its_contents():
    assert bold("a*b") == Markup(r"**a\*b**")


def test_adjacent_pictures_form_one_group():
    page = to_html("![one](a.png)\n![two](b.png)\n", {"a.png": Markup("<svg>1</svg>"), "b.png": Markup("<svg>2</svg>")})
    assert page == '<div class="plots"><figure><svg>1</svg></figure><figure><svg>2</svg></figure></div>'
