"""SYNTHETIC run files, for tests only: every figure here is invented. None of these files may be committed as a record.

python tests/reports/synthetic_runs.py OUT.json    writes the large one, to look at its report
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from results import Run, save

MACHINE = {
    "cpu": "SYNTHETIC processor, not a real one",
    "cores": 2,
    "memory_bytes": 16 * 2**30,
    "kernel": "6.1.0",
    "os": "Linux (synthetic)",
    "python": "3.11.7",
    "numpy": "1.26.4",
    "compiler": "c++ 12.2.0",
}
FIELDS = {
    "CartPole-v1": ([4], "float32", 46),
    "Pendulum-v1": ([3], "float32", 38),
    "ALE/Seaquest-v5": ([84, 84, 4], "uint8", 56_458),
}
FEATURES = {
    "batch_add": "yes",
    "flexible_fields": "yes",
    "prioritized": "yes",
    "weights": "normalised by the global maximum",
    "duplicates": "yes",
    "gives": "columns",
    "copies_on_add": "yes",
    "n_step": "no",
    "processes": "no",
    "framework": "NumPy",
    "licence": "MIT",
}
#: peer -> the features in which it differs from FEATURES
PEERS = {
    "cpprb_impl": {"processes": "MP classes, three lock disciplines"},
    "cpprb": {"n_step": "yes", "processes": "MP classes"},
    "baselines-style": {"batch_add": "no", "copies_on_add": "no: keeps references to the caller's arrays"},
    "chainerrl-style": {
        "batch_add": "no",
        "gives": "rows: a list of dicts",
        "duplicates": "never",
        "copies_on_add": "no: keeps references to the caller's arrays",
    },
    "rllib": {"batch_add": "yes, split into one-row batches", "framework": "Ray", "licence": "Apache 2.0"},
    "reverb": {"batch_add": "no: the writer streams", "gives": "rows", "framework": "TensorFlow", "processes": "gRPC"},
}
JOBS = (("add", 1), ("add", 100), ("sample", 32), ("sample", 256), ("prioritized", 32), ("prioritized", 256))
#: Invented seconds on CartPole, in the order of JOBS.
SECONDS = {
    "cpprb_impl": (6e-6, 7e-8, 4e-6, 1.1e-5, 1.2e-5, 4.1e-5),
    "cpprb": (1.25e-5, 1.3e-7, 7.8e-6, 2.4e-5, 2.2e-5, 4e-5),
    "baselines-style": (1.5e-7, 1.4e-7, 3.9e-5, 4.8e-4, 3.1e-4, 2.4e-3),
    "chainerrl-style": (7.8e-7, 7.6e-7, 9e-5, 9e-4, 5e-4, 4e-3),
    "rllib": (2.7e-5, 1.9e-5, 3.1e-4, 4e-3, 7e-4, 6e-3),
    "reverb": (2.9e-5, 3.3e-5, 3.1e-4, 3e-3, 4e-4, 3.6e-3),
}


def empty_run(kind: str = "bench") -> Run:
    return Run(
        kind=kind,
        profile="synthetic",
        revision="0123456789abcdef0123456789abcdef01234567",
        command="python -m suites --profile synthetic",
        machine=dict(MACHINE),
        started="2026-11-20T06:30:00Z",
    )


def add_workload(run: Run, name: str) -> None:
    shape, dtype, row_bytes = FIELDS[name]
    run.add_workload(
        name=name,
        version="1",
        source="synthetic: invented for tests",
        transitions=20_000,
        row_bytes=row_bytes,
        sha256="ab" * 32,
        fields={
            "obs": {"shape": shape, "dtype": dtype},
            "act": {"shape": [1], "dtype": "int64"},
            "rew": {"shape": [], "dtype": "float32"},
            "next_obs": {"shape": shape, "dtype": dtype},
            "done": {"shape": [], "dtype": "float32"},
        },
    )


def throughput_run(
    peers: tuple[str, ...] = tuple(PEERS),
    workloads: tuple[str, ...] = ("CartPole-v1",),
    blocks: int = 5,
    noise: float = 0.04,
) -> Run:
    """Return invented throughput of these peers: SECONDS, times the workload's size, times lognormal noise."""
    random = np.random.default_rng(1)
    run = empty_run()
    for name in peers:
        run.add_peer(name, "11.0.0", f"as the documentation of {name} says", {**FEATURES, **PEERS.get(name, {})})
    for number, workload in enumerate(workloads):
        add_workload(run, workload)
        larger = (1, 0.95, 6)[number]
        for place, (benchmark, batch) in enumerate(JOBS):
            for peer in peers:
                record = throughput_cell(run, benchmark, batch, peer, workload)
                for block in range(blocks):
                    record.add_sample(block, SECONDS[peer][place] * larger * random.lognormal(0, noise))
    run.finish()
    run.finished = "2026-11-20T06:38:00Z"
    return run


def throughput_cell(run: Run, benchmark: str, batch: int, peer: str, workload: str, capacity: int = 100_000):
    return run.cell(
        suite="throughput",
        benchmark=benchmark,
        peer=peer,
        workload=workload,
        params={"batch": batch, "capacity": capacity},
        unit="s/transition" if benchmark.startswith("add") else "s/call",
        better="lower",
    )


def add_apex_job(run: Run, peer: str, rates: Mapping[str, float], blocks: int = 5, **params: int | str) -> None:
    """Add figures of one Ape-X job; later launches have larger figures, by up to 4%."""
    for benchmark, value in rates.items():
        blocked = benchmark.endswith("blocked")
        record = run.cell(
            suite="apex", benchmark=benchmark, peer=peer, workload="CartPole-v1",
            params={"rows": 100, "capacity": 1000, **params},
            unit="of their time" if blocked else "per second", better="lower" if blocked else "higher",
        )  # fmt: skip
        for block in range(blocks):
            record.add_sample(block, value * (1 + 0.04 * block / blocks))


def add_apex(run: Run, blocks: int = 5, noise: float = 0.05) -> None:
    """Add invented Ape-X figures of variants of peers; larger is better."""
    random = np.random.default_rng(2)
    variants = {
        "cpprb_impl[lock=buffer]": (30e3, 0.85, 900),
        "cpprb_impl[lock=critical]": (31e3, 0.95, 1400),
        "cpprb[PER behind one lock]": (21e3, 0.7, 700),
        "cpprb[MP]": (20e3, 0.8, 500),
    }
    for name in variants:
        run.add_peer(name, "11.0.0", "one learner, N explorers", {**FEATURES, "processes": "yes"})
    for name, (transitions, scaling, steps) in variants.items():
        for explorers in (1, 2, 4):
            for benchmark, unit, value in (
                ("explorers", "transitions/s", transitions * explorers**scaling),
                ("learner", "steps/s", steps / explorers**0.3),
            ):
                record = run.cell(
                    suite="apex", benchmark=benchmark, peer=name, workload="CartPole-v1",
                    params={"explorers": explorers}, unit=unit, better="higher",
                )  # fmt: skip
                for block in range(blocks):
                    record.add_sample(block, value * random.lognormal(0, noise))


#: Invented: rows per second of one explorer, samples per second, share of the slowest; seconds per step and per add.
SHARED = {
    "cpprb_impl[lock=buffer]": (2e6, 5e5, 0.8, 2.5e-6, 1.5e-7),
    "cpprb[MP]": (4e4, 1e4, 0.6, 1e-4, 1.5e-5),
}


def add_sharing(run: Run, explorers: tuple[int, ...] = (1, 4), blocks: int = 3) -> None:
    """Add invented figures of shared buffers, and of the unshared cpprb_impl, which needs half of their time."""
    units = {"adds": "rows/s", "samples": "samples/s", "slowest": "of a fair share"}

    def cell(benchmark: str, peer: str, params: dict, unit: str, value: float) -> None:
        record = run.cell(
            suite="sharing", benchmark=benchmark, peer=peer, workload="CartPole-v1", params=params, unit=unit,
            better="higher" if benchmark in units else "lower",
        )  # fmt: skip
        for block in range(blocks):
            record.add_sample(block, value * (1 + block / 100))

    for peer, (adds, samples, share, step, add) in SHARED.items():
        if peer not in {known.name for known in run.peers}:
            run.add_peer(peer, "11.0.0", "one learner, N explorers", {**FEATURES, "processes": "yes"})
        for batch, number in ((batch, number) for batch in (1, 100) for number in explorers):
            params = {"explorers": number, "batch": batch, "capacity": 1_000}
            for (benchmark, unit), value in zip(
                units.items(), (adds * number * batch, samples / number, share), strict=True
            ):
                if benchmark != "slowest" or number > 1:
                    cell(benchmark, peer, params, unit, value)
        for capacity in (10_000, 1_000_000):
            cell("step", peer, {"batch": 100, "capacity": capacity}, "s/step", step * capacity**0.1)
        cell("add_alone", peer, {"batch": 1, "capacity": 1_000}, "s/transition", add)
    cell("add_alone", "cpprb_impl", {"batch": 1, "capacity": 1_000}, "s/transition", 7.5e-8)


#: What is wrong with the buffers, by benchmark; None means that it could not be tested.
FOUND = {
    "cpprb_impl[lock=buffer]": {},
    "cpprb[MP]": {"torn": "12 of 480,000 rows read were torn", "killed": "the learner blocked for ever"},
    "reverb": {"lost": "3 of 480,000 added rows were not stored"},
    "rllib": None,
}


def add_integrity(run: Run) -> None:
    """Add invented findings of the integrity suite. The run must contain the peers."""
    units = {"torn": "rows read", "lost": "rows added", "killed": "kills", "starvation": "of a fair share"}
    run.add_workload(
        name="certified", version="1", source="synthetic", transitions=1, row_bytes=41, sha256="cd" * 32,
        fields={"obs": {"shape": [4], "dtype": "float32"}},
    )  # fmt: skip
    for peer, found in FOUND.items():
        for benchmark, unit in units.items():
            record = run.cell(
                suite="integrity", benchmark=benchmark, peer=peer, workload="certified",
                params={"explorers": 4, "seed": 7}, unit=unit, better="higher",
            )  # fmt: skip
            if found is None:
                record.fail("failed", "the server did not start (synthetic)")
                continue
            record.add_sample(0, 0.75 if benchmark == "starvation" else 480_000)
            if benchmark in found:
                record.fail("wrong", f"{found[benchmark]}\npython -m suites.integrity --peer='{peer}' --seed=7")


def add_conformance(run: Run, seen: Mapping[str, Mapping[str, str | None]]) -> None:
    """Add invented observations: peer -> check -> what was seen, or None for a check that the peer skips."""
    run.add_workload(
        name="numbered", version="1", source="synthetic", transitions=1, row_bytes=41, sha256="cd" * 32,
        fields={"obs": {"shape": [4], "dtype": "float32"}},
    )  # fmt: skip
    for peer, checks in seen.items():
        for check, word in checks.items():
            record = run.cell(
                suite="conformance", benchmark=check, peer=peer, workload="numbered", params={"draws": 40},
                unit="draws", better="higher",
            )  # fmt: skip
            if word is None:
                record.fail("skipped", f"{peer} has no priorities (synthetic)")
            else:
                record.seen = word
                record.add_sample(0, 40)


#: Invented bytes per transition on CartPole, in the order of MEMORY_JOBS.
MEMORY_JOBS = ("plain", "priorities", "next_of")
BYTES = {"cpprb_impl": (48, 57, 40), "cpprb": (46, 62, 41), "baselines-style": (200, 300, None)}


def add_memory(run: Run, blocks: int = 1) -> None:
    """Add invented bytes per transition; None means that a peer lacks the feature."""
    for place, benchmark in enumerate(MEMORY_JOBS):
        for peer, values in BYTES.items():
            record = run.cell(
                suite="memory", benchmark=benchmark, peer=peer, workload="CartPole-v1",
                params={"capacity": 16_384}, unit="B/transition", better="lower",
            )  # fmt: skip
            if values[place] is None:
                record.fail("skipped", f"{peer} offers none of this (synthetic)")
            else:
                for block in range(blocks):
                    record.add_sample(block, values[place] + block)


def gate_run(
    slower: float = 0.0,
    launches: int = 10,
    noise: float = 0.05,
    benchmarks: int = 12,
    outliers: float = 0.0,
    seed: int = 3,
) -> Run:
    """Return a run of base and head, in which head's first benchmark takes `1 + slower` times as long.

    `outliers` is the probability that a launch is 1.5 to 3 times as slow.
    """
    random = np.random.default_rng(seed)
    run = empty_run("gate")
    run.add_peer("base", "1", "")
    run.add_peer("head", "2", "")
    add_workload(run, "CartPole-v1")
    for number in range(benchmarks):
        for side in ("base", "head"):
            record = throughput_cell(run, "add", number + 1, side, "CartPole-v1")
            factor = 1 + slower if side == "head" and number == 0 else 1.0
            for block in range(launches):
                value = 1e-6 * factor * random.lognormal(0, noise)
                if random.random() < outliers:
                    value *= random.uniform(1.5, 3)
                record.add_sample(block, value)
    run.finish()
    return run


def large_run() -> Run:
    """Return a run of six peers, three workloads and two suites, with an example of each kind of failure."""
    run = throughput_run(workloads=tuple(FIELDS))
    add_apex(run)
    run.add_peer(
        "torchrl", None, "not measured", dict(FEATURES), reason="not installed: an environment of its own (synthetic)"
    )
    for record in run.records:
        if record.peer == "rllib" and record.workload == "ALE/Seaquest-v5" and record.benchmark == "prioritized":
            record.samples = record.samples[:2]
            record.fail(
                "failed", "the process was killed by signal 9 (synthetic)\nTraceback (most recent call last):\n  ..."
            )
        if record.peer == "chainerrl-style" and record.benchmark == "sample" and record.params["batch"] == 256:
            record.samples = []
            record.fail("wrong", "wrong content: 3 of 256 rows were never added (synthetic)")
    return run


if __name__ == "__main__":
    save(sys.argv[1], large_run())
