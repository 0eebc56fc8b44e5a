"""What the solve_time suite measures: how long an Ape-X training run takes, with each way of sharing its buffer.

A launch is one training run, whose seed is its block's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adapters import venvs
from results.record import Param, Run
from suites.apex_dqn.nstep import fields_of
from suites.suite import Launch, Quantity, Suite, SuiteSettings
from suites.workloads import Workload

EXPLORERS = 4
END_SECONDS = 120.0  # for a training run to start and to end
BENCHMARKS = {
    "solved": Quantity("of 1", "higher"),
    # Until the target is reached or, in a training run that never reaches it, until time is up.
    "seconds": Quantity("s", "lower"),
    "transitions": Quantity("transitions", "lower"),
    "steps": Quantity("learner steps", "lower"),
    "score": Quantity("mean return", "higher"),  # for each moment of SolveTarget.moments
}
LUNAR_LANDER = "LunarLander-v3"
#: Our buffer without a lock, and cpprb's plain buffer behind a manager and a lock, the baseline of cpprb's author.
EXTREMES = ("cpprb_impl[lock=none]", "cpprb[PER behind one lock]")
ARMS = (*EXTREMES, "cpprb_impl[lock=critical]", "cpprb_impl[lock=buffer]", "cpprb[MP]")


@dataclass(frozen=True)
class SolveTarget:
    """An environment, and the mean return over 100 greedy episodes at which it counts as solved."""

    env: str
    target: float
    seconds: int  # limit for a training run that does not reach the target
    every: int  # seconds from one moment of the learning curve to the next
    peers: Sequence[str] = ARMS
    blocks: int | None = None

    @property
    def params(self) -> dict[str, Param]:
        return {"target": self.target, "explorers": EXPLORERS}

    @property
    def moments(self) -> range:
        return range(self.every, self.seconds + 1, self.every)


@dataclass(frozen=True, kw_only=True)
class SolveTimeSettings(SuiteSettings):
    tasks: Sequence[SolveTarget]


def lunar_lander() -> Workload:
    """Describe the runs' rows for the record. Nothing is recorded: Box2D is not in the common venv."""
    columns = {key: np.zeros((1, *field.shape), field.dtype) for key, field in fields_of((8,)).items()}
    source = "Gymnasium LunarLander-v3, played by the explorers of a training; this one row stands for its fields"
    return Workload.computed(LUNAR_LANDER, source, columns)


class SolveTime(Suite[SolveTimeSettings]):
    name = "solve_time"
    benchmarks = BENCHMARKS
    profiles = {  # noqa: RUF012 (a class attribute, by contract)
        "solve_time": SolveTimeSettings(
            blocks=5,
            tasks=[
                SolveTarget("CartPole-v1", 475.0, seconds=300, every=10),
                SolveTarget(LUNAR_LANDER, 200.0, seconds=900, every=30, peers=EXTREMES, blocks=3),
            ],
        ),
    }
    generated = {LUNAR_LANDER: lunar_lander}  # noqa: RUF012

    def workloads(self, settings: SolveTimeSettings) -> list[str]:
        return [task.env for task in settings.tasks]

    def peers(self) -> list[str]:
        return list(ARMS)

    def launches(
        self, run: Run, settings: SolveTimeSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        return [
            self._launch(run, task, peer)
            for task in settings.tasks
            if task.env in workloads
            for peer in peers
            if peer in task.peers
        ]

    def _launch(self, run: Run, task: SolveTarget, peer: str) -> Launch:
        once = self.declare(run, peer, task.env, task.params, [name for name in BENCHMARKS if name != "score"])
        curve = [
            record
            for moment in task.moments
            for record in self.declare(run, peer, task.env, {**task.params, "second": moment}, ["score"])
        ]

        return self.launch(
            f"learning {task.env} with {peer}",
            [*once, *curve],
            {"env": task.env, "target": task.target, "seconds": task.seconds, "every": task.every},
            python=venvs.python(venvs.PYTORCH),
            seeded=True,
            least_limit=task.seconds + END_SECONDS,
            blocks=task.blocks,
        )


SUITE = SolveTime()
