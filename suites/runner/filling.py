"""Filling a buffer before anything is timed."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

from adapters.base import Adapter, Spec
from adapters.checks import check_full
from suites.runner.results import NotMeasured
from suites.runner.spent import SPENT
from suites.workloads import Workload

ROWS_A_CALL, BYTES_A_CALL = 1_000, 1 << 24
#: Shares of the time limit: give up after FORESEEN of it if filling is on course to take HOPELESS times the limit.
FORESEEN, HOPELESS = 0.2, 1.5


class TooSlow(NotMeasured):
    """The buffer could not be filled within the profile's time limit, or clearly would not be."""


@SPENT.on("fill")
def fill(adapter: Adapter, spec: Spec, recording: Workload, seconds: float = math.inf) -> None:
    """Add the recording repeatedly until the buffer is full; new rows have random priorities.

    Raises `TooSlow` if this takes, or clearly will take, more than `seconds`, counted from the end of the first call.
    """
    random, begin, added = np.random.default_rng(0), None, 0
    at_once = min(ROWS_A_CALL, spec.capacity, max(1, BYTES_A_CALL // recording.row_bytes))
    for start in itertools.cycle(range(0, recording.transitions, at_once)):
        columns = {key: column[start : start + at_once] for key, column in recording.columns.items()}
        rows = min(at_once, recording.transitions - start)
        adapter.add_batch(columns, random.uniform(0.01, 1.0, rows) if spec.prioritized else None)
        if begin is None:  # the first call is not timed: a peer may compile in it
            begin, before = time.monotonic(), rows
        added += rows
        # The recording restarts with a new episode, so a compressing buffer must have reached the end of an episode.
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
                f"too slow for {spec.capacity:,} rows: adding {timed:,} took {spent:.1f} s, and the limit for all is "
                f"{seconds:g} s"
            )
    check_full(adapter, spec.capacity)
