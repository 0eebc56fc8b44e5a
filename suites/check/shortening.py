"""Shortens a script: small functions are written in place of their calls, and statements share lines."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COMPOUND = (ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With)
#: Parts of an expression that options decide, or that have parameters of their own.
NOT_INLINED = (ast.IfExp, ast.BoolOp, ast.Lambda)


def inlined(text: str, definition: ast.stmt) -> str:
    """Return a text with a function's expression in place of its calls.

    The text is returned as it is if the function is more than an expression, if options decide what it does, or if in
    any call an argument would be evaluated several times or have the name of a local.
    """
    value = _expression(definition)
    if not isinstance(definition, ast.FunctionDef) or value is None:
        return text
    before, names = text, [each.arg for each in definition.args.args]
    local = {each.id for each in _names(value) if not isinstance(each.ctx, ast.Load)}
    while call := _last_call(text, definition.name):
        passed = _passed(definition, call)
        used = {each.id for argument in passed.values() for each in _names(argument)}
        if passed.keys() != {*names} or local & {*names, *used}:
            return before
        if any(_has_call(passed[name]) and not _is_read_once(value, name) for name in names):
            return before
        new = ast.unparse(Replacing(passed).visit(copy.deepcopy(value)))
        old = ast.get_source_segment(text, call) or ""
        new = new if isinstance(value, (ast.Call, ast.Dict)) else f"({new})"
        text = re.sub(rf"(?<![.\w]){re.escape(old)}", new.replace("\\", r"\\"), text)
    return text


def _expression(definition: ast.stmt) -> ast.expr | None:
    """Return what a function of one expression returns or evaluates; None if it is no such function."""
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list or len(definition.body) > 1:
        return None
    only, arguments = definition.body[0], definition.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or not isinstance(only, (ast.Return, ast.Expr)):
        return None
    parts = list(ast.walk(only))
    kept = any(isinstance(each, NOT_INLINED) or getattr(each, "id", "") == definition.name for each in parts)
    return None if kept else only.value


def _last_call(text: str, name: str) -> ast.Call | None:
    """Return the innermost of the last calls of this function."""
    calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    return next((each for each in reversed(calls) if isinstance(each.func, ast.Name) and each.func.id == name), None)


def _passed(function: ast.FunctionDef, call: ast.Call) -> dict[str | None, ast.expr]:
    """Return what each parameter is in a call; nothing if the call unpacks arguments."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return {}
    names = [each.arg for each in function.args.args]
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    given = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords}
    return defaults | given


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _has_call(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _is_read_once(value: ast.AST, name: str) -> bool:
    """Return whether an expression reads this name at most once, and not in each round of a comprehension."""

    def uses(node: ast.AST) -> int:
        return sum(each.id == name for each in _names(node))

    rounds = [each for each in ast.walk(value) if isinstance(each, COMPREHENSIONS)]
    return uses(value) < 2 and all(uses(each) == uses(each.generators[0].iter) for each in rounds)


class Replacing(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, values: Mapping[str | None, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def packed(node: ast.stmt, longest: int) -> list[str]:
    """Return the lines of a statement. Simple statements within it share lines of at most `longest` characters."""
    if not isinstance(node, COMPOUND) or getattr(node, "orelse", None):
        return ast.unparse(node).split("\n")
    empty = copy.copy(node)
    empty.body = [ast.Pass()]
    head = [line for line in ast.unparse(empty).split("\n")[:-1] if line]
    body = packed_body(node.body, longest - 4)
    if len(body) == 1 and all(map(_is_simple, node.body)) and len(head[-1]) + len(body[0]) < longest:
        return [*head[:-1], f"{head[-1]} {body[0]}"]
    return [*head, *(f"    {line}" for line in body)]


def packed_body(nodes: Sequence[ast.stmt], longest: int) -> list[str]:
    """Return the lines of several statements, of which simple ones share lines."""
    body: list[str] = []
    is_shared = False  # whether the last line may get another statement
    for each in nodes:
        lines = packed(each, longest)
        if is_shared and _is_simple(each) and len(body[-1]) + len(lines[0]) + 2 <= longest:
            body[-1] += f"; {lines[0]}"
        else:
            body += lines
        is_shared = _is_simple(each)
    return body


def _is_simple(node: ast.stmt) -> bool:
    return not hasattr(node, "body") and not hasattr(node, "cases")
