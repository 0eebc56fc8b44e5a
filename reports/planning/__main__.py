"""Plan Ape-X over several hosts (docs/planning.md).  python -m reports.planning TRANSITIONS=12500 BATCH=512 ...

Prints the record of the service times, a verdict, how busy each resource would be, and a simulation. Exits with 2 for a
bad variable, and with 1 if the record lacks the measurements.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.planning import tables
from reports.planning.arguments import DEFAULTS, EXPLAINED, BadInput, plan_from
from reports.planning.costs import NEEDED
from reports.planning.errors import compare, model_of
from reports.planning.measured import COMMAND, Unmeasured, cells_of
from reports.planning.page import PROFILE
from results import REFERENCE, BadRecord, latest, load


def main(arguments: Sequence[str] | None = None) -> int:
    variables = "\n".join(f"  {name:<15} {EXPLAINED[name]}; {_default(text)}" for name, text in DEFAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m reports.planning", epilog=variables, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("variables", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--record", type=Path, help=f"a run file; default: the committed one of the profile {PROFILE}")
    parser.add_argument("--errors", action="store_true", help="print the model's costs and errors instead")
    options = parser.parse_args(arguments)
    try:
        given = _given(options.variables)
        record = options.record or _committed()
        run = load(record)
        print(f"Service times: {os.path.relpath(record)}, to which costs are fitted (some seconds)\n", flush=True)
        model = model_of(run)
        if options.errors:
            lines = [*tables.cost_lines(model), "", *tables.error_lines(compare(run, model))]
        else:
            lines = tables.plan_lines(plan_from(given, run, model), model, cells_of(run, NEEDED))
    except BadInput as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    except BadRecord as error:
        print(f"plan: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _default(text: str) -> str:
    return f"default: {text or 'as many as are needed'}"


def _given(variables: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in variables]
    if any(name == "HOSTS" for name, _, _ in pairs):
        raise BadInput("HOSTS is a variable of make apex; set DATA_HOSTS, which does not count the learner's host")
    if unknown := [name for name, _, _ in pairs if name not in DEFAULTS]:
        raise BadInput(f"variables must be among {', '.join(DEFAULTS)}, got {unknown[0]!r}")
    return {name: value for name, _, value in pairs if value}


def _committed() -> Path:
    found = latest(folders=(REFERENCE,), profile=PROFILE)
    if found is None:
        raise Unmeasured(f"there is no committed record of the profile {PROFILE}; measure one: {COMMAND}")
    return found


if __name__ == "__main__":
    sys.exit(main())
