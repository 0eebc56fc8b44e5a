"""Ape-X: explorer processes that fill a shared buffer while one learner samples it and sets priorities.

    python -m suites.apex --peer NAME --explorers N [--seconds S] [--capacity ROWS] [--cells FILE]

One launch measures one peer with one number of explorers. CartPole's dynamics are deterministic, so before the timed
window every sampled row is checked against them: a row that is not a step of the real environment mixes rows of two
writers, or was never written. The number of rows checked is a separate figure, `whole`, which is wrong if any of them
was broken. The figures of explorers and learner are measured even in that case.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

import numpy as np

from adapters import registry
from adapters.base import Adapter, Columns, Spec
from suites.apex.spec import SUITE, WORKLOAD
from suites.runner import entry
from suites.runner.explorers import Shared, exploring, giving_up, prepare
from suites.runner.results import Outcome, Result, failure
from suites.workloads import cartpole
from suites.workloads.cartpole import FIELDS
from suites.workloads.priorities import priority_sets

LOCAL_ROWS = 100  # an explorer's local buffer
LEARNER_BATCH = 64
WARM_ROWS = 1_000  # the learner starts once this many are stored

Figure = tuple[Outcome, float | None, str | None]  # outcome, value, and the reason if there is no value or it is wrong


def explore(adapter: Adapter, number: int, shared: Shared) -> None:
    """An explorer: steps the environment, and adds its local buffer to the shared one whenever it is full."""
    random = np.random.default_rng((number, os.getpid()))
    env = cartpole.make()
    obs, _ = env.reset(seed=number)
    local = {key: np.empty((LOCAL_ROWS, *field.shape), field.dtype) for key, field in FIELDS.items()}
    shared.start()
    while not shared.stop.value:
        actions = random.integers(0, 2, LOCAL_ROWS).tolist()
        for row, act in enumerate(actions):
            next_obs, rew, terminated, truncated, _ = env.step(act)
            for key, value in zip(FIELDS, (obs, act, rew, next_obs, terminated), strict=True):
                local[key][row] = value
            obs = env.reset()[0] if terminated or truncated else next_obs
        adapter.add_batch(local, random.uniform(0.01, 1.0, LOCAL_ROWS))
        shared.added[number].value += LOCAL_ROWS


class Learner:
    """The learner, in the launch's main process: samples and updates in a tight loop."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.priorities = priority_sets(LEARNER_BATCH, seed=2)
        self.checked = self.wrong = 0

    def step(self) -> Columns:
        batch = self.adapter.sample(LEARNER_BATCH)
        self.adapter.update_priorities(batch["indexes"], next(self.priorities))
        return batch

    def checked_step(self) -> None:
        whole = cartpole.is_step(self.step())
        self.checked += len(whole)
        self.wrong += int(np.count_nonzero(~whole))

    def verdict(self) -> Figure:
        if not self.wrong:
            return "ok", self.checked, None
        found = f"{self.wrong} of {self.checked} sampled rows are not steps of CartPole: torn or never written"
        return "wrong", self.checked, found


def _measure(figures: dict[str, Figure], peer: str, explorers: int, seconds: float, capacity: int) -> None:
    """Store figures in `figures` one by one, so that those measured before a failure are kept."""
    kind = registry.adapter_class(peer)
    kind.version()  # raises if the peer is not available
    prepare(kind.preload)
    adapter = kind.make(Spec(capacity, FIELDS, prioritized=True))
    try:
        with exploring(partial(explore, adapter), explorers, adapter.start_method) as beside:
            learner = Learner(adapter)
            beside.wait_for(WARM_ROWS)
            beside.learn(learner.checked_step, seconds / 2)
            figures["whole"] = learner.verdict()
            beside.learn(learner.step, seconds / 8)
            before = sum(beside.added())
            took, steps = beside.learn(learner.step, seconds)
            rows = sum(beside.added()) - before
        starved = f"no explorer could add a single batch beside the learner in {took:.1f} s"
        figures["explorers"] = ("ok", rows / took, None) if rows else ("failed", None, starved)
        figures["learner"] = "ok", steps / took, None
    finally:
        adapter.close()


def measure(peer: str, explorers: int, seconds: float, capacity: int) -> list[Result]:
    figures: dict[str, Figure] = {}
    missing: Figure = "failed", None, None
    try:
        with giving_up(3 * seconds):
            _measure(figures, peer, explorers, seconds, capacity)
    except Exception as error:
        outcome, reason = failure(error)
        missing = outcome, None, reason
    params = {"explorers": explorers, "capacity": capacity}
    return [Result(name, peer, WORKLOAD, params, *figures.get(name, missing)) for name in SUITE.benchmarks]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--explorers", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, help="of the timed window; default: %(default)s")
    parser.add_argument("--capacity", type=int, default=10_000, help="default: %(default)s")


def main() -> int:
    def figures(args: argparse.Namespace) -> list[Result]:
        return measure(args.peer, args.explorers, args.seconds, args.capacity)

    return entry.main(SUITE, __doc__, options, figures)


if __name__ == "__main__":
    sys.exit(main())
