"""The programs on the pages about learners run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAMS = [
    pytest.param(program, id=f"{page}-{number}")
    for page in ("cleanrl", "sb3", "torchrl")
    for number, program in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs(program, tmp_path):
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
