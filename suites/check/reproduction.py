"""Scripts that repeat a finding without this project: the buffer's functions, and a few lines that end in an assert."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from suites.check.functions import OPTIONS, STEP, BufferFunctions
from suites.check.subject import Subject

MOST_LINES = 15
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
    """Return a program of `body` and of what it needs of the functions' source."""
    text = "\n".join(body)
    parts = _parts(functions.source)
    called = {node.name for node in ast.parse(functions.source).body if isinstance(node, ast.FunctionDef)}
    used = [name for name in parts if _uses(text, name, name in called)]
    for name in used:  # and what these use
        used += [other for other in parts if other not in used and _uses(parts[name], other, other in called)]
    kept = [parts[name] for name in parts if name in used]
    needed = "\n".join([*kept, text])
    imports = [line for line in _imports(functions.source) if line != HEADER and _is_used(line, needed)]
    first = [HEADER, *([functions.imported] if functions.imported else []), *imports]
    return "\n".join([*first, *kept, text]) + "\n"


def _uses(text: str, name: str, called: bool) -> bool:
    """Return whether a text has this name; for a function, that it calls it, as an argument may have the same name."""
    return bool(re.search(rf"(?<![.\w]){re.escape(name)}" + (r"\(" if called else r"\b"), text))


def _parts(source: str) -> Mapping[str, str]:
    """Return the functions and classes of this source, and what it assigns, by name, without docstrings."""
    parts = {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                node.body = node.body[1:]
            parts[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts[node.targets[0].id] = ast.unparse(node)
    return parts


def _imports(source: str) -> list[str]:
    return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]


def _is_used(line: str, text: str) -> bool:
    (node,) = ast.parse(line).body
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    names = [(each.asname or each.name).partition(".")[0] for each in node.names]
    return any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)
