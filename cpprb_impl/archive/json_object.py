"""Parsed JSON from an untrusted source: each value is checked when it is read."""

from __future__ import annotations

import sys
from typing import Any


class JsonObject:
    """A JSON object. Each method returns one value, or raises ValueError naming the value if it is invalid."""

    def __init__(self, values: Any, name: str) -> None:
        if not isinstance(values, dict):
            raise ValueError(f"{name} must be an object")
        self._values, self._name = values, name

    def value(self, name: str, *kinds: type) -> Any:
        """Return a value whose type must be exactly one of `kinds`."""
        value = self._values.get(name)
        if type(value) not in kinds:
            raise ValueError(f"{self._name}: {name!r} is missing or has the wrong type")
        return value

    def object(self, name: str) -> JsonObject:
        """Return the object under `name`."""
        return JsonObject(self._values.get(name), f"{self._name}: {name!r}")

    def objects(self, name: str) -> list[JsonObject]:
        """Return the list of objects under `name`."""
        return [JsonObject(each, f"{self._name}: {name!r}, {i}") for i, each in enumerate(self.value(name, list))]

    def string(self, name: str) -> str:
        """Return the string under `name`."""
        value: str = self.value(name, str)
        return value

    def strings(self, name: str) -> list[str]:
        """Return the list of strings under `name`."""
        values: list[str] = self.value(name, list)
        if not all(type(value) is str for value in values):
            raise ValueError(f"{self._name}: {name!r} must be a list of strings")
        return values

    def integer(self, name: str, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return the integer under `name`, which must be from `least` to `most`."""
        value: int = self.value(name, int)
        if not least <= value <= most:
            raise ValueError(f"{self._name}: {name!r} must be from {least} to {most}")
        return value

    def integers(self, name: str, count: int | None = None, most: int = 2**63 - 1) -> list[int]:
        """Return the list of integers under `name`, each from 0 to `most`; `count` is the required length, if any."""
        values: list[int] = self.value(name, list)
        if count not in (None, len(values)) or not all(type(value) is int and 0 <= value <= most for value in values):
            many = "" if count is None else f"{count} "
            raise ValueError(f"{self._name}: {name!r} must be a list of {many}integers from 0 to {most}")
        return values

    def number(self, name: str) -> float:
        """Return the number under `name`, which must be finite and not negative."""
        value = self.value(name, int, float)
        if not 0 <= value <= sys.float_info.max:  # NaN fails too; a whole number may be too large for a float
            raise ValueError(f"{self._name}: {name!r} must be finite and not negative")
        return float(value)

    def is_null(self, name: str) -> bool:
        """Return whether `name` is present and null."""
        return name in self._values and self._values[name] is None

    def __contains__(self, name: str) -> bool:
        return name in self._values
