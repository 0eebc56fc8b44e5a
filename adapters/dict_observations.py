"""Support for libraries that only store the five fields of a step, with observations that may be dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapters.base import Spec

OBS, NEXT_OBS = "obs.", "next_obs."


def parts(name: str, spec: Spec) -> list[str]:
    """Return the x of each field "obs.x"; empty if an observation is one array.

    Raises NotImplementedError, naming the peer, if rows have other fields."""
    found = [field.removeprefix(OBS) for field in spec.fields if field.startswith(OBS)]
    observations = {whole + part for part in found for whole in (OBS, NEXT_OBS)} or {"obs", "next_obs"}
    if set(spec.fields) != {*observations, "act", "rew", "done"}:
        raise NotImplementedError(
            f"{name} stores obs and next_obs (which may be dicts), act, rew and done, and no other fields"
        )
    if spec.fields["rew"].shape or spec.fields["done"].shape:
        raise NotImplementedError(
            f"{name} stores only one reward and one done per row: it builds sequences from single steps when sampling"
        )
    return found


def nested(row: Mapping[str, Any], parts: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the observation and the next observation of a row as dicts."""
    return {part: row[OBS + part] for part in parts}, {part: row[NEXT_OBS + part] for part in parts}
