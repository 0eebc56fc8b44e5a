"""What the paired_training suite measures: other libraries' training runs with their own replay buffer and with ours.

A launch is one training run, whose seed is its block's number: a block has one run with each buffer, all with the same
seed. With `in_turns`, a launch is two training runs that take turns, and only their relative speed is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters import registry
from adapters.training_arm import TrainingArm
from results.record import Param, Record, Run
from suites.paired_training.tasks import (
    CARTPOLE,
    EXACT,
    HALF_CHEETAH,
    LUNAR_LANDER,
    LUNAR_LANDER_SLOWLY,
    MOUNTAIN_CAR,
    MOUNTAIN_CAR_SLOWLY,
    OURS,
    PENDULUM,
    PONG,
    REFERENCE,
    TASKS,
    TrainingTask,
)
from suites.suite import Launch, Quantity, Suite, SuiteSettings
from suites.workloads.recipes import RECIPES

SCORE, WEIGHTS, RELATIVE_SPEED = "score", "weights", "relative_speed"
BENCHMARKS = {
    "steps": Quantity("steps/s", "higher"),  # of the environment, from `TrainingTask.timed_from` to the end
    "in_buffer": Quantity("% of the time", "lower"),  # in the buffer's methods, in the same window
    "memory": Quantity("B/transition", "lower"),
    "solved": Quantity("of 1", "higher"),
    # Until the target is reached or, in a training run that never reaches it, all of its steps.
    "needed": Quantity("steps", "lower"),
    SCORE: Quantity("mean return", "higher"),  # for each moment of TrainingTask.moments
    # A checksum of the network's final weights, for the reference and for buffers that draw the same rows.
    WEIGHTS: Quantity("CRC-32", "lower"),
    # From a shorter training run that takes turns with one that has the library's own buffer.
    RELATIVE_SPEED: Quantity("times", "higher"),
}
TO_TARGET = ("solved", "needed")
SECONDS_PER_STEP = 0.1  # limits a launch: ten times as long as a step of the slowest training run
START_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class PairedTrainingSettings(SuiteSettings):
    tasks: Sequence[TrainingTask]
    in_turns: bool = False


def _short(steps: int, stored: int) -> TrainingTask:
    """Return a short training task that is not expected to be solved."""
    return replace(CARTPOLE, steps=steps, every=steps // 4, stored=stored, target=None, peers=(REFERENCE, OURS, EXACT))


PROFILES = {
    "tiny": PairedTrainingSettings(blocks=2, tasks=[_short(2_048, 4_096)]),
    "paired_training": PairedTrainingSettings(blocks=5, tasks=[CARTPOLE, PENDULUM, HALF_CHEETAH, PONG]),
    "paired_prioritized": PairedTrainingSettings(blocks=5, tasks=[LUNAR_LANDER, LUNAR_LANDER_SLOWLY]),
    "paired_sparse": PairedTrainingSettings(blocks=5, tasks=[MOUNTAIN_CAR, MOUNTAIN_CAR_SLOWLY]),
    "paired_speed": PairedTrainingSettings(blocks=5, tasks=[CARTPOLE, PENDULUM, HALF_CHEETAH, PONG], in_turns=True),
}


def figures(task: TrainingTask, arm: type[TrainingArm]) -> list[tuple[str, int | None]]:
    """Return (benchmark, moment) of each figure of one training run; only scores have a moment."""
    without = {SCORE, RELATIVE_SPEED, *(() if arm.exact or arm.name == REFERENCE else (WEIGHTS,))}
    if task.target is None:
        without.update(TO_TARGET)
    return [
        *((name, None) for name in BENCHMARKS if name not in without),
        *((SCORE, moment) for moment in task.moments),
    ]


def params(task: TrainingTask, moment: int | None) -> dict[str, Param]:
    return task.params if moment is None else {**task.params, "step": moment}


class PairedTraining(Suite[PairedTrainingSettings]):
    name = "paired_training"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    # The others are recorded for other suites, too.
    generated = {task.env: task.workload for task in TASKS.values() if task.env not in RECIPES}  # noqa: RUF012

    def workloads(self, settings: PairedTrainingSettings) -> list[str]:
        return list(dict.fromkeys(task.env for task in settings.tasks))

    def peers(self) -> list[str]:
        return registry.training_arms()

    def launches(
        self, run: Run, settings: PairedTrainingSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        declared = self._turns_launch if settings.in_turns else self._training_launch
        return [
            declared(run, task, peer)
            for task in settings.tasks
            if task.env in workloads
            for peer in peers
            if peer in task.peers
        ]

    def _training_launch(self, run: Run, task: TrainingTask, peer: str) -> Launch:
        arm = registry.learner_class(peer)
        records = [
            record
            for name, moment in figures(task, arm)
            for record in self.declare(run, peer, task.env, params(task, moment), [name])
        ]
        options = {"task": task.name, "steps": task.steps, "every": task.every, "stored": task.stored}
        if task.target is not None:
            options["target"] = task.target
        return self._launch(f"{task.name} with {peer}", task, arm, records, options)

    def _turns_launch(self, run: Run, task: TrainingTask, peer: str) -> Launch:
        arm, task = registry.learner_class(peer), task.shortened
        records = self.declare(run, peer, task.env, params(task, None), [RELATIVE_SPEED])
        options = {"task": task.name, "kind": "turns"}
        return self._launch(f"{task.name} with {peer}, in turns", task, arm, records, options)

    def _launch(
        self,
        name: str,
        task: TrainingTask,
        arm: type[TrainingArm],
        records: list[Record],
        options: Mapping[str, object],
    ) -> Launch:
        if refusal := arm.refusal(task.learner):
            for record in records:  # no process is needed to find this out
                record.fail("skipped", refusal)
        limit = START_SECONDS + SECONDS_PER_STEP * task.steps
        return self.launch(name, records, options, seeded=True, least_limit=limit)


SUITE = PairedTraining()
