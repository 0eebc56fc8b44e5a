"""The program in docs/using.md runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

PAGE = (Path(__file__).resolve().parents[2] / "docs/using.md").read_text(encoding="utf-8")


def test_the_program_of_many_hosts_runs(tmp_path):
    (text,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import ray" in each]
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "100 learner steps; hosts that were lost: []\n"), done.stderr
