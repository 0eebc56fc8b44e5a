"""What a method returns, and which attribute counts the rows, read from a class's source."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from suites.check.names import COUNTERS, column, ends

WEIGHED = ("weights", "indexes")  # follow a step's columns
STEP = "step"
STORED = {"obs", "act", "rew", "next_obs", "done"}


@dataclass(frozen=True)
class Returned:
    """What a method returns: "columns" (a tuple of these), "dict" or "object" (these keys or
    attributes, by column), or "rows"."""

    kind: str = ""  # "" if its source does not say
    columns: Mapping[str, str] | tuple[str, ...] = ()  # `STEP` stands for the arguments of `add`, in their order


def returned(buffer: type, name: str, depth: int = 2) -> Returned:
    """Return what this method's source says that it returns."""
    tree = _tree(getattr(buffer, name, None))
    if tree is None:
        return Returned()
    assigned = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            return _kind(node.value, assigned, buffer, depth)
    return Returned()


def unpacked(buffer: type, name: str) -> tuple[str, ...]:
    """Return the columns of a step in the order in which this method unpacks one, or many at once; () if unknown."""
    tree = _tree(getattr(buffer, name, None))
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Tuple):
            places = [column(ast.unparse(each)) for each in target.elts]
            if {"obs", "act"} <= {*places} <= STORED and len({*places}) == len(places):
                return tuple(filter(None, places))
    return ()


def _tree(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _kind(value: ast.expr, assigned: Mapping[str, ast.expr], buffer: type, depth: int) -> Returned:
    if isinstance(value, ast.Name) and value.id in assigned:
        rest = {name: other for name, other in assigned.items() if name != value.id}
        return _kind(assigned[value.id], rest, buffer, depth)
    if isinstance(value, ast.DictComp) and isinstance(value.generators[0].iter, (ast.Tuple, ast.List)):
        return _keys([each.value for each in value.generators[0].iter.elts if isinstance(each, ast.Constant)])
    if isinstance(value, ast.DictComp) and isinstance(items := value.generators[0].iter, ast.Call):
        of = items.func.value if isinstance(items.func, ast.Attribute) else items.func
        held = _kind(_held(of, buffer), assigned, buffer, depth)
        return held if held.kind == "dict" else Returned("dict")
    if isinstance(value, ast.Dict):
        return _keys([key.value for key in value.keys if isinstance(key, ast.Constant)])
    if isinstance(value, ast.Tuple):
        return _columns([STEP if isinstance(each, ast.Starred) else _role(each, assigned) for each in value.elts])
    if isinstance(value, ast.BinOp) and isinstance(value.right, (ast.Tuple, ast.List)):
        return _columns([STEP, *(_role(each, assigned) for each in value.right.elts)])
    if isinstance(value, ast.ListComp):
        return Returned("columns" if "zip(" in ast.unparse(value.generators[0].iter) else "rows")
    if isinstance(value, ast.Call):
        called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        if called == "dict" and value.keywords:
            return _keys([each.arg for each in value.keywords])
        if called == "zip":
            return Returned("columns")
        if made := _record(value, buffer):
            return made
        if called in ("list", "tuple") and value.args:
            return _kind(value.args[0], assigned, buffer, depth)
        if called in ("sample", "choices") and not ast.unparse(value.func).startswith(("self.", "super")):
            return Returned("rows")
        if ast.unparse(value.func).startswith("self.") and depth and called in dir(buffer):
            return returned(buffer, called, depth - 1)
    return Returned()


def _columns(roles: Sequence[str | None]) -> Returned:
    if STEP in roles:  # what follows a step is its weight and its index, in this order unless the names say otherwise
        absent = [each for each in WEIGHED if each not in roles]
        roles = [role or (absent.pop(0) if absent else None) for role in roles]
    places = [role or f"column {place}" for place, role in enumerate(roles)]
    known = STEP in places or {"obs", "act"} <= set(places)
    return Returned("columns", ends(places) if known and len(set(places)) == len(places) else ())


def _held(value: ast.expr, buffer: type) -> ast.expr:
    """Return what the constructor assigns to an attribute, or the expression itself."""
    tree = _tree(buffer.__init__)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(value):
            return node.value
    return value


def _record(value: ast.Call, buffer: type) -> Returned | None:
    """Return the fields of the namedtuple or dataclass of the class's module that this call makes, if it makes one."""
    made = getattr(sys.modules.get(buffer.__module__), getattr(value.func, "id", ""), None)
    if isinstance(made, type) and issubclass(made, tuple) and hasattr(made, "_fields"):
        return _columns([column(name) for name in made._fields])
    if isinstance(made, type) and is_dataclass(made):
        return replace(_keys([each.name for each in fields(made)]), kind="object")
    return None


def _keys(keys: Sequence[Any]) -> Returned:
    known = [(role, str(key)) for key in keys if (role := column(str(key)))]
    by_column = dict(zip(ends([role for role, _ in known]), [key for _, key in known], strict=True))
    return Returned("dict", by_column) if {"obs", "act"} <= by_column.keys() else Returned("dict")


def _role(element: ast.expr, assigned: Mapping[str, ast.expr]) -> str | None:
    """Return the column that an element of a returned tuple holds, by the first name in it that says so."""
    if isinstance(element, ast.Name) and not column(element.id) and element.id in assigned:
        element = assigned[element.id]
    roles = [role for name in _names(element) if (role := column(name))]
    return next((role for role in roles if role != "indexes"), roles[0] if roles else None)  # `self.obs[indexes]`


def counter(buffer: type) -> str:
    """Return the attribute that counts the rows: one that the constructor sets to 0, or a property; else ""."""
    tree = _tree(buffer.__init__)
    zeros = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign):
            for target in node.targets:
                many = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=False) if many else [(target, node.value)]
                zeros |= {ast.unparse(name) for name, value in pairs if ast.unparse(value) == "0"}
    properties = {name for name in COUNTERS if isinstance(inspect.getattr_static(buffer, name, None), property)}
    return next((name for name in COUNTERS if f"self.{name}" in zeros or name in properties), "")


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, (ast.Attribute, ast.Name)):
            yield each.attr if isinstance(each, ast.Attribute) else each.id
