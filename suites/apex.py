"""Ape-X: explorer processes that fill a shared buffer while one learner samples it and sets priorities.

    python -m suites.apex --peer NAME --explorers N [--seconds S] [--capacity ROWS] [--cells FILE]

One launch measures one peer with one number of explorers. CartPole's dynamics are deterministic, so
before the clock starts every sampled row is checked against them: a row that is not one step of the
real environment is torn between two writers, or was never written, and its buffer gets no figure.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from adapters import registry
from adapters.base import Adapter, Columns, Field, Spec, WrongAnswer
from adapters.lifeline import exit_with_parent
from suites import cartpole
from suites.cells import APEX, APEX_WORKLOAD, Result, append_result, failure

LOCAL_ROWS = 100  # an explorer's local buffer
LEARNER_BATCH = 64
WARM_ROWS = 1_000  # the learner starts once that many are in
PRIORITY_SETS = 1_021
PATIENCE = 10.0  # seconds without any progress after which a launch is given up
FIELDS = {
    "obs": Field((4,), "float32"),
    "act": Field((), "int32"),
    "rew": Field((), "float32"),
    "next_obs": Field((4,), "float32"),
    "done": Field((), "bool"),
}


def explore(adapter: Adapter, number: int, shared: Shared, parent: int) -> None:
    """An explorer process: step the environment, and hand each full local buffer to the shared one."""
    exit_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the learner ends its explorers; Ctrl-C reaches both
    try:
        random = np.random.default_rng((number, os.getpid()))
        env = cartpole.make()
        obs, _ = env.reset(seed=number)
        local = {key: np.empty((LOCAL_ROWS, *field.shape), field.dtype) for key, field in FIELDS.items()}
        shared.start.wait(PATIENCE)
        while not shared.stop.value:
            actions = random.integers(0, 2, LOCAL_ROWS).tolist()
            for row, act in enumerate(actions):
                next_obs, rew, terminated, truncated, _ = env.step(act)
                for key, value in zip(FIELDS, (obs, act, rew, next_obs, terminated), strict=True):
                    local[key][row] = value
                obs = env.reset()[0] if terminated or truncated else next_obs
            adapter.add_batch(local, random.uniform(0.01, 1.0, LOCAL_ROWS))
            shared.added[number].value += LOCAL_ROWS
    except BaseException as error:
        shared.errors.put(f"explorer {number}: {type(error).__name__}: {error}")
        raise


class Shared:
    """What the learner and its explorers share beside the buffer. Each counter has one writer: no lock."""

    def __init__(self, context: multiprocessing.context.BaseContext, explorers: int) -> None:
        self.start = context.Barrier(explorers + 1)
        self.stop = context.RawValue(ctypes.c_bool, False)
        self.added = [context.RawValue(ctypes.c_int64, 0) for _ in range(explorers)]
        self.errors = context.SimpleQueue()

    def rows(self) -> int:
        return sum(counter.value for counter in self.added)


@dataclass
class Learner:
    """The launch's own process: samples and updates in a tight loop, and looks after the explorers."""

    adapter: Adapter
    shared: Shared
    explorers: list[BaseProcess]

    def __post_init__(self) -> None:
        random = np.random.default_rng(2)
        self.priorities = list(random.uniform(0.01, 1.0, (PRIORITY_SETS, LEARNER_BATCH)))
        self.steps = 0

    def step(self) -> Columns:
        batch = self.adapter.sample(LEARNER_BATCH)
        self.adapter.update_priorities(batch["indexes"], self.priorities[self.steps % PRIORITY_SETS])
        self.steps += 1
        return batch

    def look_after(self) -> None:
        if not self.shared.errors.empty():
            raise RuntimeError(self.shared.errors.get())
        for number, process in enumerate(self.explorers):
            if not process.is_alive():
                raise RuntimeError(f"explorer {number} died with exit code {process.exitcode}")

    def wait_for_rows(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.shared.rows() < WARM_ROWS:
            self.look_after()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.shared.rows()} of {WARM_ROWS} rows were added in {PATIENCE:.0f} s")
            time.sleep(0.01)

    def run(self, seconds: float, check: bool) -> tuple[float, int, int, int]:
        """Learn for so long: (seconds, learner steps, rows added, rows that are no step of CartPole)."""
        steps, rows, wrong = self.steps, self.shared.rows(), 0
        begin = now = looked = time.perf_counter()
        while now < begin + seconds:
            # The alarm ends a step that waits for ever on an explorer that can't let go.
            if now > looked + 0.1 or now == begin:
                signal.setitimer(signal.ITIMER_REAL, PATIENCE)
                self.look_after()
                looked = now
            batch = self.step()
            if check:
                wrong += int(np.count_nonzero(~cartpole.is_step(batch)))
            now = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return now - begin, self.steps - steps, self.shared.rows() - rows, wrong


@contextmanager
def _exploring(adapter: Adapter, number: int) -> Iterator[Learner]:
    """Explorers beside a learner; none is left when the block ends, however it ends.

    Asked to stop, an explorer that was merely kept waiting gets its turn and ends. One that doesn't
    hangs in the buffer, and the launch has failed.
    """
    context = multiprocessing.get_context("fork")
    shared = Shared(context, number)
    explorers = [
        context.Process(target=explore, args=(adapter, each, shared, os.getpid()), daemon=True)
        for each in range(number)
    ]
    learner = Learner(adapter, shared, explorers)
    hung = 0
    try:
        for process in explorers:
            process.start()
        try:
            shared.start.wait(PATIENCE)
        except threading.BrokenBarrierError:
            learner.look_after()
            raise
        yield learner
    finally:
        shared.stop.value = True
        deadline = time.monotonic() + PATIENCE / 2
        for process in explorers:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                hung += 1
                process.kill()
                process.join()
    if hung:
        raise TimeoutError(f"{hung} of {number} explorers hung in the buffer")


def measure(peer: str, explorers: int, seconds: float, capacity: int) -> dict[str, float]:
    """The figures of one launch, by benchmark."""
    adapter = registry.adapter_class(peer).make(Spec(capacity, FIELDS, prioritized=True))
    try:
        with _exploring(adapter, explorers) as learner:
            learner.wait_for_rows()
            _, steps, _, wrong = learner.run(seconds / 2, check=True)
            if wrong:
                raise WrongAnswer(
                    f"{wrong} of {steps * LEARNER_BATCH} sampled rows are no step of CartPole: torn or never written"
                )
            learner.run(seconds / 8, check=False)
            took, steps, rows, _ = learner.run(seconds, check=False)
        if not rows:
            raise TimeoutError(f"beside the learner no explorer could add a single batch in {took:.1f} s")
        return {"explorers": rows / took, "learner": steps / took}
    finally:
        adapter.close()


def _alarm(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"the learner was stuck for {PATIENCE:.0f} s in one step")


def launch(peer: str, explorers: int, seconds: float, capacity: int) -> list[Result]:
    signal.signal(signal.SIGALRM, _alarm)
    # The last resort, should even the alarm not get through: a learner stuck in native code.
    faulthandler.dump_traceback_later(4 * PATIENCE + 3 * seconds, exit=True)
    values: dict[str, float] = {}
    outcome, reason = "ok", None
    try:
        values = measure(peer, explorers, seconds, capacity)
    except Exception as error:
        outcome, reason = failure(error)
    finally:
        faulthandler.cancel_dump_traceback_later()
    params = {"explorers": explorers, "capacity": capacity}
    return [Result(name, peer, APEX_WORKLOAD, params, outcome, values.get(name), reason) for name in APEX]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.apex", description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", required=True, choices=tuple(registry.SHARED), metavar="NAME")
    parser.add_argument("--explorers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--capacity", type=int, default=10_000)
    parser.add_argument("--cells", type=Path, help="append one JSON line a figure here instead of printing it")
    args = parser.parse_args()
    results = launch(args.peer, args.explorers, args.seconds, args.capacity)
    for result in results:
        if args.cells:
            append_result(args.cells, result)
        else:
            print(json.dumps(asdict(result)))
    return int(any(result.outcome in ("failed", "wrong") for result in results))


if __name__ == "__main__":
    sys.exit(main())
