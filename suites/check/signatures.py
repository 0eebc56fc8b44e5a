"""What a class's constructor and methods accept, read from their signatures."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from suites.check.names import alike


@dataclass(frozen=True)
class Accepted:
    """What a function accepts."""

    names: tuple[str, ...] | None  # of its arguments; None if its signature cannot be read
    required: frozenset[str] = frozenset()
    by_name: bool = True  # False if the names are those of positional values: `push(*args)`
    any_name: bool = False  # it has **kwargs
    annotations: Mapping[str, str] | None = None
    inherited: frozenset[str] = frozenset()  # of the names: those that are passed on to a parent

    def name_of(self, name: str) -> str | None:
        """Return the argument of this name, or of a synonym; rather the function's own than one that it passes on."""
        if self.names is None:
            return name
        tries = [name, *alike(name)]
        return next((each for each in tries if each in self.names and each not in self.inherited), None) or next(
            (each for each in tries if each in self.names), None
        )


def constructor(buffer: Callable[..., Any]) -> Accepted:
    """Return what the class, or the function that makes a buffer, accepts."""
    if not isinstance(buffer, type):
        return _accepted(buffer)
    made = buffer.__init__ if buffer.__init__ is not object.__init__ else buffer.__new__
    if made is object.__new__:
        return Accepted(())
    own = _accepted(made, bound=True)
    if own.names is None:
        return _documented(buffer)
    return _with_parents(own, buffer, "__init__")


def method(buffer: type, name: str) -> Accepted | None:
    """Return what a method accepts; None if the class has no such method."""
    function = getattr(buffer, name, None)
    if not callable(function):
        return None
    own = _accepted(function, bound=not isinstance(inspect.getattr_static(buffer, name), (staticmethod, classmethod)))
    if own.names == () and not own.by_name and (fields := _row_fields(buffer)):
        return Accepted(fields, frozenset(fields), by_name=False)
    return _with_parents(own, buffer, name)


def _accepted(function: Callable[..., Any], bound: bool = False) -> Accepted:
    try:
        parameters = list(inspect.signature(function).parameters.values())[bound:]
    except (ValueError, TypeError):
        return Accepted(None)
    named = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    kinds = {each.kind for each in parameters}
    return Accepted(
        tuple(each.name for each in named),
        frozenset(each.name for each in named if each.default is each.empty),
        inspect.Parameter.VAR_POSITIONAL not in kinds or bool(named),
        inspect.Parameter.VAR_KEYWORD in kinds,
        {each.name: _text(each.annotation) for each in named},
    )


def _text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _with_parents(own: Accepted, buffer: type, name: str) -> Accepted:
    """Add the arguments that the parents' functions of this name accept, if unknown ones are passed on."""
    if not own.any_name or own.names is None:
        return own
    parents = [vars(parent)[name] for parent in buffer.__mro__[1:-1] if name in vars(parent)]
    accepted = [_accepted(parent, bound=True) for parent in parents]
    names = dict.fromkeys([*own.names, *(name for each in accepted for name in each.names or ())])
    inherited = frozenset(names.keys() - set(own.names))
    any_name = all(each.any_name for each in accepted)
    return Accepted(tuple(names), own.required, True, any_name, own.annotations, inherited)


def _documented(buffer: type) -> Accepted:
    """Return what a compiled class accepts, by the sections "Parameters" of its docstrings (and its parents')."""
    texts = [inspect.getdoc(vars(parent).get("__init__")) or "" for parent in buffer.__mro__[:-1]]
    names = [name for text in texts for name in re.findall(r"^ *(\w+) : ", text.partition("Parameters")[2], re.M)]
    return Accepted(tuple(dict.fromkeys(names)) or None, any_name=True)


def _row_fields(buffer: type) -> tuple[str, ...]:
    """Return the fields of a namedtuple that the class's module defines and its methods use, in order."""
    module = sys.modules.get(buffer.__module__)
    used = {name for each in vars(buffer).values() if inspect.isfunction(each) for name in each.__code__.co_names}
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields") and name in used:
            return tuple(value._fields)
    return ()


def packages(buffer: Callable[..., Any]) -> set[str]:
    """Return the packages whose names the class's module, and its parents', use."""
    parents = buffer.__mro__ if isinstance(buffer, type) else (buffer,)
    modules = [sys.modules[each.__module__] for each in parents if each.__module__ in sys.modules]
    values = [value for module in modules for value in vars(module).values() if inspect.ismodule(value)]
    return {value.__name__.partition(".")[0] for value in values}
