"""Evaluates what is known of a function's arguments: what is left of its source."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

SAFE = {
    each.__name__: each for each in (bool, bytes, dict, float, int, len, list, max, min, range, set, str, tuple)
}  # functions that are evaluated
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
UNEVALUATED = (ast.Constant, ast.Starred, ast.Slice, ast.FormattedValue)


class Unknown(Exception):  # noqa: N818 (what is found)
    """An expression has no value that is known, or a function cannot be reduced."""


def literal(value: Any) -> ast.expr:
    """Return an expression of this value. Raises `Unknown` if it has none."""
    return ast.parse(_written(value), mode="eval").body


def _written(value: Any) -> str:
    if isinstance(value, type) and getattr(builtins, value.__name__, None) is value:
        return value.__name__
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_written(k)}: {_written(v)}' for k, v in value.items())}}}"
    if type(value) in (tuple, list):
        each = ", ".join(map(_written, value))
        return f"[{each}]" if isinstance(value, list) else f"({each}{',' * (len(value) == 1)})"
    if value is None or type(value) in (bool, int, str, bytes) or (type(value) is float and abs(value) < 1e300):
        return repr(value)
    raise Unknown


def evaluated(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return the value of an expression of literals and known names, whose values it may change. Raises `Unknown`."""
    names = copy.deepcopy(known)
    code = ast.fix_missing_locations(ast.Expression(copy.deepcopy(node)))
    try:
        value = eval(compile(code, "", "eval"), {"__builtins__": SAFE, **names})
    except Exception as error:
        raise Unknown from error
    literal(value)
    known.update(names)
    return value


def folded(body: Sequence[ast.stmt], known: dict[str, Any]) -> list[ast.stmt]:
    """Return these statements without what only known names decide. Adds to `known`."""
    left: list[ast.stmt] = []
    for each in body:
        node = _plain(each)
        try:
            if isinstance(node, ast.If):
                left += folded(node.body if evaluated(node.test, known) else node.orelse, known)
                continue
            if isinstance(node, ast.Expr):
                evaluated(node.value, known)
                continue
        except Unknown:
            pass
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            node = ast.Assign(node.targets, _Folding(known).visit(node.value))
            name = node.targets[0].id
            known.pop(name, None)
            try:
                known[name] = evaluated(node.value, {})
            except Unknown:
                left.append(node)
            continue
        for name in dict.fromkeys(_changed(node)):
            if name in known:
                left.append(ast.Assign([ast.Name(name, ast.Store())], literal(known.pop(name))))
        left.append(_Folding(known).visit(node))
    return left


def _plain(node: ast.stmt) -> ast.stmt:
    """Return a copy of a statement; `a |= b` becomes `a = a | b`."""
    node = copy.deepcopy(node)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return ast.Assign([node.target], ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value))
    return node


def _changed(node: ast.stmt) -> Iterator[str]:
    """Yield the names of which this statement may change the value."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and not is_read(each):
            yield each.id
        is_item = isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load)
        if (is_item or isinstance(each, ast.Attribute)) and isinstance(each.value, ast.Name):  # type: ignore[attr-defined]
            yield each.value.id  # type: ignore[attr-defined]


def is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def stored(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not is_read(each)}


def of_comprehensions(node: ast.AST) -> set[str]:
    """Return the names that only comprehensions have."""
    return {name for each in ast.walk(node) if isinstance(each, COMPREHENSIONS) for name in stored(each)}


class _Folding(ast.NodeTransformer):
    """Replaces expressions by their values, as far as these are known."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def visit(self, node: ast.AST) -> Any:
        is_stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
        if isinstance(node, ast.expr) and not isinstance(node, UNEVALUATED) and not is_stored:
            try:
                return literal(evaluated(node, self._known))
            except Unknown:
                pass
        return getattr(self, f"visit_{type(node).__name__}", self.generic_visit)(node)

    def _comprehension(self, node: ast.AST) -> Any:
        hidden = stored(node)
        return _Folding({n: value for n, value in self._known.items() if n not in hidden}).generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        try:
            taken = node.body if evaluated(node.test, self._known) else node.orelse
        except Unknown:
            return self.generic_visit(node)
        return self.visit(taken)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Leave out what decides nothing: False of an "or", and True of an "and"."""
        neutral = isinstance(node.op, ast.And)
        values = [self.visit(each) for each in node.values]
        rest = [each for each in values if not (isinstance(each, ast.Constant) and each.value is neutral)]
        return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if isinstance(node.op, ast.BitOr) and isinstance(node.left, ast.Dict) and isinstance(node.right, ast.Dict):
            return _joined(ast.Dict([*node.left.keys, *node.right.keys], [*node.left.values, *node.right.values]))
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        return _joined(self.generic_visit(node))  # type: ignore[arg-type]

    def visit_Call(self, node: ast.Call) -> Any:
        """Write `f(*(1,), **{"a": 1})` as `f(1, a=1)`."""
        node = self.generic_visit(node)  # type: ignore[assignment]
        keywords: list[ast.keyword] = []
        for each in node.keywords:
            if each.arg is None and isinstance(each.value, ast.Dict) and all(map(is_word, each.value.keys)):
                names = [key.value for key in each.value.keys]  # type: ignore[union-attr]
                keywords += map(ast.keyword, names, each.value.values)
            else:
                keywords.append(each)
        node.keywords = keywords
        node.args = [
            value
            for each in node.args
            for value in (
                each.value.elts if isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple) else [each]
            )
        ]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Write `globals()["a"]` as `a`, and `{"a": x}["a"]` as `x`."""
        node = self.generic_visit(node)  # type: ignore[assignment]
        if is_word(node.slice) and ast.unparse(node.value) == "globals()":
            return ast.Name(node.slice.value, ast.Load())  # type: ignore[attr-defined]
        if is_word(node.slice) and isinstance(node.value, ast.Dict) and all(map(is_word, node.value.keys)):
            found = zip(node.value.keys, node.value.values, strict=True)
            return {ast.unparse(key): value for key, value in found if key}.get(ast.unparse(node.slice), node)
        return node


def simplified(node: ast.stmt) -> ast.stmt:
    """Return a statement in which expressions of literals are evaluated."""
    return ast.fix_missing_locations(_Folding({}).visit(node))


def is_word(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _joined(node: ast.Dict) -> ast.Dict:
    """Return a display with those that it unpacks written out; of equal keys, the last counts."""
    pairs: dict[str, tuple[ast.expr | None, ast.expr]] = {}
    items = list(zip(node.keys, node.values, strict=True))
    while items:
        key, value = items.pop(0)
        if key is None and isinstance(value, ast.Dict):
            items = [*zip(value.keys, value.values, strict=True), *items]
        else:
            pairs[ast.unparse(key) if key is not None else f"**{len(pairs)}"] = (key, value)
    return ast.Dict([key for key, _ in pairs.values()], [value for _, value in pairs.values()])


class Replacing(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> Any:
        return copy.deepcopy(self._values[node.id]) if node.id in self._values and is_read(node) else node


def uses(node: ast.AST, name: str) -> int:
    return sum(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


def without_locals(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return these statements; a local that only the next one reads, and once, is written in its place, and one that
    is never read is not assigned."""
    read = {each.id for node in body for each in ast.walk(node) if isinstance(each, ast.Name) and is_read(each)}
    body = [ast.Expr(each.value) if _is_local(each) and not stored(each) & read else each for each in body]
    for at in range(len(body) - 2, -1, -1):
        node, after = body[at], body[at + 1]
        if isinstance(after, COMPOUND) or not _is_local(node):
            continue
        name = node.targets[0].id
        everywhere = sum(uses(each, name) for each in body[at + 1 :])
        if everywhere == uses(after, name) == 1 and not _is_repeated(after, name):
            moved = Replacing({name: node.value}).visit(copy.deepcopy(after))
            body = [*body[:at], *folded([moved], {}), *body[at + 2 :]]
    return body


def _is_local(node: ast.stmt) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)


def _is_repeated(node: ast.AST, name: str) -> bool:
    """Return whether a comprehension reads this name in each round."""
    found = [each for each in ast.walk(node) if isinstance(each, COMPREHENSIONS)]
    return any(uses(each, name) > uses(each.generators[0].iter, name) for each in found)
