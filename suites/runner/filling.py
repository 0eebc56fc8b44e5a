"""Filling a buffer once over, before anything is timed."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

from adapters.base import Adapter, Spec
from adapters.checks import check_full
from suites.runner.results import NotMeasured
from suites.workloads import Workload

ROWS_A_CALL, BYTES_A_CALL = 1_000, 1 << 24
#: of the time that filling may take: after that part it shows whether it can be enough
FORESEEN, HOPELESS = 0.2, 1.5


class TooSlow(NotMeasured):
    """The buffer is not full after as much time as the profile has for that, or plainly won't be."""


def fill(adapter: Adapter, spec: Spec, recording: Workload, seconds: float = math.inf) -> None:
    """Add the recording over and over until the buffer is full; new rows have random priorities.

    Raises `TooSlow` when this takes, or plainly will take, more than `seconds`, from the end of the first call on.
    """
    random, begin, added = np.random.default_rng(0), None, 0
    at_once = min(ROWS_A_CALL, spec.capacity, max(1, BYTES_A_CALL // recording.row_bytes))
    for start in itertools.cycle(range(0, recording.transitions, at_once)):
        columns = {key: column[start : start + at_once] for key, column in recording.columns.items()}
        rows = min(at_once, recording.transitions - start)
        adapter.add_batch(columns, random.uniform(0.01, 1.0, rows) if spec.prioritized else None)
        if begin is None:  # not with the first call: a peer that compiles does it there, and again in one of the next
            begin, before = time.monotonic(), rows
        added += rows
        # The next rows begin with another episode, so the last of these must have ended.
        whole = start + rows == recording.transitions or not (spec.next_of or spec.stack_compress)
        if added >= spec.capacity and whole:
            break
        spent = time.monotonic() - begin
        if spent > seconds:
            raise TooSlow(f"too slow for {spec.capacity:,} rows: not full after {seconds:g} s")
        timed = added - before
        hopeless = spent > FORESEEN * seconds and spent * spec.capacity / timed > HOPELESS * seconds
        if hopeless and not adapter.contract.compiles:
            raise TooSlow(
                f"too slow for {spec.capacity:,} rows: {timed:,} took {spent:.1f} s, and all may take {seconds:g} s"
            )
    check_full(adapter, spec.capacity)
