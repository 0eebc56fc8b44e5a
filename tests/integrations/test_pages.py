"""The programs on the pages about learners run as printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integrations.pages import programs


@pytest.mark.parametrize("program", programs("cleanrl", "own-loop", "sb3", "torchrl"))
def test_each_program_of_the_pages_runs(program, tmp_path):
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
