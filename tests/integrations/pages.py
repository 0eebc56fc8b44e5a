"""The programs that are printed on pages of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def programs(*pages: str) -> list[Any]:
    """Return each program of these pages as a parameter of a test, with its page and number as id."""
    return [
        pytest.param(program, id=f"{page}-{number}")
        for page in pages
        for number, program in enumerate(
            re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
        )
    ]
