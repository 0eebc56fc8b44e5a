"""A plan and a model as tables, in Markdown that is aligned for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reports.figures.formatting import NOTHING, gbit, number, share, span, times
from reports.planning.costs import Cost, RequestCosts
from reports.planning.errors import CPU, FIGURES, Compared, Model, typical
from reports.planning.measured import Cell
from reports.planning.plan import LIMIT, Plan, least_data_hosts, outside, said, simulated, uses, verdict
from reports.planning.simulation import Reached

FEWEST_FOR_P99 = 100  # steps
ERROR_NAMES = (
    "CPU learner",
    "CPU data",
    "batches/s",
    "step p50",
    "step p99",
    "rows/s",
    "batches/s beside",
    "rows/s beside",
)
COST_NAMES = {
    "learn": "learner, CPU of a request's rows and new priorities",
    "draw": "data host, the same",
    "send": "explorer, CPU of sent rows",
    "store": "data host, CPU of stored rows",
    "add": "data host, CPU of rows of its own explorers",
    "wire": "reply to a request",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in which all columns except the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "| "
        + " | ".join(_padded(cell, width, at) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
        + " |"
        for row in (header, *rows)
    ]
    rule = "| " + " | ".join("-" * (width - (at > 0)) + ":" * (at > 0) for at, width in enumerate(widths)) + " |"
    return [lines[0], rule, *lines[1:]]


def _padded(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column else text.ljust(width)


def plan_lines(plan: Plan, model: Model, cells: list[Cell]) -> list[str]:
    """Return a plan's tables and verdict."""
    used = [[use.name, share(use.share), span((use.low, use.high), share)] for use in uses(plan, model)]
    wanted, most = simulated(plan, model)
    load = plan.load
    reached = [
        ["batches/s", number(load.batches), number(wanted.batches), number(most.batches)],
        ["rows stored per second", number(load.transitions), _or_nothing(wanted.rows), _or_nothing(most.rows)],
        ["step p50, ms", NOTHING, number(1e3 * wanted.p50, 2), number(1e3 * most.p50, 2)],
        ["step p99, ms", NOTHING, _p99(wanted), _p99(most)],
    ]
    return [
        said("load", load=plan.load, hosts=plan.hosts, is_limited=not math.isinf(plan.hosts.link)),
        "",
        f"**{verdict(plan, model)}**",
        "",
        *table(["resource", "busy", "95% interval"], used),
        "",
        said("least", plan=plan, limit=LIMIT, least=least_data_hosts(plan, model)),
        *(said("careful", reason=each) for each in outside(plan, model, cells)),
        "",
        *table(["simulated", "wanted", "reached", "learner at full speed"], reached),
        "",
        said("nothing", sign=NOTHING, fewest=FEWEST_FOR_P99),
    ]


def _p99(reached: Reached) -> str:
    return number(1e3 * reached.p99, 2) if reached.steps >= FEWEST_FOR_P99 else NOTHING


def _or_nothing(rows: float) -> str:
    return number(rows) if rows else NOTHING


def cost_lines(model: Model) -> list[str]:
    """Return the fitted costs."""
    rows = []
    for name, label in COST_NAMES.items():
        cost: Cost = getattr(model.fit.costs, name)
        scale = 1.0 if name == "wire" else 1e6
        at = [_ends(model, name, rows_, row_bytes, scale) for rows_, row_bytes in _corners(model)]
        parts = [_part(scale * cost.message), _part(scale * cost.row), _part(1e3 * scale * cost.byte)]
        rows.append([label, "B" if name == "wire" else "µs", *parts, _part(1e3 * scale * cost.far), *at])
    header = [
        "cost",
        "unit",
        "message",
        "row",
        "1,000 bytes",
        "beyond 4 MiB",
        *(_corner(*each) for each in _corners(model)),
    ]
    misfit = max(model.fit.misfit.values())
    return [*table(header, rows), "", said("costs", delay=1e6 * model.delay, misfit=misfit)]


def _corners(model: Model) -> list[tuple[int, int]]:
    (few, many), (small, large) = model.fit.batches, model.fit.row_bytes
    return [(many, small), (few, large)]


def _corner(rows: int, row_bytes: int) -> str:
    return f"{rows} rows of {row_bytes:,} B"


def _ends(model: Model, name: str, rows: int, row_bytes: int, scale: float) -> str:
    def of(costs: RequestCosts) -> float:
        return scale * float(getattr(costs, name).of(rows, row_bytes))

    return f"{number(of(model.fit.costs))} ({span(model.fit.interval(of))})"


def _part(value: float) -> str:
    return number(value, 2) if value else "0"


def error_lines(compared: Sequence[Compared]) -> list[str]:
    """Return a table of the ratios of predicted to measured figures, the cells of the fit first."""
    ordered = sorted(compared, key=lambda each: (not each.was_seen, each.cell.data, each.cell.link))
    rows = [[*_place(each), *(times(each.ratios[name], 2) for name in FIGURES)] for each in ordered]
    header = ["workload", "data hosts", "link", "batch", "fitted to", *ERROR_NAMES]
    return [*table(header, rows), "", *_summary(ordered)]


def _place(each: Compared) -> list[str]:
    cell = each.cell
    link = "unlimited" if math.isinf(cell.link) else gbit(cell.link)
    return [cell.workload, str(cell.data), link, str(cell.batch), "yes" if each.was_seen else "no"]


def _summary(compared: Sequence[Compared]) -> Iterator[str]:
    for data in sorted({each.cell.data for each in compared if each.cell.data > 1}):
        mine = [each for each in compared if each.cell.data == data]
        rates = [each.ratios[name] for each in mine for name in ("learner", "explorer")]
        worst = max(rates, key=lambda ratio: abs(math.log(ratio)))
        learner, data_hosts = (max(each.ratios[name] for each in mine) for name in CPU)
        off = {"typical": typical(rates), "worst": worst, "learner": learner, "data_hosts": data_hosts}
        yield said("errors", data=data, **off)
