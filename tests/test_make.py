"""Variables that a target does not take, and profiles that do not exist, are refused before anything is set up."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HELP = re.findall(r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
TAKEN = [(target, name) for target, said in HELP for name in re.findall(r"\b([A-Z_]{3,})=", said)]
VALUES = {"PROFILE": "tiny"}


def make(*words: str) -> subprocess.CompletedProcess:
    built = ["--assume-old=.venv/.built", "--assume-old=.peers/torch/.built"]
    return subprocess.run(["make", "--dry-run", *built, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("target", "name"), TAKEN)
def test_a_target_takes_what_its_help_names(target, name):
    done = make(target, f"{name}={VALUES.get(name, '1')}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "ADAPTR=x.py"], "make bench does not take ADAPTR; it takes PYTHON PROFILE MINUTES PEERS ADAPTER"),
        (["bench", "GATE_MINUTES=3"], "make bench does not take GATE_MINUTES"),
        (["gate", "MINUTES=3"], "make gate does not take MINUTES"),
        (["help", "MINUTES=3"], "make help does not take MINUTES; it takes PYTHON."),
        (["bench", "PROFILE=quik"], "unknown profile: quik; known: tiny quick"),
    ],
)
def test_anything_else_is_refused(words, said):
    done = make(*words)
    assert done.returncode == 2 and said in done.stderr and not done.stdout
