"""A script has at most 15 lines, which do what the functions do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from suites.check import reproduction
from suites.check.checks import refusal
from suites.check.functions import BufferFunctions, NotApplicable
from suites.check.probes.streams import StepRefused, Stream, StreamRun, never, row_differs, tells_limits
from suites.check.recognise import recognise
from suites.check.reproduction import MOST_LINES, script
from suites.check.scripts import SCRIPTS
from suites.check.subject import Subject
from tests.check.test_families import STANDINS
from tests.check.test_probes import PROBE_OF, runs, subject

#: More lines that a script may have: those of a class that stacks frames for cpprb, or of windows for keras-rl.
LONGER = {"stack_compress": 3}


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
    allowed = {check: MOST_LINES + LONGER.get(check.split()[-1], 0) for check in lines}
    assert len(lines) > 10 and not {check: count for check, count in lines.items() if count > allowed[check]}


@pytest.mark.parametrize(
    ("fault", "check"), [("NeverNewest", "stored_rows"), ("AlphaTwice", "alpha_of_updates"), ("SaveLosesDone", "save")]
)
def test_a_shortened_script_finds_the_fault_and_nothing_else(fault, check, tmp_path, monkeypatch):
    body = PROBE_OF[check](subject(fault))[check].script.splitlines()
    full = script(subject(fault).functions, body)
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    program = script(subject(fault).functions, body)
    assert len(program.splitlines()) < len(full.splitlines()) and "def add" not in program
    assert not runs(program, tmp_path)
    assert runs(script(subject().functions, body), tmp_path)


SOURCE = """
import numpy as np
import zlib
from library import Buffer
NAMES = ("obs", "act")

class Stacked(Buffer):
    frames = ()
    def end(self):
        del self.frames
        super().end()

def make(capacity, alpha=0.5):
    return Buffer(size=capacity, alpha=alpha)

def add(buffer, obs, done):
    row = {"obs": obs}
    buffer.add(**row, done=done)
    if done:
        buffer.end()

def sample(buffer, n):
    return dict(zip(NAMES, buffer.draw(n)))

def update(buffer, indexes, priorities):
    for each in zip(indexes, priorities):
        buffer.set(*each)
"""


def short(body: list[str], monkeypatch: pytest.MonkeyPatch, source: str = SOURCE) -> list[str]:
    monkeypatch.setattr(reproduction, "MOST_LINES", 0)
    return script(BufferFunctions({}, source), body).splitlines()


def test_functions_of_one_expression_are_written_in_place_of_their_calls(monkeypatch):
    body = ["b = make(8)", "for i in range(3): add(b, i, done=False)", 'assert sample(b, 2)["obs"] == 1  # newest']
    assert short(body, monkeypatch) == [
        "import numpy as np",
        "from library import Buffer",
        "NAMES = ('obs', 'act')",
        "def add(buffer, obs, done):",
        "    row = {'obs': obs}; buffer.add(**row, done=done)",
        "    if done: buffer.end()",
        "b = Buffer(size=8, alpha=0.5)",
        "for i in range(3): add(b, i, done=False)",
        'assert dict(zip(NAMES, b.draw(2)))["obs"] == 1  # newest',
    ]


def test_statements_share_lines_that_are_not_too_long(monkeypatch):
    assert short(["b = Stacked(8)"], monkeypatch)[2:-1] == [
        "class Stacked(Buffer):",
        "    frames = ()",
        "    def end(self): del self.frames; super().end()",
    ]
    monkeypatch.setattr(reproduction, "LONGEST", 40)
    assert "        del self.frames; super().end()" in short(["b = Stacked(8)"], monkeypatch)
    assert "    for each in zip(indexes, priorities): buffer.set(*each)" not in short(["update(b, i, p)"], monkeypatch)


@pytest.mark.parametrize("call", ["sample(b, *n)", "sample(*b)", "sample(b)", "sample(b, 1, **more)"])
def test_a_call_with_other_arguments_stays(call, monkeypatch):
    lines = short([f"x = {call}", "y = sample(b, 3)"], monkeypatch)
    assert lines[-2:] == [f"x = {call}", "y = sample(b, 3)"] and lines[-3].startswith("def sample(buffer, n):")


@pytest.mark.parametrize(
    ("function", "call", "written"),
    [
        ("def add(buffer, obs): buffer.put(obs, obs)", "add(b, 1)", "b.put(1, 1)"),
        ("def add(buffer, obs): buffer.put(obs, obs)", "add(b, draw())", "add(b, draw())"),
        ("def add(buffer, obs): return [obs for _ in range(3)]", "add(b, draw())", "add(b, draw())"),
        ("def add(buffer, obs): return [x for x in obs]", "add(b, draw())", "([x for x in draw()])"),
        ("def add(buffer, obs): return [x + obs for x in buffer]", "add(b, x)", "add(b, x)"),
        ("def add(buffer, obs): return buffer + obs", "add(b, 1) * 2", "(b + 1) * 2"),
        ("def add(buffer, obs): return buffer if obs else 0", "add(b, ())", "add(b, ())"),
        ("def add(buffer, obs): return add(buffer, obs)", "add(b, 1)", "add(b, 1)"),
        ("def add(buffer, obs, **more): return 1", "add(b, 1)", "add(b, 1)"),
        (
            "def add(buffer, obs): return buffer.add(obs)",
            "add(c, add(b, 1)); b.readd(b, 1)",
            "c.add(b.add(1)); b.readd(b, 1)",
        ),
    ],
)
def test_an_expression_is_evaluated_as_in_a_call(function, call, written, monkeypatch):
    assert short([call], monkeypatch, f"{function}\n")[-1] == written


BRANCHES = """
def add(buffer, obs):
    if obs:
        buffer.a()
    else:
        buffer.b()
    try:
        buffer.c()
    finally:
        buffer.d()
"""


def test_branches_keep_their_lines(monkeypatch):
    program = short(["add(b, 1)"], monkeypatch, BRANCHES)
    assert program[1:-1] == BRANCHES.strip().splitlines()


PREPARED = '''
"""Functions of a buffer in a folder that is not a package."""
import os, sys
import numpy as np
sys.path.append(os.path.dirname(__file__) + "/old")
np.float = float
try:
    from fast import Buffer
except ImportError:
    from slow import Buffer
try:
    import unused
except ImportError:
    unused = None
generator, limit = np.random.default_rng(0), 3
unread: int = 8

def as_row(row):
    return np.array(row, np.float)

def make(capacity):
    return Buffer(capacity)

def sample(buffer, size):
    """Return a batch."""
    return list(map(as_row, buffer.draw(generator, size)))

if __name__ == "__main__":
    sample(make(8), limit)
'''


def test_a_script_keeps_what_the_file_does_before_it_imports_the_buffer(monkeypatch):
    """Their order is that of the file; what only binds unused names is left out."""
    monkeypatch.setattr(reproduction, "MOST_LINES", 16)
    program = script(BufferFunctions({}, PREPARED, file="/mine/functions.py"), ["x = sample(make(8), 4)"])
    assert program.splitlines() == [
        "import numpy as np",
        "import os, sys",
        "sys.path.append(os.path.dirname('/mine/functions.py') + '/old')",
        "np.float = float",
        "try:",
        "    from fast import Buffer",
        "except ImportError:",
        "    from slow import Buffer",
        "generator, limit = (np.random.default_rng(0), 3)",
        "def as_row(row):",
        "    return np.array(row, np.float)",
        "def make(capacity):",
        "    return Buffer(capacity)",
        "def sample(buffer, size):",
        "    return list(map(as_row, buffer.draw(generator, size)))",
        "x = sample(make(8), 4)",
    ]
