"""The list of checks: which probe makes each, what it can observe, and how it is shown (checks.toml)."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.behaviours import Behaviour
from adapters.contract import Contract
from suites.check import probes
from suites.check.functions import WEIGHTED_SETS, BufferFunctions
from suites.check.probes import draws, edges, rows
from suites.check.probes.probing import BufferPool, Seen

#: Probes of adapters -> the checks that they make.
OVER_ADAPTER: Mapping[Callable[[BufferPool], Mapping[str, Seen]], tuple[str, ...]] = {
    rows.come_back: ("round_trip", "dtype", "shape"),
    rows.ring: ("ring_order",),
    rows.given_back: ("returned_batch",),
    rows.kept_from_caller: ("references",),
    draws.even: ("uniform",),
    draws.by_priority: ("prioritized",),
    draws.added: ("new_row_priority", "given_priority"),
    draws.importance: ("weights",),
    draws.repeats: ("replacement", "prioritized_replacement"),
    draws.seeds: ("seed",),
    edges.stale: ("stale_update",),
    edges.too_many: ("batch_over_stored",),
    edges.too_early: ("empty",),
    edges.not_a_number: ("nan_priority",),
    edges.negative: ("negative_priority",),
    edges.infinite: ("infinite_priority",),
}
#: Checks that need priorities.
BY_PRIORITY = {
    *("prioritized", "new_row_priority", "given_priority", "weights", "prioritized_replacement"),
    *("stale_update", "nan_priority", "negative_priority", "infinite_priority"),
}

#: Checks of memory that a buffer shares with its caller, of global generators, and of the caller's threads and forks.
WITHIN_PROCESS = {
    *("returned_batch", "references", "seed", "threads", "forked_workers", "spawned_workers", "leaks"),
    *("arrivals", "processes", "killed", "killed_rows"),
}

#: Checks that compare a buffer with the rows that it must hold, of which each has its own next observation.
OF_HELD_ROWS = {
    *("round_trip", "ring_order", "uniform", "returned_batch", "replacement", "seed", "batch_over_stored"),
    *("stored_count", "stored_rows", "even_rows", "batch_adds", "many_rows"),
}


@dataclass(frozen=True)
class ShownCheck:
    """How a check is shown. A fault may have caused the faults of other checks: those that name it in `follows`, or in
    `follows_if_wrong` if they met wrong rows."""

    name: str
    title: str
    group: str
    follows: tuple[str, ...] = ()
    follows_if_wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckPart:
    """A probe and its checks. It drives an adapter, or the functions of a subject."""

    probe: Callable[..., Mapping[str, Seen]]
    checks: tuple[str, ...]
    over_adapter: bool = False


def _over_functions() -> Iterator[Any]:
    """Yield the modules of probes that call a subject's functions."""
    for module in sorted(pkgutil.iter_modules(probes.__path__), key=lambda each: each.name):
        found = importlib.import_module(f"{probes.__name__}.{module.name}")
        if hasattr(found, "PROBES"):
            yield found


def _shown() -> dict[str, ShownCheck]:
    table = tomllib.loads((Path(__file__).parent / "checks.toml").read_text(encoding="utf-8"))
    causes = table.pop("causes")
    of_rows, besides = causes["of_rows"], causes["besides"]
    found = {}
    for group, checks in table.items():
        for name, each in checks.items():
            follows = each.get("follows", [])
            more = [besides[cause] for cause in follows if cause in besides]
            before = of_rows[: of_rows.index(name)] if name in of_rows else of_rows
            found[name] = ShownCheck(name, each["title"], group, (*follows, *more), (*follows, *before))
    return found


MODULES = tuple(_over_functions())
SHOWN = _shown()
BEHAVIOURS: Mapping[str, type[Behaviour]] = {
    **Contract.CHECKS,
    **{check: kind for module in MODULES for check, kind in module.CHECKS.items()},
}
#: In the order of checks.toml, which begins with the most important ones: a run may have no time for all of them.
PARTS = tuple(
    sorted(
        (
            *(CheckPart(probe, checks, over_adapter=True) for probe, checks in OVER_ADAPTER.items()),
            *(CheckPart(probe, checks) for module in MODULES for probe, checks in module.PROBES.items()),
        ),
        key=lambda part: min(map([*SHOWN].index, part.checks)),
    )
)


def named(names: str) -> frozenset[str]:
    """Return the checks in a comma-separated list."""
    return frozenset(filter(None, names.split(",")))


def selected(only: frozenset[str]) -> tuple[CheckPart, ...]:
    """Return the parts of these checks, or all parts. Raises ValueError if a check is unknown."""
    if unknown := only - BEHAVIOURS.keys():
        raise ValueError(f"check must be one of {', '.join(BEHAVIOURS)}, got {', '.join(sorted(unknown))}")
    return tuple(part for part in PARTS if not only or only & {*part.checks})


def refusal(check: str, functions: BufferFunctions) -> str | None:
    """Return why this check cannot be made through these functions; None if nothing is known against it."""
    if functions.elsewhere and check in WITHIN_PROCESS:
        return "the buffer is in another Python"
    if check in BY_PRIORITY and not functions.has("update"):
        return "there is no function update"
    if functions.stores_final_obs and check in OF_HELD_ROWS | BY_PRIORITY:
        return "final observations take places, so which rows are held is not known"
    if check == "weights" and not functions.accepts("make", "beta") and not functions.accepts("sample", "beta"):
        return "neither make nor sample has an argument beta"
    if check == "weights" and functions.weights_over not in ("", *WEIGHTED_SETS[:3]):
        return f"the file states {functions.weights_over!r}, which weights_over checks"
    return None
