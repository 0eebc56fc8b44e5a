"""Calls inspect only the stored rows, not the whole ring, and count them correctly."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer

from .jobs import WIDE, WIDE_ENV_DICT, add_wide_for_ever, explorers, kill, wait_until
from .rows import make_rows

pytestmark = pytest.mark.timeout(180)

MIB = 1 << 20


def resident() -> int:
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"Rss: +(\d+) kB", text)[1]) << 10


def referenced_by(job, segment: str) -> int:
    """Return the bytes of the segment's pages that `job` touches."""
    try:
        Path("/proc/self/clear_refs").write_text("1")
    except OSError:
        pytest.skip("this kernel does not say which pages are used")
    job()
    text = Path("/proc/self/smaps").read_text()
    return int(re.search(re.escape(segment) + r"\n.*?Referenced: +(\d+) kB", text, re.DOTALL)[1]) << 10


def test_the_first_sample_reads_only_stored_rows():
    rows = 2_000_000
    buffer = MPPrioritizedReplayBuffer(rows, {"a": {"dtype": np.uint8}})
    buffer.add(a=np.arange(100))
    before = resident()
    batch = buffer.sample(64)
    after = resident()
    assert (batch["a"][:, 0] == batch["indexes"]).all()
    assert (batch["weights"] == 1).all()
    buffer.clear()
    buffer.add(a=np.arange(100))
    buffer.sample(64)
    cleared = resident()
    buffer.close()
    assert after - before < 4 * MIB, "the tree alone has 10 MiB, the rows 48"
    assert cleared - before < 4 * MIB


def test_a_new_single_process_buffer_touches_no_leaf():
    before = resident()
    buffer = PrioritizedReplayBuffer(4_000_000, {"a": {"dtype": np.uint8}})
    buffer.add(a=np.arange(100))
    buffer.sample(64)
    buffer.clear()
    grown = resident() - before
    buffer.close()
    assert grown < 8 * MIB, "the tree has 20 MiB"


def test_stored_size_counts_committed_rows_of_a_stopped_explorer():
    """Within the claim of the stopped explorer, only the committed rows count."""
    buffer = MPReplayBuffer(2048, WIDE_ENV_DICT)  # 32 rows per claim
    seen = set()
    deadline = time.monotonic() + 60
    while len(seen) < 3 and time.monotonic() < deadline:
        buffer.clear()
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=100) as ((process,), (added,)):
            wait_until(lambda added=added: added.value > 0)
            kill(process, signal.SIGSTOP)
            time.sleep(0.05)
            stored, readable = buffer.get_stored_size(), len(buffer.get_all_transitions()["act"])
            in_first_lap = 0 < stored < 2048
            if in_first_lap and buffer.get_next_index() != readable:
                seen.add(readable)
        assert not in_first_lap or stored == readable
    buffer.close()
    assert seen, "never stopped inside add()"


def test_a_ring_is_full_although_a_stopped_explorer_has_an_open_claim():
    """The explorer has committed all rows of its claim."""
    buffer = MPReplayBuffer(2048, WIDE_ENV_DICT)
    rows = make_rows(0, 8, width=WIDE)
    rows["next_obs"] = rows["next_obs"][:, :2]
    seen = False
    deadline = time.monotonic() + 60
    while not seen and time.monotonic() < deadline:
        buffer.clear()
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=100) as ((process,), (added,)):
            wait_until(lambda added=added: added.value > 0)
            kill(process, signal.SIGSTOP)
            time.sleep(0.05)
            readable, until = len(buffer.get_all_transitions()["act"]), buffer.get_next_index()
            if readable < until:
                missing = until - readable
                while buffer.get_stored_size() + missing < 2048:
                    buffer.add(**rows)
                seen = True
                assert buffer.get_stored_size() == len(buffer.get_all_transitions()["act"])
    buffer.close()
    assert seen, "never stopped inside add()"


@pytest.mark.slow
def test_counting_the_stored_size_after_a_death_inspects_only_the_holes():
    size = 2048
    buffer = MPReplayBuffer(size, WIDE_ENV_DICT)
    rows = make_rows(0, 16, width=WIDE)
    rows["next_obs"] = rows["next_obs"][:, :2]
    deadline = time.monotonic() + 60
    holes = 0
    while not holes and time.monotonic() < deadline:
        buffer.clear()
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=100) as ((process,), (added,)):
            wait_until(lambda added=added: added.value > 0)
            kill(process)
        until = buffer.get_next_index()
        holes = until - buffer.get_stored_size() if 100 <= until < size // 2 else 0
    assert holes, "never killed inside add()"
    while buffer.get_next_index() < size - 16:
        buffer.add(**rows)
        assert buffer.get_stored_size() == len(buffer.get_all_transitions()["act"])
    used = referenced_by(buffer.get_stored_size, buffer.segment)
    of_all = referenced_by(buffer.get_all_transitions, buffer.segment)
    full = [buffer.get_stored_size()]
    for _ in range(size // 16 + 2):  # until each slot has a row again
        buffer.add(**rows)
        full.append(buffer.get_stored_size())
    last = len(buffer.get_all_transitions()["act"])
    buffer.close()
    assert full == sorted(full)
    assert full[-1] == last == size
    assert used < MIB < of_all
