"""Reading cpprb's `Nstep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl.layout.fields import LARGEST, NativeField, field_names, positive_integer

KNOWN = ("size", "rew", "gamma", "next", "truncated", "discount")


def read_options(options: Mapping[str, Any], fields: Sequence[NativeField]) -> dict[str, Any]:
    """Check cpprb's `Nstep` and return it in JSON form. If two results are equal, equal steps yield equal transitions.

    Parameters
    ----------
    options : mapping
        "size": N, at least 1; a float is truncated. "rew", "next": names of fields, str or sequence of str; no fields
        if missing. "gamma": discount, default 0.99. "truncated", "discount": names of one field each; none if missing.
    fields : sequence of (name, dtype, shape)
        The fields of a transition; one must be "done", with one element.

    Raises
    ------
    TypeError, KeyError, ValueError
        If an option does not exist, a name is not a field, or a reward has an integer dtype.
    """
    if not isinstance(options, Mapping):
        raise TypeError(f"Nstep must be a dict with 'size', got {options!r}")
    for name in options:
        if name not in KNOWN:
            raise TypeError(f"Nstep has no option {name!r}, only {', '.join(KNOWN)}")
    if "size" not in options:
        raise KeyError("Nstep needs 'size', the number of steps")
    size = positive_integer("Nstep: size", options["size"])
    if size > LARGEST:
        raise OverflowError(f"Nstep: size must be below 2**63, got {options['size']!r}")
    try:
        gamma = float(options.get("gamma", 0.99))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"Nstep: gamma must be a finite number, got {options['gamma']!r}: {error}") from None
    if not (np.isfinite(gamma) and gamma >= 0):
        raise ValueError(f"Nstep: gamma must be finite and not negative, got {options['gamma']!r}")
    by_name = {name: (np.dtype(dtype), shape) for name, dtype, shape in fields}
    if "done" not in by_name:
        raise KeyError("Nstep needs a field 'done' in env_dict")
    _check_end("done", *by_name["done"])
    following, rewards = _names("next", options.get("next"), by_name), _names("rew", options.get("rew"), by_name)
    for name in rewards:
        if by_name[name][0].kind not in "fc":
            raise TypeError(f"Nstep: {name!r} has dtype {by_name[name][0]}, which cannot hold discounted sums")
    found = {"size": size, "gamma": gamma, "rew": sorted(rewards), "next": sorted(following)}
    if truncated := _names("truncated", options.get("truncated"), by_name):
        _check_end(_one("truncated", truncated), *by_name[truncated[0]])
        found["truncated"] = [*truncated]
    if discount := _names("discount", options.get("discount"), by_name):
        name = _one("discount", discount)
        if by_name[name][0].kind != "f" or name in (*rewards, *following):
            raise TypeError(f"Nstep: discount must name a field of floating dtype that has no other use, got {name!r}")
        found["discount"] = [name]
    return found


def _check_end(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if np.prod(shape) != 1:
        raise ValueError(f"Nstep: {name!r} must hold one value per transition, got shape {shape}")
    if dtype.kind not in "biufcO":
        raise TypeError(f"Nstep: {name!r} must be a number or a bool, got dtype {dtype}")


def _one(option: str, names: Sequence[str]) -> str:
    if len(names) != 1:
        raise ValueError(f"Nstep: {option} must name one field, got {names!r}")
    return names[0]


def _names(option: str, value: Any, fields: Mapping[str, Any]) -> tuple[str, ...]:
    names = tuple(field_names(f"Nstep: {option}", value))
    for name in names:
        if name not in fields:
            raise KeyError(f"Nstep: {option} must name fields of env_dict, got {name!r}")
    return names
