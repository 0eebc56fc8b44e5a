"""Support for libraries that only store the five fields of a step, with observations that may be dicts of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adapters.field import Field

OBS, NEXT_OBS = "obs.", "next_obs."


def parts(fields: Iterable[str]) -> list[str]:
    """Return x for each field named "obs.x"; return an empty list if an observation is a single array."""
    return [field.removeprefix(OBS) for field in fields if field.startswith(OBS)]


def refusal(name: str, fields: Mapping[str, Field]) -> str | None:
    """Return why a peer of this name cannot store rows with these fields; None if it can."""
    observations = {whole + part for part in parts(fields) for whole in (OBS, NEXT_OBS)} or {"obs", "next_obs"}
    if set(fields) != {*observations, "act", "rew", "done"}:
        return f"{name} stores obs and next_obs (which may be dicts), act, rew and done, and no other fields"
    if fields["rew"].shape or fields["done"].shape:
        return (
            f"{name} stores only one reward and one done per row: it builds sequences from single steps when sampling"
        )
    return None


def nested(row: Mapping[str, Any], parts: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the observation and the next observation of a row as dicts."""
    return {part: row[OBS + part] for part in parts}, {part: row[NEXT_OBS + part] for part in parts}
