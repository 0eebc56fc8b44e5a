"""Peers for which no call was measured on a workload, and why."""

from __future__ import annotations

from collections.abc import Mapping

from results import Run


def unmeasured(run: Run) -> Mapping[str, Mapping[str, list[str]]]:
    """Return, for each workload and reason, the peers that for this reason have no figure for any call.

    Workloads without any figure are left out. A peer's name at the beginning of its reason is removed.
    """
    found: dict[str, dict[str, list[str]]] = {}
    cells = [record for record in run.records if record.suite == "throughput"]
    for workload, peer in dict.fromkeys((record.workload, record.peer) for record in cells):
        mine = [record for record in cells if (record.workload, record.peer) == (workload, peer)]
        compared = any(record.ok for record in cells if record.workload == workload)
        if compared and all(record.status == "skipped" for record in mine):
            reason = str(mine[0].reason).removeprefix(f"{peer} ")
            found.setdefault(workload, {}).setdefault(reason, []).append(peer)
    return found
