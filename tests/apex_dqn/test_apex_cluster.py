"""The example for a Ray cluster, on this machine and on simulated hosts."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from results import REFERENCE, latest, load
from suites.lan import Lan, ray_cluster, why_not

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE = 120.0  # seconds
DONE = "learner steps alongside 3 explorers"


def test_the_example_makes_a_cluster_of_one_host():
    command = [sys.executable, EXAMPLES / "apex_cluster.py", "--seconds", "15"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert DONE in done.stdout and "mean return " in done.stdout
    assert "failed" not in done.stdout + done.stderr  # as Ray reports calls whose actor was killed


def test_the_page_states_the_bytes_per_row(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    fields = importlib.import_module("apex").FIELDS.values()
    example = sum(np.dtype(each.get("dtype", "f4")).itemsize * each.get("shape", 1) for each in fields)
    reference = latest(folders=(REFERENCE,), profile="hosts")
    benchmark = {each.name: each.row_bytes for each in load(reference).workloads}
    page = (EXAMPLES.parent / "docs/clusters.md").read_text(encoding="utf-8")
    assert f"two stacks of four frames ({benchmark['ALE/Seaquest-v5']:,} bytes)" in page
    assert f"The example's CartPole rows have {example} bytes" in page
    assert f"`make bench` stores the same transition in {benchmark['CartPole-v1']} bytes" in page


def explorers(lan: Lan, hosts: range | list[int]) -> Counter[int]:
    """Count the explorers that run on each host, by the titles that Ray sets for their processes."""
    counts = Counter()
    for host in hosts:
        found = lan.start(host, ["pgrep", "--count", "--full", "^ray::Explorer.run"], stdout=subprocess.PIPE, text=True)
        counts[host] = int(found.communicate()[0])
    return counts


def wait_for_explorers(lan: Lan, hosts: range | list[int], program: subprocess.Popen) -> Counter[int]:
    end = time.monotonic() + PATIENCE
    while (counts := explorers(lan, hosts)).total() != 3:
        assert program.poll() is None and time.monotonic() < end, f"{dict(counts)} explorers play on the hosts"
        time.sleep(0.5)
    return counts


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_example_continues_when_a_host_loses_power():
    with Lan(3) as lan:
        ray_cluster.start(lan)
        # Only the first host gets the files, since each host has its own folder for temporary files.
        copy = Path(tempfile.gettempdir(), "examples")
        assert lan.start(1, ["cp", "-r", EXAMPLES, copy]).wait() == 0
        command = [sys.executable, copy / "apex_cluster.py", "--address", "auto", "--seconds", "60"]
        program = lan.start(
            1, command, env=ray_cluster.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        counts = wait_for_explorers(lan, range(1, 4), program)
        victim = max((2, 3), key=lambda host: counts[host])
        assert counts[victim], f"{dict(counts)} explorers play on the hosts"
        time.sleep(5)  # let the training run for a while
        lan.power_off(victim)
        wait_for_explorers(lan, [host for host in (1, 2, 3) if host != victim], program)
        said, _ = program.communicate(timeout=PATIENCE)
        assert program.returncode == 0 and DONE in said and "mean return " in said, said[-3000:]
