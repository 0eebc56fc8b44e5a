"""Scripts that repeat a finding without this project: the buffer's functions, and a few lines that end in an assert."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from suites.check.functions import FUNCTIONS, OPTIONS, STEP, BufferFunctions
from suites.check.shortening import Replacing, inlined, packed_body
from suites.check.subject import Subject

MOST_LINES = 15
LONGEST = 240  # characters of a line that several statements share
HEADER = "import numpy as np"
IMPORTS, DEFINITIONS = (ast.Import, ast.ImportFrom), (ast.FunctionDef, ast.ClassDef)


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
    text, statements = "\n".join(body), _statements(functions)
    program = _program(functions, statements, text)
    if len(program.splitlines()) > MOST_LINES:
        for statement in statements:
            text = inlined(text, statement)
        program = _program(functions, statements, text)
    return program if len(program.splitlines()) <= MOST_LINES else _program(functions, statements, text, LONGEST)


def _program(functions: BufferFunctions, statements: Sequence[ast.stmt], text: str, longest: int = 0) -> str:
    """Return the program. It keeps the order of the file: a statement may set the path for the next import."""
    kept = [node for node in _needed(statements, text) if ast.unparse(node) != HEADER]
    leading = [*takewhile(lambda node: isinstance(node, IMPORTS), kept)]
    first = [HEADER, *map(ast.unparse, leading)]
    if longest:
        modules = [line.removeprefix("import ") for line in first if line.startswith("import ")]
        first = [f"import {', '.join(modules)}", *(line for line in first if not line.startswith("import "))]
    own = [functions.imported] if functions.imported else []
    return "\n".join([*first, *own, *packed_body(kept[len(leading) :], longest), text]) + "\n"


def _needed(statements: Sequence[ast.stmt], text: str) -> list[ast.stmt]:
    """Return the statements that a text needs: those that bind names that it or they use, and all that do more."""
    needed = [node for node in statements if not _only_binds(node)]
    texts = [text, *map(ast.unparse, needed)]
    for used in texts:
        found = [node for node in statements if node not in needed and any(_uses(used, name) for name in _bound(node))]
        needed += found
        texts += map(ast.unparse, found)
    return [node for node in statements if node in needed]


def _uses(text: str, name: str) -> bool:
    """Return whether a text has this name; for a function of the buffer, that it calls it, as an argument may have the
    same name."""
    end = r"\(" if name in FUNCTIONS else r"\b"
    return name == "*" or re.search(rf"(?<![.\w]){re.escape(name)}{end}", text) is not None


def _statements(functions: BufferFunctions) -> list[ast.stmt]:
    """Return the statements of the functions' file, without docstrings and what it does as a program."""
    where = Replacing({"__file__": ast.Constant(functions.file)})
    body = [where.visit(node) for node in ast.parse(functions.source).body]
    for node in body:
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node) is not None and len(node.body) > 1:
            node.body = node.body[1:]
    return [node for node in body if not _is_text(node) and not _is_program(node)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_program(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ ==")


def _only_binds(node: ast.stmt) -> bool:
    """Return whether a statement only binds names, judging by its form."""
    if isinstance(node, (ast.If, ast.Try)):
        handled = [each for handler in getattr(node, "handlers", []) for each in handler.body]
        return all(map(_only_binds, [*node.body, *handled, *node.orelse, *getattr(node, "finalbody", [])]))
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(each, (ast.Name, ast.Tuple)) for each in targets)
    return isinstance(node, (*IMPORTS, *DEFINITIONS, ast.Pass)) or _is_text(node)


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds in the module."""
    if isinstance(node, IMPORTS):
        yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
    elif isinstance(node, DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    else:
        for part in ast.iter_child_nodes(node):
            yield from _bound(part)
