"""Shortens a script: its functions keep only what its calls use, and small ones are written in place of their calls."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from suites.check.folding import (
    COMPOUND,
    Replacing,
    Unknown,
    evaluated,
    folded,
    of_comprehensions,
    simplified,
    stored,
    uses,
    without_locals,
)

#: Definitions and calls of a script: the functions, classes and constants by name, and the lines that call them.
Parts = Mapping[str, ast.stmt]
FIRST = ("make", "add", "update", "size", "cut", "add_batch", "windows", "at", "sample")  # to be written in place
NOT_REDUCED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Global)


def shorter(parts: Parts, text: str) -> Iterator[tuple[Parts, str]]:
    """Yield shorter and shorter versions of a script."""
    parts = dict(parts)
    constants = _constants(parts)
    for name, function in list(parts.items()):
        if isinstance(function, ast.FunctionDef) and calls_in(text, name) and not _is_used(parts, name):
            try:
                left = reduced(function, calls_in(text, name), constants)
                text, parts[name] = without_arguments(text, function, left), left
            except Unknown:
                continue
    yield parts, text
    for name in FIRST:
        function = parts.get(name)
        if isinstance(function, ast.FunctionDef) and calls_in(text, name) and not _is_used(parts, name):
            try:
                text = inlined(text, function)
            except Unknown:
                continue
            parts = {other: part for other, part in parts.items() if other != name}
            yield parts, text


def _constants(parts: Parts) -> dict[str, Any]:
    found = {}
    for name, part in parts.items():
        if isinstance(part, ast.Assign):
            try:
                found[name] = evaluated(part.value, {})
            except Unknown:
                continue
    return found


def _is_used(parts: Parts, name: str) -> bool:
    """Return whether a definition has this function."""
    return any(uses(part, name) for other, part in parts.items() if other != name)


def reduced(function: ast.FunctionDef, calls: Sequence[ast.Call], constants: Mapping[str, Any]) -> ast.FunctionDef:
    """Return what is left of a function that is called in only these ways. Raises `Unknown` if it stays as it is."""
    if function.decorator_list or any(isinstance(e, NOT_REDUCED) for part in function.body for e in ast.walk(part)):
        raise Unknown
    bound, known = [arguments(function, call) for call in calls], dict(constants)
    for name in bound[0]:
        known.pop(name, None)
        if len({ast.dump(each[name]) for each in bound}) == 1:
            try:
                known[name] = evaluated(bound[0][name], {})
            except Unknown:
                continue
    if function.args.kwarg is not None and function.args.kwarg.arg not in known:
        raise Unknown
    left = copy.deepcopy(function)
    left.body = without_locals(folded(function.body, known)) or [ast.Pass()]
    if any("globals()" in ast.unparse(ast.fix_missing_locations(each)) for each in left.body):
        raise Unknown
    used = [each for each in function.args.args if any(uses(part, each.arg) for part in left.body)]
    left.args = ast.arguments([], used, None, [], [], None, [])
    return ast.fix_missing_locations(left)


def arguments(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """Return what each parameter is in a call, the rest as a dict. Raises `Unknown` if that is not written there."""
    names, kwarg = [each.arg for each in function.args.args], function.args.kwarg
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        raise Unknown
    given = dict(zip(names, call.args, strict=False)) | {str(each.arg): each.value for each in call.keywords}
    defaults = function.args.defaults
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) | given
    rest = {name: value for name, value in given.items() if name not in names}
    if set(names) - given.keys() or (rest and kwarg is None) or function.args.kwonlyargs or function.args.vararg:
        raise Unknown
    more = {kwarg.arg: ast.Dict([ast.Constant(name) for name in rest], [*rest.values()])} if kwarg else {}
    return {name: given[name] for name in names} | more  # type: ignore[dict-item]


def calls_in(text: str, name: str) -> list[ast.Call]:
    """Return the calls of a function, the last and innermost first."""
    return _calls(ast.parse(text), name)


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    named = [each for each in calls if each.func.id == name]  # type: ignore[attr-defined]
    return sorted(named, key=lambda each: (each.lineno, each.col_offset), reverse=True)


def replaced(text: str, node: ast.expr | ast.stmt, by: str) -> str:
    """Return a text in which this node is replaced. Raises `Unknown` if it has several lines."""
    lines = text.split("\n")
    if node.lineno != node.end_lineno:
        raise Unknown
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + by.encode() + line[node.end_col_offset :]).decode()
    return "\n".join(lines)


def without_arguments(text: str, function: ast.FunctionDef, left: ast.FunctionDef) -> str:
    """Return a text in which calls of `function` pass only the arguments that are left."""
    names = [each.arg for each in left.args.args]
    for at in range(len(calls_in(text, function.name))):
        call = calls_in(text, function.name)[at]
        given = arguments(function, call)
        by_place = [each.arg for each in function.args.args][: len(call.args)]
        placed = [given[name] for name in by_place if name in names]
        call.keywords = [ast.keyword(name, given[name]) for name in names if name not in by_place]
        text = replaced(text, call, ast.unparse(ast.Call(call.func, placed, call.keywords)))
    return text


def inlined(text: str, function: ast.FunctionDef) -> str:
    """Return a text in which the function's statements are in place of its calls. Raises `Unknown`."""
    while calls := _calls(tree := ast.parse(text), function.name):
        text = _with_body(text, tree, calls[0], function)
    return text


def _with_body(text: str, tree: ast.Module, call: ast.Call, function: ast.FunctionDef) -> str:
    *first, last = [_with_arguments(node, arguments(function, call)) for node in function.body]
    value = last.value if isinstance(last, ast.Return) else None
    if value is not None and not first:
        return replaced(text, call, _in_place(value))
    statement = next((each for each in ast.walk(tree) if isinstance(each, ast.stmt) and _is_of(each, call)), None)
    local = {name for node in (*first, last) for name in stored(node) - of_comprehensions(node)}
    returns = any(isinstance(each, ast.Return) for node in first for each in ast.walk(node))
    if statement is None or local or returns or (value is None) == isinstance(statement, ast.Assign):
        raise Unknown
    if value is not None:
        target = ast.unparse(statement.targets[0])  # type: ignore[attr-defined]
        return replaced(text, statement, "; ".join([*map(_simple, first), f"{target} = {ast.unparse(value)}"]))
    line = text.split("\n")[statement.lineno - 1]
    if line.strip() != line[statement.col_offset : statement.end_col_offset]:
        return replaced(text, statement, "; ".join(map(_simple, (*first, last))))
    indent = " " * statement.col_offset
    return replaced(text, statement, f"\n{indent}".join(map(_line, (*first, last))))


def _is_of(statement: ast.stmt, call: ast.Call) -> bool:
    """Return whether this statement is the call, or assigns what it returns."""
    if isinstance(statement, ast.Assign) and len(statement.targets) != 1:
        return False
    return isinstance(statement, (ast.Expr, ast.Assign)) and statement.value is call


def _simple(node: ast.stmt) -> str:
    if isinstance(node, COMPOUND):
        raise Unknown
    return ast.unparse(node)


def _line(node: ast.stmt) -> str:
    """Return a statement in one line. Raises `Unknown`."""
    if isinstance(node, ast.If) and not node.orelse:
        return f"if {ast.unparse(node.test)}: {'; '.join(map(_simple, node.body))}"
    return _simple(node)


def _in_place(value: ast.expr) -> str:
    is_atom = isinstance(value, (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Dict, ast.Constant))
    return ast.unparse(value) if is_atom else f"({ast.unparse(value)})"


def _with_arguments(node: ast.stmt, given: Mapping[str, ast.expr]) -> ast.stmt:
    """Return a statement with arguments in place of parameters. Raises `Unknown` if it would do something else."""
    hidden = of_comprehensions(node)
    for name, value in given.items():
        if name in hidden or (uses(node, name) and any(uses(value, other) for other in hidden)):
            raise Unknown
        if uses(node, name) > 1 and any(isinstance(each, ast.Call) for each in ast.walk(value)):
            raise Unknown  # it would be called several times
    return simplified(Replacing(given).visit(copy.deepcopy(node)))


def in_a_line(node: ast.stmt, longest: int) -> str:
    """Return a definition with as few lines as possible, of at most so many characters each where it has a choice."""
    lines = [line for line in ast.unparse(node).split("\n") if line]
    if not longest or not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return "\n".join(lines)
    head = lines[: len(node.decorator_list) + 1]
    if isinstance(node, ast.ClassDef):
        body = "\n".join(in_a_line(each, longest - 4) for each in node.body)
        return "\n    ".join([*head, *body.split("\n")])
    try:
        line = f"{head[-1]} {'; '.join(map(_simple, node.body))}"
        return "\n".join([*head[:-1], line] if len(line) <= longest else lines)
    except Unknown:
        pass
    try:
        return "\n    ".join([*head, *map(_line, node.body)])
    except Unknown:
        return "\n".join(lines)
