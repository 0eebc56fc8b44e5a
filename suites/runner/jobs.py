"""Jobs as lines of JSON: a launch gets its jobs in this form, and returns its results in it."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any, TypeVar, get_type_hints

J = TypeVar("J")


def encoded(job: Any) -> str:
    """Return a job, an instance of a dataclass, as one line."""
    return json.dumps(asdict(job))


def decoded(kind: type[J], line: str) -> J:
    """Return the job of this dataclass that the line describes. Raises `ValueError`."""
    try:
        return _made(kind.__name__, kind, json.loads(line))
    except (TypeError, ValueError) as error:
        raise ValueError(f"job must be the fields of {kind.__name__} as JSON, got {line!r}: {error}") from None


def _made(what: str, kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{what} must be an object, got {value!r}")
        kinds = get_type_hints(kind)
        return kind(**{name: _made(name, kinds.get(name), each) for name, each in value.items()})
    if kind in (str, int) and type(value) is not kind:
        raise TypeError(f"{what} must be {kind.__name__}, got {value!r}")
    return _frozen(value)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
