"""Fits the source of an API family to a class.

A family's file calls `Buffer(...)` and methods of `buffer`, with named arguments. These calls say what a class of this
family accepts. Its own names may differ (`names.SYNONYMS`). An argument that the file lists in `OPTIONAL` may be
absent: then the call lacks it, and so does the function that would have passed it. `make__x` is another `make`, for
classes that the first one does not fit; so are `add__x` and `sample__x`. `sample__prioritized` is for classes that
`update` fits, and `sample` for the others. Further names that a file may define:

    RETURNS     {name of a function: what its `sample` returns} ("columns", "dict", "object", "rows", "not_done")
    ANNOTATED   {argument of the constructor: a word in its annotation}
    NEEDS       functions that must fit, besides make, add and sample
    COLUMNS     the order of a tuple that `sample` returns; replaced by the class's own, if its source shows it
    KEYS        the same for a dict: {column: key}

A step that `add` passes as one tuple has the order in which the class's `sample` unpacks it, if its source shows one.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.check import names, returns, signatures
from suites.check.functions import FUNCTIONS, OPTIONS, REQUIRED
from suites.check.returns import STEP, WEIGHED, Returned
from suites.check.signatures import Accepted

STATED = ("OPTIONAL", "RETURNS", "ANNOTATED", "NEEDS")
ALTERNATIVE = {"gymnasium": "gym"}  # a class may use the older of two packages with one interface
NUMPY, PLAIN = "import numpy as np", "from types import SimpleNamespace"
#: A space as far as a class needs that imports neither of them.
SPACES = {
    "spaces.Box": "SimpleNamespace(low={0}, high={1}, shape={2}, dtype=np.dtype({3}))",
    "spaces.Discrete": "SimpleNamespace(n={0}, shape=(), dtype=np.dtype('int64'))",
    "spaces.Dict": "SimpleNamespace(spaces={0})",
}
OTHER = "__"  # between a function's name and that of another way to write it
PRIORITIZED = "__prioritized"
ADDS = names.METHODS[0]
SIZE = "batch_size"


class Misfit(Exception):  # noqa: N818 (what is found)
    """The class is not called like this; the message says what it lacks."""


@dataclass
class FamilyFit:
    """A family's source as it calls one class."""

    source: str = ""
    exact: int = 0  # arguments and methods that the class names as the family does
    renamed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # arguments of add, functions and ways
    calls: list[str] = field(default_factory=list)  # of the constructor, and of the methods that add and sample
    absent: list[str] = field(default_factory=list)  # packages of which plain objects are passed

    @property
    def closeness(self) -> tuple[int, int]:
        return self.exact, -sum(name not in FUNCTIONS for name in self.left_out)


def fit(source: str, buffer: Callable[..., Any]) -> FamilyFit:
    """Return a family's source, fitted to this class. Raises `Misfit`."""
    tree, found = ast.parse(source), FamilyFit()
    stated = {name: ast.literal_eval(node.value) for name, node in _assigned(tree) if name in STATED}
    _check_annotations(stated.get("ANNOTATED", {}), buffer, found)
    if not isinstance(buffer, type) and any(isinstance(node, ast.ClassDef) for node in tree.body):
        raise Misfit("it is not a class")
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    options = [each.arg for each in defined["make"].args.args]
    kept: dict[str, ast.FunctionDef] = {}
    for name in sorted(FUNCTIONS, key="update".__ne__):  # which decides on writings for priorities
        writings = [node for other, node in defined.items() if other == name or other.startswith(name + OTHER)]
        if any(node.name == name + PRIORITIZED for node in writings):
            writings = [node for node in writings if node.name.endswith(PRIORITIZED) == ("update" in kept)]
        try:
            if writings:
                kept[name] = _first(writings, buffer, stated, found)
        except Misfit:
            if name in (*REQUIRED, *stated.get("NEEDS", ())):
                raise
            found.left_out.append(name)
    helpers = [name for name in defined if name.partition(OTHER)[0] not in FUNCTIONS]
    for name in helpers:
        _fit_function(defined[name], buffer, stated.get("OPTIONAL", ()), found)
    tree.body = [node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.name in helpers]
    _drop_ways(tree, options, kept["make"], buffer, found)
    tree.body += [kept[name] for name in FUNCTIONS if name in kept]
    if isinstance(buffer, type):
        _set_columns(tree, buffer, kept)
        _set_order(kept, buffer)
    _swap_packages(tree, buffer, found)
    found.source = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    callers = [*(defined[name] for name in helpers), *(kept[name] for name in REQUIRED)]
    found.calls = [ast.unparse(call) for caller in callers for call, _ in _calls(caller)]
    return found


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.Assign]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def _check_annotations(words: Mapping[str, str], buffer: Callable[..., Any], found: FamilyFit) -> None:
    annotations = signatures.constructor(buffer).annotations or {}
    for argument, word in words.items():
        if word not in annotations.get(argument, ""):
            raise Misfit(f"the annotation of {argument} does not mention {word}")
        found.exact += 1


def _first(
    writings: Sequence[ast.FunctionDef], buffer: Callable[..., Any], stated: Mapping[str, Any], found: FamilyFit
) -> ast.FunctionDef:
    """Return the first of these functions that fits the class. Raises the first one's `Misfit`."""
    kinds, misfits = stated.get("RETURNS", {}), []
    for node in writings:
        trial = FamilyFit()
        try:
            _fit_function(node, buffer, stated.get("OPTIONAL", ()), trial)
            if isinstance(buffer, type) and node.name in kinds:
                _check_returned(node, buffer, kinds[node.name])
        except Misfit as misfit:
            misfits.append(misfit)
            continue
        found.exact += trial.exact
        found.renamed |= trial.renamed
        found.left_out += trial.left_out
        node.name = node.name.partition(OTHER)[0]
        return node
    raise misfits[0]


def _fit_function(node: ast.FunctionDef, buffer: Callable[..., Any], optional: Sequence[str], found: FamilyFit) -> None:
    before = _names_in(node)
    for call, called in _calls(node):
        if called == "Buffer":
            _fit_call(call, signatures.constructor(buffer), "its constructor", optional, found)
        elif isinstance(buffer, type):
            _fit_method(call, called, buffer, optional, found)
    if node.name.partition(OTHER)[0] == "sample" and isinstance(buffer, type):
        _keep_size(node, buffer)
    lost = before - _names_in(node)
    arguments = node.args
    first = len(arguments.args) - len(arguments.defaults)  # with a default
    kept = [number for number, each in enumerate(arguments.args) if each.arg not in lost]
    arguments.defaults = [arguments.defaults[number - first] for number in kept if number >= first]
    arguments.args = [arguments.args[number] for number in kept]


def _keep_size(node: ast.FunctionDef, buffer: type) -> None:
    """Set the batch size that the constructor took, if the method that draws takes none. Raises `Misfit`."""
    size = node.args.args[1].arg
    if size in _names_in(node):
        return
    if SIZE not in (signatures.constructor(buffer).names or ()):
        raise Misfit(f"sample has no argument {SIZE}, and its constructor neither")
    node.body.insert(0, ast.parse(f"buffer.{SIZE} = {size}").body[0])


def _names_in(node: ast.FunctionDef) -> set[str]:
    return {each.id for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name)}


def _calls(node: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that the class answers, with the name of the method, "Buffer" or "__len__"."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Call):
            continue
        if ast.unparse(each.func) in ("Buffer", "globals()[kind]"):
            yield each, "Buffer"
        elif isinstance(each.func, ast.Name) and each.func.id == "len" and _is_buffer(each.args[0]):
            yield each, "__len__"
        elif isinstance(each.func, ast.Attribute) and _is_buffer(each.func.value):
            yield each, each.func.attr


def _is_buffer(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "buffer"


def _fit_method(call: ast.Call, called: str, buffer: type, optional: Sequence[str], found: FamilyFit) -> None:
    alike = next((group for group in names.METHODS if called in group), (called,))
    has = [name for name in (called, *alike) if callable(getattr(buffer, name, None))]
    if called == "__len__" and has[:1] != ["__len__"]:
        _fit_size(call, has, buffer)
        return
    if not has:
        raise Misfit(f"it has no method {called}")
    accepted = signatures.method(buffer, has[0])
    if called != "__len__":
        assert isinstance(call.func, ast.Attribute)
        call.func.attr = has[0]
        _fit_call(call, accepted, has[0], optional, found)
    found.exact += has[0] == called


def _fit_size(call: ast.Call, has: Sequence[str], buffer: type) -> None:
    """Replace `len(buffer)` by a method or attribute with the number of rows."""
    count = returns.counter(buffer)
    if not has and not count:
        raise Misfit("it does not say how many rows it holds")
    value = ast.Attribute(ast.Name("buffer", ast.Load()), has[0] if has else count, ast.Load())
    call.func, call.args = (value, []) if has else (ast.Name("int", ast.Load()), [value])


def _fit_call(call: ast.Call, accepted: Accepted, what: str, optional: Sequence[str], found: FamilyFit) -> None:
    if accepted.names is None:
        return
    passed: dict[str, ast.expr] = {}
    own = [each.arg for each in call.keywords if each.arg in accepted.names]
    for each in call.keywords:
        if each.arg is None:
            continue
        name = accepted.name_of(each.arg)
        if name is None or (name != each.arg and name in own) or name in passed:
            name = each.arg if accepted.any_name and each.arg not in optional else None
        if name is not None:
            passed[name] = each.value
            found.exact += name == each.arg
            found.renamed |= {each.arg: name} if name != each.arg else {}
        elif each.arg in optional:
            found.left_out += [each.arg] if what in ADDS else []
        else:
            raise Misfit(f"{what} has no argument {each.arg}")
    by_place = accepted.names[: len(call.args)]
    if len(by_place) < len(call.args):
        raise Misfit(f"{what} has {len(by_place)} arguments of {len(call.args)}")
    if needed := [name for name in accepted.names if name in accepted.required - passed.keys() - {*by_place}]:
        raise Misfit(f"{what} requires an argument {needed[0]}")
    if accepted.by_name:
        rest = [each for each in call.keywords if each.arg is None]
        call.keywords = [*(ast.keyword(name, value) for name, value in passed.items()), *rest]
    else:
        call.args, call.keywords = [passed[name] for name in accepted.names], []


def _check_returned(node: ast.FunctionDef, buffer: type, stated: str) -> None:
    """Raise `Misfit` if the source of the class's method shows that it returns something else."""
    read = _returned(node, buffer)
    kind = "not_done" if read.kind == "columns" and "not_done" in read.columns else read.kind
    if kind and kind != stated:
        raise Misfit(f"sample returns {read.kind}")
    if not kind and node.name.partition(OTHER)[1]:
        raise Misfit("what sample returns is not known")


def _returned(node: ast.FunctionDef, buffer: type) -> Returned:
    called = [called for _, called in _calls(node) if called not in ("Buffer", "__len__")]
    return returns.returned(buffer, called[0]) if called else Returned()


def _set_columns(tree: ast.Module, buffer: type, kept: Mapping[str, ast.FunctionDef]) -> None:
    """Replace COLUMNS and KEYS by what the class's source says, or COLUMNS by the order of the arguments of its add."""
    read = _returned(kept["sample"], buffer)
    for name, node in _assigned(tree):
        if name == "KEYS" and read.kind in ("dict", "object") and read.columns:
            node.value = ast.parse(repr(dict(read.columns)), mode="eval").body
        elif name == "COLUMNS":
            order = _order(kept["add"], buffer)
            columns = read.columns if isinstance(read.columns, tuple) and read.columns else order
            columns = [name for each in columns for name in (order if each == STEP else (each,))]
            weighed = [each for each in WEIGHED if each not in columns]
            node.value = ast.parse(repr((*columns, *weighed)), mode="eval").body if columns else node.value


def _order(add: ast.FunctionDef, buffer: type) -> tuple[str, ...]:
    called = next(_calls(add))[1]
    accepted = signatures.method(buffer, called)
    if accepted is None or accepted.names is None:
        return ()
    return names.ends([column for name in accepted.names if (column := names.column(name))])


def _set_order(kept: Mapping[str, ast.FunctionDef], buffer: type) -> None:
    """Pass a step, if it is one tuple, in the order in which `sample` unpacks it."""
    tuples = [each for each in ast.walk(kept["add"]) if isinstance(each, ast.Tuple)]
    step = next((each for each in tuples if {*map(ast.unparse, each.elts)} == returns.STORED), None)
    unpacked = (returns.unpacked(buffer, called) for _, called in _calls(kept["sample"]))
    if step is not None and (order := next(filter(None, unpacked), ())):
        step.elts = [ast.Name(name) for name in order]


def _swap_packages(tree: ast.Module, buffer: Callable[..., Any], found: FamilyFit) -> None:
    """Import spaces from the package that the class uses, or write plain objects in their place if there is none."""
    used = signatures.packages(buffer)
    for at, node in enumerate(tree.body):
        if not isinstance(node, ast.ImportFrom) or node.module not in ALTERNATIVE:
            continue
        packages = [node.module, ALTERNATIVE[node.module]]
        there = [each for each in packages if each in sys.modules or importlib.util.find_spec(each)]
        if there:
            node.module = next((each for each in there if each in used), there[0])
        else:
            found.absent.append(node.module)
            has_numpy = any(ast.unparse(each) == NUMPY for each in tree.body)
            tree.body[at : at + 1] = ast.parse(f"{PLAIN}\n" + ("" if has_numpy else NUMPY)).body
            _PlainSpaces().visit(tree)


class _PlainSpaces(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        plain = SPACES.get(ast.unparse(node.func), "")
        given = [*map(ast.unparse, node.args), "'float32'"]  # the default of a dtype
        return ast.parse(plain.format(*given), mode="eval").body if plain else node


def _drop_ways(tree: ast.Module, known: Sequence[str], make: ast.FunctionDef, buffer: Any, found: FamilyFit) -> None:
    """Leave out the ways that need an option which `make` no longer has and the constructor does not name."""
    has = {each.arg for each in make.args.args}
    accepted = signatures.constructor(buffer)
    lost = {name for name in known if name not in has}
    for name, node in _assigned(tree):
        if name != "WAYS":
            continue
        ways = ast.literal_eval(node.value)
        passed_on = {way: [each for each in ways[way] if each not in has and each not in OPTIONS] for way in ways}
        kept = {
            way: options
            for way, options in ways.items()
            if not lost & options.keys() and all(accepted.names is None or n in accepted.names for n in passed_on[way])
        }
        found.left_out += [way for way in ways if way not in kept]
        node.value = ast.parse(repr(kept), mode="eval").body
