"""Find a buffer's methods that its user overrides, which must be called instead of faster shortcuts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def attributes(kind: type, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes of a class by name, without calling any descriptor. Missing attributes are None."""
    return {name: inspect.getattr_static(kind, name, None) for name in names}


def unpatched(kind: type, names: tuple[str, ...], libraries: frozenset[str]) -> dict[str, Any]:
    """Return `attributes`, with a placeholder for each function that was defined outside `libraries`.

    A program may have replaced a method of a library's class before our class is derived from it; `overridden` then
    finds that method.
    """
    found = attributes(kind, names)
    for name, value in found.items():
        scope = getattr(getattr(value, "__func__", value), "__globals__", {})
        if value is not None and scope.get("__name__", "").partition(".")[0] not in libraries:
            found[name] = object()
    return found


def overridden(buffer: object, ours: Mapping[str, Any]) -> frozenset[str]:
    """Return the names in `ours`, attributes of our class, that the class of `buffer` or `buffer` itself replaces."""
    kind = type(buffer)
    return frozenset(
        name
        for name, value in ours.items()
        if name in vars(buffer) or inspect.getattr_static(kind, name, None) is not value
    )


def replaces(buffer: object, name: str, ours: type) -> bool:
    """Return whether `buffer` replaces the method `name` of `ours`, without calling it through `super()`."""
    method = vars(buffer).get(name) or inspect.getattr_static(type(buffer), name)
    if method is inspect.getattr_static(ours, name):
        return False
    code = getattr(method, "__code__", None)
    return code is None or "__class__" not in code.co_freevars


def check_bases(kind: type, ours: type, names: tuple[str, ...]) -> None:
    """Raise TypeError if our class hides a method of a later base of `kind`, one of `names`."""
    bases = kind.__mro__
    for base in bases[bases.index(ours) :]:
        if issubclass(ours, base):
            continue
        hidden = [name for name in names if name in vars(base) and _owner(kind, name) in ours.__mro__]
        if hidden:
            raise TypeError(
                f"{base.__name__} must come before {ours.__name__} among the bases of {kind.__name__}: otherwise its "
                f"{', '.join(hidden)} would not be called"
            )


def _owner(kind: type, name: str) -> type:
    return next(base for base in kind.__mro__ if name in vars(base))
