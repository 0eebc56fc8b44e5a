"""Drafts of reports to other libraries show a fault that is still there, in at most 15 lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "upstream"
DRAFTS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
OF_CPPRB = [path for path in DRAFTS if path.name.startswith("cpprb")]


def script(draft: Path) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", draft.read_text(encoding="utf-8"), re.DOTALL)
    return found


@pytest.mark.parametrize("draft", DRAFTS, ids=lambda path: path.stem)
def test_a_draft_is_listed_and_its_script_is_short(draft):
    assert len(script(draft).splitlines()) <= 15
    assert f"]({draft.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "draft", [path for path in DRAFTS if path.name.startswith("cpprb")], ids=lambda path: path.stem
)
def test_the_script_of_a_draft_fails_with_the_pinned_release(draft, tmp_path):
    """If it passes, the library has fixed the fault, and the draft can go."""
    done = subprocess.run([sys.executable, "-c", script(draft)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "AssertionError" in done.stderr.splitlines()[-1], done.stderr
