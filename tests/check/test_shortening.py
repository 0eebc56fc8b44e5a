"""A script keeps what its calls use: at most 15 lines, which do the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from suites.check import reproduction
from suites.check.checks import refusal
from suites.check.functions import BufferFunctions, NotApplicable, load
from suites.check.probes.streams import StepRefused, Stream, StreamRun, never, row_differs, tells_limits
from suites.check.recognise import recognise
from suites.check.reproduction import MOST_LINES, script
from suites.check.scripts import SCRIPTS
from suites.check.subject import Subject
from tests.check.test_families import STANDINS
from tests.check.test_probes import PROBE_OF, runs, subject

#: Scripts that have one more line: `add` ends episodes, rows are dicts, and priorities are updated by the last batch.
LONGER = {("PfrlPrioritized", check) for check in ("new_row_priority", "weights", "returned_batch")}


def bodies(functions: BufferFunctions) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of scripts of usual checks."""
    plain = Subject(functions)
    for check, lines in SCRIPTS.items():
        try:
            yield check, [] if refusal(check, functions) else [*lines(plain)]
        except NotApplicable:
            continue
    for way in plain.ways():
        try:
            run = StreamRun(way, 24, Stream(limits=tells_limits(plain)), {})
        except StepRefused:  # by a small class, which lacks the option of this way
            continue
        run.steps = [100] * 40
        yield f"row {way.way}", row_differs(run, 101, "next_obs", [102.0])
        yield f"never {way.way}", never(run, 101)


@pytest.mark.parametrize("buffer", STANDINS, ids=lambda each: each.__name__)
def test_scripts_of_a_family_have_at_most_15_lines(buffer: type) -> None:
    functions = recognise(buffer).functions
    lines = {check: len(script(functions, body).splitlines()) for check, body in bodies(functions)}
    over = {check: count for check, count in lines.items() if count > MOST_LINES + ((buffer.__name__, check) in LONGER)}
    assert len(lines) > 10 and not over


@pytest.mark.parametrize(
    ("fault", "check"), [("NeverNewest", "stored_rows"), ("AlphaTwice", "alpha_of_updates"), ("SaveLosesDone", "save")]
)
def test_a_shortened_script_finds_the_fault_and_nothing_else(fault, check, tmp_path, monkeypatch):
    body = PROBE_OF[check](subject(fault))[check].script.splitlines()
    full = script(subject(fault).functions, body)
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    program = script(subject(fault).functions, body)
    assert len(program.splitlines()) < len(full.splitlines()) and "def make" not in program
    assert not runs(program, tmp_path)
    assert runs(script(subject().functions, body), tmp_path)


OF_STACKS = """
import numpy as np
from library import Buffer, Storage
NAMES = ("obs", "act")

class Stacked(Buffer):
    frames = ()

def make(capacity, stack=1, kind="Buffer", **options):
    shape = (4,) if stack == 1 else (4, options.pop("stack_of"))
    fields = {"obs": {"shape": shape, "dtype": bool}}
    fields |= {} if options else {"next": 1}
    storage = Storage(capacity)
    return globals()[kind](storage, fields=fields, **options)

def add(buffer, obs, done, truncated=False):
    row = {"obs": obs}
    buffer.add(**row, done=done)
    if done or truncated:
        buffer.end()

def sample(buffer, n):
    return dict(zip(NAMES, buffer.draw(n)))
"""
TIGHT = {
    "plain": (
        ["b = make(8)", "for i in range(3): add(b, i, done=False)", 'assert sample(b, 2)["obs"] == 1'],
        [
            "b = Buffer(Storage(8), fields={'obs': {'shape': (4,), 'dtype': bool}, 'next': 1})",
            "for i in range(3): b.add(obs=i, done=False)",
            "assert dict(zip(('obs', 'act'), b.draw(2)))[\"obs\"] == 1",
        ],
    ),
    "stacked": (
        ["b = make(8, stack=3, kind='Stacked', stack_of=3, size=5)", "while i: add(b, f(i), done=i > 2)"],
        [
            "class Stacked(Buffer):",
            "    frames = ()",
            "def add(buffer, obs, done):",
            "    buffer.add(obs=obs, done=done)",
            "    if done: buffer.end()",
            "b = Stacked(Storage(8), fields={'obs': {'shape': (4, 3), 'dtype': bool}}, size=5)",
            "while i: add(b, f(i), done=i > 2)",
        ],
    ),
}


@pytest.mark.parametrize("name", TIGHT)
def test_literals_decide_what_is_left(name, monkeypatch):
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    body, expected = TIGHT[name]
    functions = BufferFunctions({}, OF_STACKS)
    lines = script(functions, body).splitlines()
    assert [line for line in lines if "import" not in line] == expected


@pytest.mark.parametrize(
    "call",
    [
        "add(b, *row)",
        "add(b, **row)",
        "x = [add(b, i, done=i > 2) for i in range(3)]",
    ],
)
def test_a_call_that_cannot_be_replaced_stays(call, monkeypatch):
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    program = script(BufferFunctions({}, OF_STACKS), [call])
    assert "def add(buffer, obs, done" in program
    assert ast.unparse(ast.parse(program).body[-1]).startswith(call[:8])


def test_an_argument_that_is_used_twice_is_not_called_twice(monkeypatch):
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    source = (
        "def make(capacity):\n    return 1\ndef add(buffer, obs):\n    buffer.put(obs, obs)\ndef sample(b, n): ...\n"
    )
    functions = load(source, "twice.py")
    assert "b.put(1, 1)" in script(functions, ["add(b, 1)"])
    assert "add(b, draw())" in script(functions, ["add(b, draw())"])
