"""Validation of run files: the schema, and rules beyond a schema, such as those about duplicates and references."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SCHEMA_NAME = "replaybench-run-1"
SCHEMA = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))


class BadRecord(ValueError):  # noqa: N818 (says what the record is)
    """A run file, or a run about to be saved, violates the format.

    The message names the file, the record (its number from 0, its peer and benchmark) and the field, and states the
    error.
    """


def _finite_number(_checker: object, value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@cache
def _validator() -> Validator:
    from jsonschema import Draft202012Validator  # not at import, which would delay launches: they check no file
    from jsonschema.validators import extend

    # Python's json reads NaN and Infinity, and plain JSON Schema lets them pass as numbers.
    numbers = Draft202012Validator.TYPE_CHECKER.redefine("number", _finite_number)
    return extend(Draft202012Validator, type_checker=numbers)(SCHEMA)


@cache
def _conforms() -> Callable[[Any], bool]:
    """Return a check against the schema that is 200 times as fast, but does not say what is wrong."""
    try:
        from jsonschema_rs import validator_for
    except ImportError:  # in the venvs of peers, which load small files
        return lambda _data: False
    return validator_for(SCHEMA).is_valid


def check(data: Any, file: str) -> None:
    """Raise `BadRecord` if anything is wrong. Its message states the first problem and how many more there are."""
    schema = data.get("schema", SCHEMA_NAME) if isinstance(data, dict) else SCHEMA_NAME
    if schema != SCHEMA_NAME:  # another version of this project wrote the file: its other fields may differ, too
        raise BadRecord(f"{file}: schema: must be {SCHEMA_NAME!r}, got {schema!r}")
    errors = [] if _conforms()(data) else _schema_errors(data)
    complaints = [_schema_complaint(error, data) for error in errors] or list(_other_complaints(data))
    if complaints:
        more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
        raise BadRecord(f"{file}: {complaints[0]}{more}")


def cell_key(record: Mapping[str, Any]) -> Hashable:
    """The fields that identify a cell."""
    params = tuple(sorted(record["params"].items(), key=lambda item: item[0]))
    return record["suite"], record["benchmark"], record["peer"], record["workload"], params


def _schema_errors(data: Any) -> list[ValidationError]:
    return sorted(
        _validator().iter_errors(data), key=lambda error: [str(step).zfill(9) for step in error.absolute_path]
    )


def _schema_complaint(error: ValidationError, data: Any) -> str:
    path: list[str | int] = list(error.absolute_path)
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"{_where(data, [*path, missing])}: is missing"
    return f"{_where(data, path)}: {_what(error)}"


def _what(error: ValidationError) -> str:
    """A plain description of a schema error, instead of jsonschema's own."""
    value, message = error.instance, str(error.message)
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    match error.validator:
        case "type" if isinstance(value, float) and not math.isfinite(value):
            return f"{shown} is not a finite number"
        case "type":
            kinds = error.validator_value
            return f"{shown} is not of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}"
        case "exclusiveMinimum":
            return f"{shown} must be above {error.validator_value}"
        case "minItems":
            return 'must not be empty if status is "ok"'
        case "minLength":
            return "must not be empty"
        case "pattern" if error.validator_value == r"\S":
            return 'must say why if status is not "ok"'
        case "anyOf":
            return f"{shown} is neither a UTC time like 2026-11-20T06:30:00Z nor null"
        case "enum":
            return f"{shown} is not one of {', '.join(error.validator_value)}"
        case "additionalProperties" if isinstance(value, dict):
            return message.replace("Additional properties are not allowed", "unknown field")
        case _:
            return message if len(message) <= 200 else message[:197] + "..."


def _where(data: Any, path: Sequence[str | int]) -> str:
    """records[3] (peer cpprb, benchmark add): samples[0].value"""
    if len(path) < 2 or not isinstance(path[1], int):
        return _dotted(path) or "the file"
    item = data[path[0]][path[1]]
    known = [f"{name} {item[name]}" for name in ("peer", "benchmark", "workload", "name") if _has_text(item, name)]
    named = f" ({', '.join(known)})" if known else ""
    return f"{path[0]}[{path[1]}]{named}" + (f": {_dotted(path[2:])}" if path[2:] else "")


def _has_text(item: Any, name: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(name), str)


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _other_complaints(data: Mapping[str, Any]) -> Iterator[str]:
    """Problems that the schema cannot express. `data` must conform to the schema."""
    for part in ("peers", "workloads"):
        yield from _duplicates(data, part, lambda item: item["name"], "name: already used by")
    yield from _duplicates(data, "records", cell_key, "is the same cell as")

    peers = {peer["name"] for peer in data["peers"]}
    workloads = {workload["name"] for workload in data["workloads"]}
    units: dict[tuple[str, str], tuple[str, str]] = {}
    for number, record in enumerate(data["records"]):
        where = _where(data, ["records", number])
        if record["peer"] not in peers:
            yield f"{where}: peer: {record['peer']!r} is not among the file's peers ({', '.join(sorted(peers))})"
        if record["workload"] not in workloads:
            known = ", ".join(sorted(workloads))
            yield f"{where}: workload: {record['workload']!r} is not among the file's workloads ({known})"
        withdrawn_at = record.get("invalidated_at")
        if record["status"] == "invalidated" and withdrawn_at is None:
            yield f"{where}: invalidated_at: must name the revision that withdrew it"
        elif record["status"] != "invalidated" and withdrawn_at is not None:
            yield f"{where}: invalidated_at: must be null unless the record is withdrawn"
        blocks = [sample["block"] for sample in record["samples"]]
        if len(set(blocks)) < len(blocks):
            again = next(block for block in blocks if blocks.count(block) > 1)
            yield f"{where}: samples: block {again} appears more than once (one sample per launch)"
        measured_in = units.setdefault((record["suite"], record["benchmark"]), (record["unit"], record["better"]))
        if measured_in != (record["unit"], record["better"]):
            yield f"{where}: unit: other records of this benchmark are in {measured_in[0]}, {measured_in[1]} is better"
    try:
        shlex.split(data["run"]["command"])
    except ValueError as error:
        yield f"run.command: must be a shell command, got {data['run']['command']!r} ({error})"
    if len(data["records"]) > data["run"]["declared"]:
        yield f"run.declared: {data['run']['declared']} is fewer than the {len(data['records'])} records in the file"


def _duplicates(
    data: Mapping[str, Any], part: str, key: Callable[[Mapping[str, Any]], Hashable], words: str
) -> Iterator[str]:
    first: dict[Hashable, int] = {}
    for number, item in enumerate(data[part]):
        earlier = first.setdefault(key(item), number)
        if earlier != number:
            yield f"{_where(data, [part, number])}: {words} {part}[{earlier}]"
