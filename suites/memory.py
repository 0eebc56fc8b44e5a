"""Memory: how many bytes one more transition costs.

    python -m suites.memory --peer NAME --workload NAME --benchmark NAME [--capacity ROWS] [--cells FILE]

One launch measures one buffer of one peer. It fills a small one and then a large one, each once and a half over,
and takes the difference in memory by the difference in rows: libraries, thread pools and whatever else does not
grow with the capacity drop out of it. Memory is the proportional set size of this process and of the peer's own
(a server), in which a shared segment counts by the pages that were touched.

The rows are distinct and real, added one by one as a loop has them: each observation is an array of its own, a
step's next_obs is the object that is the next step's obs, and the caller keeps none of them. Who keeps references
to them (`features.copies_on_add`) therefore stores each observation once.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import psutil

from adapters import registry
from adapters.base import Adapter, Spec
from adapters.checks import AddedRows, check_full, draw
from adapters.lifeline import exit_with_parent
from suites import workloads
from suites.cells import MEMORY, Result, append_result, failure
from suites.workloads import Workload

STEPS_A_CALL = 64
BATCH = 32
SMALLER = 16  # times, the small buffer


def in_use() -> int:
    """Bytes of proportional set size, of this process and those it started."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)  # what was freed is no longer the buffer's, whether or not the allocator keeps it
    me = psutil.Process()
    return sum(_own(process.pid) for process in [me, *me.children(recursive=True)])


def _own(process: int) -> int:
    """Its anonymous and shared memory. Pages of files are left out: a library's count for more or less of them,
    by how many strangers have it mapped at that moment."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return 1024 * (kibibytes["Pss_Anon"] + kibibytes["Pss_Shmem"])


def fill(adapter: Adapter, recording: Workload, rows: int) -> None:
    add = adapter.add if recording.is_plain else adapter.add_dicts
    steps = itertools.islice(recording.stepwise(), rows)
    while some := list(itertools.islice(steps, STEPS_A_CALL)):
        add(some)


def held(peer: str, spec: Spec, recording: Workload, known: AddedRows | None = None) -> tuple[int, int]:
    """Bytes in use with the peer's buffer full, and its rows; a learner has drawn from it once."""
    adapter = registry.adapter_class(peer).make(spec)
    try:
        fill(adapter, recording, rows_for(spec.capacity))
        draw(adapter, spec, BATCH)
        bytes_in_use = in_use()
        check_full(adapter, spec.capacity)
        if known is not None:
            known.check(draw(adapter, spec, BATCH), BATCH)
        return bytes_in_use, len(adapter)
    finally:
        adapter.close()


def rows_for(capacity: int) -> int:
    return capacity * 3 // 2


def measure(peer: str, workload: str, benchmark: str, capacity: int) -> float:
    """Bytes a transition."""
    small = max(BATCH, capacity // SMALLER)
    if capacity < 2 * small:
        raise ValueError(f"a capacity of {capacity} rows is too few: at least {2 * small}")
    recording = workloads.load(workload, rows_for(capacity))
    known = AddedRows(recording.columns, recording.fields)
    specs = [Spec(rows, recording.fields, **MEMORY[benchmark]) for rows in (small, capacity)]
    before, fewer = held(peer, specs[0], recording)
    after, more = held(peer, specs[1], recording, known)
    if after <= before or more <= fewer:
        raise RuntimeError(f"{capacity} rows are too few: no more memory is in use than with {small}")
    return (after - before) / (more - fewer)


def launch(peer: str, workload: str, benchmark: str, capacity: int) -> Result:
    value, outcome, reason = None, "ok", None
    try:
        value = measure(peer, workload, benchmark, capacity)
    except Exception as error:
        outcome, reason = failure(error)
    return Result(benchmark, peer, workload, {"capacity": capacity}, outcome, value, reason)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", required=True, choices=registry.alone(), metavar="NAME")
    parser.add_argument("--workload", required=True, choices=workloads.NAMES, metavar="NAME")
    parser.add_argument("--benchmark", choices=tuple(MEMORY), default="plain", help="default: %(default)s")
    parser.add_argument("--capacity", type=int, default=1_024, help="default: %(default)s")
    parser.add_argument("--cells", type=Path, help="append one JSON line here instead of printing it")
    args = parser.parse_args()
    if args.cells:  # without its runner nobody would end it, or read what it writes
        exit_with_parent(os.getppid())
    result = launch(args.peer, args.workload, args.benchmark, args.capacity)
    if args.cells:
        append_result(args.cells, result)
    else:
        print(json.dumps(asdict(result)))
    return int(result.outcome in ("failed", "wrong"))


if __name__ == "__main__":
    sys.exit(main())
