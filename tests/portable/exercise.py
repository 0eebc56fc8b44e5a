"""Add, sample and update, then write or compare the results: on this processor and on an emulated one."""

from __future__ import annotations

import sys

import numpy as np

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

FIELDS = {"obs": {"shape": 17}, "act": {"dtype": np.int64}, "rew": {}, "done": {"dtype": bool}}


def results() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = {
        "obs": rng.random((300, 17)),
        "act": np.arange(300),
        "rew": rng.random(300).tolist(),
        "done": rng.random(300) < 0.1,
    }
    uniform, prioritized = ReplayBuffer(256, FIELDS, seed=1), PrioritizedReplayBuffer(256, FIELDS, seed=1)
    uniform.add(**rows)
    prioritized.add(**rows, priorities=rng.lognormal(size=300))
    out = {f"uniform {name}": column for name, column in uniform.sample(500).items()}
    batch = prioritized.sample(64)
    prioritized.update_priorities(batch["indexes"], rng.lognormal(size=64))
    return out | {f"prioritized {name}": column for name, column in prioritized.sample(500).items()}


def main(what: str, path: str) -> int:
    got = results()
    if what == "write":
        np.savez(path, **got)
        return 0
    with np.load(path) as wanted:
        # Newer processors fuse a multiplication and an addition, so powers may differ in their last bits.
        wrong = [name for name in wanted if not np.allclose(got[name], wanted[name], rtol=1e-5)]
    if wrong or len(got) != len(wanted.files):
        print("not what came out here:", wrong)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
