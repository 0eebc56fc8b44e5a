"""Variables that a target does not take, and profiles that do not exist, are refused before anything is set up."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HELP = re.findall(r"^([a-z-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
TAKEN = [(target, name) for target, said in HELP for name in re.findall(r"\b([A-Z_]{3,})=", said)]
CALLS = [
    (str(path.relative_to(ROOT)), line.strip())
    for path in (*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".ci/*"))
    for line in re.findall(r"^(?:\s*- run: )?(make [a-z].*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if "$" not in line
]
VALUES = {"PROFILE": "tiny"}


def make(*words: str) -> subprocess.CompletedProcess:
    built = ["--assume-old=.venv/.built", "--assume-old=.peers/torch/.built"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", *built, *words]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("target", "name"), TAKEN)
def test_a_target_takes_what_its_help_names(target, name):
    done = make(target, f"{name}={VALUES.get(name, '1')}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("file", "line"), CALLS)
def test_ci_calls_targets_with_what_they_take(file, line):
    words = shlex.split(line, comments=True)[1:]
    done = make(*words)
    assert done.returncode == 0, f"{file}: {line}: {done.stderr}"


def test_the_nightly_checks_take_what_they_are_given():
    text = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    targets = re.findall(r"^ {10}- (.*)$", text.partition("target:")[2].partition("runs-on")[0], re.MULTILINE)
    assert len(targets) == 9
    for target in targets:
        assert make(*target.split()).returncode == 0, target


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
