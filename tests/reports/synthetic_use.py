"""SYNTHETIC, for tests only: a run like that of `make bench`: whole steps, tails of latency, shared buffers.

python tests/reports/synthetic_use.py OUT.json    writes it, to look at its report
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from results import Run, save

from .synthetic_runs import FEATURES, add_integrity, add_workload, throughput_run

ATARI, CARTPOLE = "ALE/Seaquest-v5", "CartPole-v1"
#: Invented: each peer's time as a multiple of cpprb's.
SLOWER = {
    "cpprb_impl": 0.08,
    "cpprb": 1.0,
    "baselines-style": 11.0,
    "chainerrl-style": 30.0,
    "rllib": 32.0,
    "reverb": 28.0,
}
SHARED = {
    "cpprb_impl[lock=none]": 50.0,
    "cpprb_impl[lock=buffer]": 20.0,
    "cpprb_impl[lock=critical]": 3.0,
    "cpprb[PER behind one lock]": 0.8,
    "cpprb[MP]": 1.0,
    "reverb": 0.05,
    "rllib[Ray actor]": 0.02,
    "torchrl[shared]": 0.3,
}
LATENCIES = {"add": 2e-6, "sample": 2e-5, "update": 1e-5}
TAILS = {"p50": 1.0, "p99": 3.0, "p999": 20.0}


def use_run(blocks: int = 5) -> Run:
    run = throughput_run(workloads=(CARTPOLE,), blocks=blocks)
    _add_atari(run, blocks)
    for capacity in (100_000, 1_000_000):
        for peer, slower in SLOWER.items():
            for adds in (1, 4, 16):
                _cell(
                    run, "throughput", "learner_step", peer, {"adds": adds, "batch": 32, "capacity": capacity},
                    "s/step", "lower", 5e-5 * slower * adds**0.3, blocks,
                )  # fmt: skip
    for peer, slower in SLOWER.items():
        for params in ({"batch": 32, "work_ms": 1}, {"batch": 32, "work_ms": 5}):
            params = {**params, "capacity": 100_000}
            _cell(run, "throughput", "sample_beside", peer, params, "s/call", "lower", 3e-5 * slower**0.7, blocks)
        params = {"batch": 32, "held": 8, "capacity": 100_000}
        _cell(run, "throughput", "sample_held", peer, params, "s/call", "lower", 2e-5 * slower**0.8, blocks)
    add_latency(run, blocks)
    add_shared(run, blocks)
    add_integrity(run)
    return run


def _add_atari(run: Run, blocks: int) -> None:
    add_workload(run, ATARI)
    for peer, slower in SLOWER.items():
        for benchmark in ("add", "sample", "prioritized"):
            for batch in (1, 100) if benchmark == "add" else (32, 256):
                unit = "s/transition" if benchmark == "add" else "s/call"
                params = {"batch": batch, "capacity": 1_024}
                value = 1e-4 * batch**0.9 * slower**0.2
                _cell(run, "throughput", benchmark, peer, params, unit, "lower", value, blocks, ATARI)


def add_latency(run: Run, blocks: int = 5) -> None:
    for peer, slower in SLOWER.items():
        for call, seconds in LATENCIES.items():
            for tail, longer in TAILS.items():
                params = {"batch": 32, "capacity": 100_000}
                value = seconds * slower * longer
                record = _cell(run, "latency", f"{call}_{tail}", peer, params, "s/call", "lower", value, blocks)
                if (peer, tail) == ("reverb", "p999"):
                    record.samples, record.status = [], "interrupted"
                    record.reason = "not measured: the run did not get this far"
                    record.fail("skipped", "800 calls are too few for p99.9 (synthetic)")


def add_shared(run: Run, blocks: int = 5, calls: Mapping[str, int] | None = None) -> None:
    """Add Ape-X with checked rows, torn for cpprb[MP], and fleets, in which cpprb[MP] makes few calls."""
    calls = {"cpprb[MP]": 300} if calls is None else calls
    known = {peer.name for peer in run.peers}
    for peer, faster in SHARED.items():
        if peer not in known:
            run.add_peer(peer, "11.0.0", "one learner, N explorers", {**FEATURES, "processes": "yes"})
        apex = {"explorers": 4, "capacity": 10_000}
        _cell(run, "apex", "explorers", peer, apex, "transitions/s", "higher", 2e4 * faster**0.01, blocks)
        _cell(run, "apex", "learner", peer, apex, "steps/s", "higher", 1e3 * faster, blocks)
        whole = _cell(run, "apex", "whole", peer, apex, "rows checked", "higher", 2e4 * faster, blocks)
        if peer == "cpprb[MP]":
            command = "python -m suites.apex '--peer=cpprb[MP]'"
            whole.fail("wrong", f"3 of 20,672 rows were torn (synthetic)\n{command}")
        fleet = {"explorers": 8, "batch": 1, "capacity": 100_000}
        for start in ("", "prioritized_"):
            cycles, unit = ("prioritized_cycles", "cycles/s") if start else ("samples", "samples/s")
            _cell(run, "sharing", f"{start}adds", peer, fleet, "rows/s", "higher", 1e5 * faster**0.5, blocks)
            value, made = 1e2 * faster**1.5, calls.get(peer, 5_000)
            _cell(run, "sharing", cycles, peer, fleet, unit, "higher", value, blocks, calls=made)
            _cell(run, "sharing", f"{start}slowest", peer, fleet, "of a fair share", "higher", 0.8, blocks)


def _cell(
    run: Run,
    suite: str,
    benchmark: str,
    peer: str,
    params: Mapping[str, int],
    unit: str,
    better: str,
    value: float,
    blocks: int,
    workload: str = CARTPOLE,
    calls: int | None = None,
):
    random = np.random.default_rng(len(run.records))
    record = run.cell(
        suite=suite, benchmark=benchmark, peer=peer, workload=workload, params=params, unit=unit, better=better
    )
    for block in range(blocks):
        record.add_sample(block, value * random.lognormal(0, 0.03), calls)
    return record


if __name__ == "__main__":
    save(sys.argv[1], use_run())
