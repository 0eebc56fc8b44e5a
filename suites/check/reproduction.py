"""Scripts that repeat a finding without this project: the buffer's functions, and a few lines that end in an assert."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from suites.check.functions import OPTIONS, STEP, BufferFunctions
from suites.check.shortening import inlined, packed
from suites.check.subject import Subject

MOST_LINES = 15
LONGEST = 240  # characters of a line that several statements share
HEADER = "import numpy as np"


def made(subject: Subject, capacity: int, **asked: Any) -> str:
    """Return the source of a call of `make` with the arguments that `Subject.make` would pass."""
    functions = subject.functions
    passed = {name: value for name, value in OPTIONS.items() if functions.accepts("make", name)} | asked
    passed |= dict(subject.options)
    if not functions.takes_any("make"):
        passed = {name: value for name, value in passed.items() if functions.accepts("make", name)}
    return f"make({', '.join([str(capacity), *(f'{name}={value!r}' for name, value in passed.items())])})"


def added(subject: Subject, number: str = "i", buffer: str = "b", **step: str) -> str:
    """Return the source of a call of `add` with the row of this number, an expression.

    Each value of the row is its number, unless `step` has another expression for it.
    """
    shape, dtype = OPTIONS["obs_shape"], OPTIONS["obs_dtype"]
    row = {
        "obs": f"np.full({shape}, {number}, {dtype!r})",
        "act": f"{number} % 5",
        "rew": f"float({number})",
        "next_obs": f"np.full({shape}, {number} + 1, {dtype!r})",
        **dict.fromkeys(("done", "terminated", "truncated", "first"), "False"),
        "env": "0",
        **step,
    }
    given = [name for name in STEP if name in row and subject.functions.accepts("add", name)]
    return f"add({', '.join([buffer, *(f'{name}={row[name]}' for name in given)])})"


def script(functions: BufferFunctions, body: Sequence[str]) -> str:
    """Return a program of `body` and of what it needs of the functions' source. If it has more than `MOST_LINES`, small
    functions are written in place of their calls; if that is not enough, statements share lines."""
    text, parts = "\n".join(body), _parts(functions.source)
    program = _program(functions, parts, text)
    if len(program.splitlines()) > MOST_LINES:
        for part in parts.values():
            text = inlined(text, part)
        program = _program(functions, parts, text)
    return program if len(program.splitlines()) <= MOST_LINES else _program(functions, parts, text, LONGEST)


def _program(functions: BufferFunctions, parts: Mapping[str, ast.stmt], text: str, longest: int = 0) -> str:
    kept = [line for part in _used(parts, text) for line in packed(part, longest)]
    needed = "\n".join([*kept, text])
    used = [node for node in _imports(functions.source) if ast.unparse(node) != HEADER and _is_used(node, needed)]
    first = [HEADER, *map(ast.unparse, used)]
    if longest:
        modules = [line.removeprefix("import ") for line in first if line.startswith("import ")]
        first = [f"import {', '.join(modules)}", *(line for line in first if not line.startswith("import "))]
    own = [functions.imported] if functions.imported else []
    return "\n".join([*first, *own, needed]) + "\n"


def _used(parts: Mapping[str, ast.stmt], text: str) -> list[ast.stmt]:
    """Return the parts that a text uses, and those that these use."""
    called = {name for name, part in parts.items() if isinstance(part, ast.FunctionDef)}
    used = [name for name in parts if _uses(text, name, name in called)]
    for name in used:
        source = ast.unparse(parts[name])
        used += [other for other in parts if other not in used and _uses(source, other, other in called)]
    return [part for name, part in parts.items() if name in used]


def _uses(text: str, name: str, called: bool) -> bool:
    """Return whether a text has this name; for a function, that it calls it, as an argument may have the same name."""
    return bool(re.search(rf"(?<![.\w]){re.escape(name)}" + (r"\(" if called else r"\b"), text))


def _parts(source: str) -> dict[str, ast.stmt]:
    """Return the functions and classes of this source, and what it assigns, by name, without docstrings."""
    parts: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                node.body = node.body[1:]
            parts[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts[node.targets[0].id] = node
    return parts


def _imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]


def _is_used(node: ast.Import | ast.ImportFrom, text: str) -> bool:
    names = [(each.asname or each.name).partition(".")[0] for each in node.names]
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)
