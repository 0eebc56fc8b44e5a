"""A plan from the variables of `make plan`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from reports.planning.errors import Model
from reports.planning.measured import link_speed
from reports.planning.plan import MOST_HOSTS, Plan, least_data_hosts, least_explorer_hosts
from reports.planning.simulation import HostCounts, Load
from results import Run

AS_NEEDED = ""
#: Ape-X with 360 actors (Horgan et al. 2018), but frames are not compressed.
DEFAULTS = {
    "TRANSITIONS": "12500",
    "ROW": "ALE/Seaquest-v5",
    "BATCH": "512",
    "BATCHES": "19",
    "DATA_HOSTS": AS_NEEDED,
    "EXPLORER_HOSTS": AS_NEEDED,
    "CORES": "2",
    "LINK": "10gbit",
    "CAPACITY": "2000000",
}
EXPLAINED = {
    "TRANSITIONS": "rows stored per second",
    "ROW": "bytes of a row, or a workload of the record",
    "BATCH": "rows of a batch",
    "BATCHES": "that the learner takes per second",
    "DATA_HOSTS": "hosts that store rows, besides the learner's",
    "EXPLORER_HOSTS": "hosts that only explorers use; 0: explorers run on the data hosts",
    "CORES": "of each host",
    "LINK": "speed of each host's link, in either direction: 10gbit, 500mbit, none (unlimited)",
    "CAPACITY": "rows of the buffer, over all data hosts",
}


class BadInput(ValueError):  # noqa: N818 (what the variables are)
    """A variable has an invalid value. The message names it."""


def plan_from(given: Mapping[str, str], run: Run, model: Model) -> Plan:
    """Return the plan. A number of hosts that is not given is set to the number needed. Raises `BadInput`."""
    values = {**DEFAULTS, **given}
    sizes = {workload.name: workload.row_bytes for workload in run.workloads}

    def amount(name: str, least: float, most: float = math.inf, whole: bool = True) -> float:
        text = values[name]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (least <= value <= most and math.isfinite(value)) or (whole and not value.is_integer()):
            kind = "a whole number" if whole else "a number"
            bounds = f"from {least:g} to {most:,g}" if math.isfinite(most) else f"of at least {least:g}"
            named = f", or one of {', '.join(sizes)}" if name == "ROW" else ""
            raise BadInput(f"{name} must be {kind} {bounds}{named}, got {text!r}")
        return value

    wanted = Load(
        sizes.get(values["ROW"]) or amount("ROW", 1),
        int(amount("BATCH", 1)),
        amount("BATCHES", 0, whole=False),
        amount("TRANSITIONS", 0, whole=False),
    )
    if not wanted.batches and not wanted.transitions:
        raise BadInput("BATCHES or TRANSITIONS must be above 0, got 0 for both")
    hosts = HostCounts(
        int(amount("DATA_HOSTS", 1, MOST_HOSTS)) if values["DATA_HOSTS"] else 1,
        int(amount("EXPLORER_HOSTS", 0, MOST_HOSTS)) if values["EXPLORER_HOSTS"] else 1,
        int(amount("CORES", 1, MOST_HOSTS)),
        _link(values["LINK"]),
    )
    plan = Plan(wanted, hosts, int(amount("CAPACITY", 1)))
    if not values["EXPLORER_HOSTS"]:
        plan = replace(plan, hosts=replace(plan.hosts, explorers=least_explorer_hosts(plan, model)))
    if not values["DATA_HOSTS"]:
        plan = replace(plan, hosts=replace(plan.hosts, data=least_data_hosts(plan, model) or 1))
    return plan


def _link(text: str) -> float:
    try:
        return link_speed(text.lower())
    except ValueError:
        raise BadInput(f"LINK must be a speed such as 10gbit or 500mbit, or none, got {text!r}") from None
