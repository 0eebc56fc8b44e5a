"""The generated parts of docs/planning.md, from the committed record of the hosts suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from reports.planning import tables
from reports.planning.arguments import plan_from
from reports.planning.costs import NEEDED
from reports.planning.errors import Model, compare, model_of
from reports.planning.measured import cells_of
from reports.planning.plan import verdict
from results import Run, load

PROFILE = "hosts"


@dataclass(frozen=True)
class Case:
    """The variables of `make plan`, and changes to them; the page has a verdict for each change."""

    variables: Mapping[str, str]
    changes: Sequence[Mapping[str, str]] = ()


CASES = {
    # Horgan et al. 2018: 360 actors with 139 frames per second, four frames per transition; a limit of 2 million rows.
    "planning: Ape-X": Case(
        {"TRANSITIONS": "12500", "ROW": "ALE/Seaquest-v5", "BATCH": "512", "BATCHES": "19", "LINK": "10gbit"},
        ({"LINK": "1gbit"}, {"EXPLORER_HOSTS": "0"}),
    ),
    # Kapturowski et al. 2019: 256 actors with 260 steps per second; every 40 steps, a sequence of 80 steps begins,
    # which is stored with the 40 steps before it; 10^5 sequences are stored. A step has a frame of 84 x 84 bytes and 9
    # bytes for its action, reward and end. A sequence also has the LSTM's initial state: two vectors of 512 floats.
    "planning: R2D2": Case(
        {"TRANSITIONS": str(256 * 260 // 40), "ROW": str(120 * (84 * 84 + 9) + 2 * 512 * 4), "BATCH": "64",
         "BATCHES": "5", "LINK": "10gbit", "CAPACITY": "100000"},
        ({"LINK": "100gbit"}, {"EXPLORER_HOSTS": "0"}),
    ),
    "planning: a million": Case(
        {"TRANSITIONS": "1000000", "ROW": "CartPole-v1", "BATCH": "512", "BATCHES": "19", "LINK": "10gbit",
         "CAPACITY": "100000000"},
        ({"BATCHES": "2000"}, {"LINK": "1gbit"}),
    ),
}  # fmt: skip


@cache
def _prepared(path: Path) -> tuple[Run, Model]:
    run = load(path)
    return run, model_of(run)


def cost_lines(path: Path) -> list[str]:
    return tables.cost_lines(_prepared(path)[1])


@cache
def error_lines(path: Path) -> list[str]:
    run, model = _prepared(path)
    return tables.error_lines(compare(run, model))


@cache
def case_lines(name: str, path: Path) -> list[str]:
    """Return the command of a case, its plan, and the verdicts of its changes."""
    case = CASES[name]
    run, model = _prepared(path)
    lines = ["```", _command(case.variables), "```", ""]
    lines += tables.plan_lines(plan_from(case.variables, run, model), model, cells_of(run, NEEDED))
    for change in case.changes:
        changed = plan_from({**case.variables, **change}, run, model)
        lines += ["", f"With `{_text(change)}`: {verdict(changed, model)}"]
    return lines


def _command(variables: Mapping[str, str]) -> str:
    return f"make plan {_text(variables)}"


def _text(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


#: Part of the page -> its lines, given the path of a record.
PARTS: Mapping[str, Callable[[Path], list[str]]] = {
    "planning: costs": cost_lines,
    "planning: errors": error_lines,
    **{name: partial(case_lines, name) for name in CASES},
}
