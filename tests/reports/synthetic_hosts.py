"""A SYNTHETIC record of the hosts suite: its CPU times follow from known costs."""

from __future__ import annotations

from collections.abc import Sequence

from reports.planning.costs import Cost, RequestCosts
from results import Run

from .synthetic_runs import FIELDS, MACHINE

#: At these row sizes, costs per row and per byte both matter, so a fit can find both.
COSTS = RequestCosts(
    learn=Cost(1e-4, 1e-7, 3e-10, 2e-10),
    draw=Cost(5e-5, 2e-7, 4e-10, 0.0),
    send=Cost(0.0, 5e-7, 1e-9),
    store=Cost(0.0, 8e-7, 4e-9),
    add=Cost(0.0, 3e-8, 7e-11),
    wire=Cost(150.0, 12.0, 1.0),
)
UNITS = {
    "learner": ("batches/s", "higher"),
    "step_p50": ("s/call", "lower"),
    "step_p99": ("s/call", "lower"),
    "learner_cpu": ("s/batch", "lower"),
    "data_cpu": ("s/batch", "lower"),
    "wire": ("bytes/row", "lower"),
    "explorer": ("rows/s", "higher"),
    "explorer_cpu": ("s/row", "lower"),
    "storing_cpu": ("s/row", "lower"),
    "adding_cpu": ("s/row", "lower"),
    "learner_beside": ("batches/s", "higher"),
    "explorer_beside": ("rows/s", "higher"),
}

PEER = "ours[Ray]"


def hosts_run(
    workloads: Sequence[str] = ("CartPole-v1", "ALE/Seaquest-v5"),
    data: Sequence[int] = (1, 2),
    factors: Sequence[float] = (1.0, 1.0, 1.0),
) -> Run:
    """Return a record whose figures follow from COSTS, times a factor for each launch."""
    run = Run("bench", "hosts", "0" * 40, "python -m suites.run --profile hosts", dict(MACHINE))
    run.add_peer(PEER, "0.1.0", "synthetic")
    for name in workloads:
        shape, dtype, row_bytes = FIELDS[name]
        run.add_workload(
            name=name, version="1", source="synthetic", transitions=100, row_bytes=row_bytes, sha256="0" * 64,
            fields={"obs": {"shape": shape, "dtype": dtype}},
        )  # fmt: skip
        for hosts in data:
            for batch in (32, 512):
                _add_cell(run, name, row_bytes, hosts, batch, factors)
    run.finish()
    return run


def _add_cell(run: Run, workload: str, row_bytes: int, hosts: int, batch: int, factors: Sequence[float]) -> None:
    learn, draw = COSTS.learn.of(batch, row_bytes, hosts), COSTS.draw.of(batch, row_bytes, hosts)
    step, stored = max(learn, draw / hosts), COSTS.store.of(1, row_bytes)
    figures = {
        "learner": 0.8 / step, "step_p50": step, "step_p99": 3 * step, "learner_cpu": learn, "data_cpu": draw,
        "wire": COSTS.wire.of(batch, row_bytes) / batch, "explorer": 1 / stored, "storing_cpu": stored,
        "adding_cpu": COSTS.add.of(1, row_bytes),
        "explorer_cpu": COSTS.send.of(1, row_bytes), "learner_beside": 0.5 / step, "explorer_beside": 0.5 / stored,
    }  # fmt: skip
    for name, value in figures.items():
        unit, better = UNITS[name]
        cell = run.cell(
            suite="hosts", benchmark=name, peer=PEER, workload=workload, unit=unit, better=better,
            params={"data_hosts": hosts, "link": "none", "batch": batch},
        )  # fmt: skip
        for block, factor in enumerate(factors):
            cell.add_sample(block, value * factor)
