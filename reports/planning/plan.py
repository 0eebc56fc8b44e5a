"""How busy a wanted load keeps each host and link, and how many data hosts it needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from reports.planning.costs import SENT_ROWS, RequestCosts
from reports.planning.errors import Model
from reports.planning.measured import Cell
from reports.planning.simulation import NEW_PRIORITY_BYTES, REQUEST_BYTES, HostCounts, Load, Reached, simulate
from reports.rendering import worded
from results.statistics import FEWEST_FOR_INTERVAL
from results.words import counted

LIMIT = 0.7  # of a resource's time, above which queues grow fast
POWERS = 11
MOST_HOSTS = 2 ** (POWERS - 1)
EXPLORER_HOST = "each explorer host's"
said = partial(worded, "plan.j2")


@dataclass(frozen=True)
class Plan:
    """A wanted load and the hosts for it. Without explorer hosts, explorers run on the data hosts."""

    load: Load
    hosts: HostCounts
    capacity: int = 2_000_000  # rows, as in Ape-X

    @property
    def memory(self) -> float:
        """Bytes of the rows that each data host stores."""
        return self.capacity * self.load.row_bytes / self.hosts.data


@dataclass(frozen=True)
class Use:
    """The share of its time in which a resource is busy, with its 95% interval over launches."""

    name: str
    share: float
    low: float
    high: float


def uses(plan: Plan, model: Model) -> list[Use]:
    """Return the use of every resource, the busiest first."""
    found = []
    for name, share in _shares(plan, model.fit.costs).items():
        low, high = model.fit.interval(lambda costs, name=name: _shares(plan, costs)[name])  # type: ignore[misc]
        found.append(Use(name, share, low, high))
    return sorted(found, key=lambda use: -use.share)


def _shares(plan: Plan, costs: RequestCosts) -> dict[str, float]:
    load, hosts = plan.load, plan.hosts
    batches, rate, row_bytes, data = load.batches, load.transitions, load.row_bytes, hosts.data
    pieces = min(load.batch, data)
    drawn, stored = costs.wire.of(load.batch, row_bytes, pieces), costs.wire.of(SENT_ROWS, row_bytes) / SENT_ROWS
    asked = REQUEST_BYTES * pieces + NEW_PRIORITY_BYTES * load.batch
    elsewhere = rate if hosts.explorers else 0.0
    drawing = batches * costs.draw.of(load.batch, row_bytes, pieces) / data
    storing = elsewhere * costs.store.of(1, row_bytes) / data
    adding = (rate - elsewhere) * costs.add.of(1, row_bytes) / data
    shares = {
        "the learner's thread that samples": batches * costs.learn.of(load.batch, row_bytes, pieces),
        "the learner's link in": batches * drawn / hosts.link,
        "the learner's link out": batches * asked / hosts.link,
        "each data host's process that draws": drawing,
        "each data host's process that stores": storing,
        f"each data host's {_cores(hosts)}": (drawing + storing + adding) / hosts.cores,
        "each data host's link in": (elsewhere * stored + batches * asked) / data / hosts.link,
        "each data host's link out": batches * drawn / data / hosts.link,
    }
    if hosts.explorers:
        sending = rate * costs.send.of(1, row_bytes) / hosts.explorers
        shares[f"{EXPLORER_HOST} {_cores(hosts)}"] = sending / hosts.cores
        shares[f"{EXPLORER_HOST} link out"] = rate * stored / hosts.explorers / hosts.link
    return shares


def _cores(hosts: HostCounts) -> str:
    return counted(hosts.cores, "core")


def least_data_hosts(plan: Plan, model: Model, limit: float = LIMIT) -> int | None:
    """Return the smallest number of data hosts that keeps the learner and each data host within the limit, or None."""
    for data in range(1, MOST_HOSTS + 1):
        if not _beyond(_with_data(plan, data), model, limit):
            return data
    return None


def _with_data(plan: Plan, data: int) -> Plan:
    return replace(plan, hosts=replace(plan.hosts, data=data))


def _beyond(plan: Plan, model: Model, limit: float) -> list[str]:
    shares = _shares(plan, model.fit.costs)
    return [name for name, share in shares.items() if share > limit and not _is_of_explorers(name)]


def least_explorer_hosts(plan: Plan, model: Model, limit: float = LIMIT) -> int:
    """Return the smallest number of explorer hosts that keeps each within the limit; 0 if explorers need none."""
    if not plan.hosts.explorers:
        return 0
    shares = _shares(replace(plan, hosts=replace(plan.hosts, explorers=1)), model.fit.costs)
    return max(1, math.ceil(max(share for name, share in shares.items() if _is_of_explorers(name)) / limit))


def verdict(plan: Plan, model: Model, limit: float = LIMIT) -> str:
    """Return what saturates first and how many hosts are needed, as one sentence."""
    least = least_data_hosts(plan, model, limit)
    return said(
        "verdict",
        hosts=plan.hosts,
        least=least,
        explorers=least_explorer_hosts(plan, model, limit),
        blocking=_always_beyond(plan, model, limit) if least is None else (),
        is_beyond=bool(_beyond(plan, model, limit)),
        busiest=uses(plan, model)[0],
        limit=limit,
        most=MOST_HOSTS,
    )


def _always_beyond(plan: Plan, model: Model, limit: float) -> list[str]:
    """Return the resources that exceed the limit with any number of data hosts, or that together rule out every
    number."""
    each = [_beyond(_with_data(plan, 2**power), model, limit) for power in range(POWERS)]
    return [name for name in each[-1] if all(name in names for names in each)] or sorted({each[0][0], each[-1][0]})


def _is_of_explorers(name: str) -> bool:
    return name.startswith(EXPLORER_HOST)


def simulated(plan: Plan, model: Model) -> tuple[Reached, Reached]:
    """Return the rates that are reached under the wanted load, and with a learner that takes as many batches as it can
    get."""
    wanted = simulate(model.fit.costs, plan.hosts, plan.load, model.delay)
    greedy = replace(plan.load, batches=math.inf)
    return wanted, simulate(model.fit.costs, plan.hosts, greedy, model.delay)


def outside(plan: Plan, model: Model, cells: list[Cell]) -> Iterator[str]:
    """Yield the reasons why the measurements do not cover a plan."""
    load, fitted = plan.load, model.fit
    if fitted.launches < FEWEST_FOR_INTERVAL:
        yield said("few_launches", launches=fitted.launches)
    ranges = [
        ("rows", load.row_bytes, fitted.row_bytes, "bytes"),
        ("batches", load.batch, fitted.batches, "rows"),
        ("data hosts", plan.hosts.data, (1, max(cell.data for cell in cells)), ""),
    ]
    for name, value, (low, high), unit in ranges:
        if not low <= value <= high:
            far = max(value / high, low / max(value, 1e-9))
            yield said("outside", name=name, low=low, high=high, unit=unit, far=far)
