"""The supervisor: starts a training run's processes, restarts explorers and evaluators that have died, and ends all
processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from adapters import registry
from adapters.base import Adapter, Spec
from suites.apex_dqn.checkpoint import NotResumable
from suites.apex_dqn.evaluator import evaluate
from suites.apex_dqn.explorer import explore, network_for
from suites.apex_dqn.learner import learn
from suites.apex_dqn.nstep import fields_of
from suites.apex_dqn.processes import Forked, ProcessStarter, TrainingProcess
from suites.apex_dqn.progress import ENDED, Evaluation
from suites.apex_dqn.settings import TrainingSettings
from suites.workloads.recipes import gymnasium_make

LOOK_SECONDS = 0.1
END_SECONDS = 60.0  # for processes to end by themselves, including a last checkpoint
EXPLORER_SECONDS = 10.0  # for explorers to end; afterwards they are killed, so that the learner need not wait for them
LIVES = 3  # if an explorer dies this often without adding a transition, or an evaluator without a score, the run fails


class Failed(Exception):  # noqa: N818 (its name is the outcome)
    """A process that is indispensable to the training run has ended."""


@dataclass(frozen=True)
class TrainingOutcome:
    """The result of a training run."""

    seconds: float
    steps: int
    transitions: int
    evaluations: list[Evaluation]
    restarts: int
    solved: bool


class Supervisor:
    """The processes of one training run."""

    def __init__(self, settings: TrainingSettings, adapter: Adapter, starter: ProcessStarter) -> None:
        self.settings, self.adapter, self.starter = settings, adapter, starter
        self.progress = starter.progress
        self.lives = [0] * settings.explorers
        self._barren = [0] * settings.explorers  # deaths in a row without a transition in between
        self._known = [0] * settings.explorers  # transitions at the last death
        self._evaluator_barren = self._evaluated = 0  # deaths in a row without a score; scores at the last death
        self.evaluations: list[Evaluation] = []

    def start(self, folder: Path | None, checkpoint_seconds: float, resume: bool) -> None:
        shared = (self.settings, self.adapter, self.starter.weights, self.progress)
        self.learner = self.starter.start(learn, *shared, folder, checkpoint_seconds, resume, beside=True)
        self._start_evaluator()
        self.explorers = [self._start_explorer(number) for number in range(self.settings.explorers)]

    def _start_evaluator(self) -> None:
        self.evaluator = self.starter.start(evaluate, self.settings, self.starter.weights, self.progress)

    def _start_explorer(self, number: int) -> TrainingProcess:
        shared = (self.settings, self.adapter, self.starter.weights, self.progress)
        return self.starter.start(explore, number, self.lives[number], *shared)

    def look(self) -> None:
        """Restart dead explorers and a dead evaluator, and collect evaluations. Raises `Failed` if the training run
        cannot continue, and `NotResumable` if its checkpoint cannot be resumed."""
        while self.progress.evaluations.poll():
            self.evaluations.append(self.progress.evaluations.recv())
        if not self.learner.is_alive():
            raise self._end_of_learner()
        if not self.evaluator.is_alive():
            ended = len(self.evaluations)
            self._evaluator_barren = 0 if ended > self._evaluated else self._evaluator_barren + 1
            self._evaluated = ended
            if self._evaluator_barren == LIVES:
                raise Failed(
                    f"the evaluator died {LIVES} times without a score, the last time with exit code "
                    f"{self.evaluator.exitcode}"
                )
            self._start_evaluator()
        for number, process in enumerate(self.explorers):
            if process.is_alive():
                continue
            added = self.progress.transitions[number]
            self._barren[number] = 0 if added > self._known[number] else self._barren[number] + 1
            self._known[number] = added
            if self._barren[number] == LIVES:
                raise Failed(
                    f"explorer {number} died {LIVES} times without adding a transition, the last time with exit code "
                    f"{process.exitcode}"
                )
            self.lives[number] += 1
            self.explorers[number] = self._start_explorer(number)

    @property
    def restarts(self) -> int:
        return sum(self.lives)

    def end(self) -> None:
        """End every process. Raises `Failed` if the learner did not end by itself."""
        self.progress.stop.value = True
        began = time.monotonic()
        while self.learner.is_alive() and time.monotonic() < began + END_SECONDS:
            for number, process in enumerate(self.explorers):
                if process.is_alive() and time.monotonic() > began + EXPLORER_SECONDS:
                    print(f"explorer {number} did not end within {EXPLORER_SECONDS:.0f} s: killed", file=sys.stderr)
                    process.kill()
                    process.join()
                if not process.is_alive():  # the learner need not wait for it
                    self.progress.paused[number] = ENDED
            self.learner.join(LOOK_SECONDS)
        if self.learner.is_alive():
            raise Failed(f"the learner did not end within {END_SECONDS:.0f} s")
        if self.learner.exitcode:
            raise self._end_of_learner()

    def _end_of_learner(self) -> Exception:
        if reason := self.progress.reason.value:
            return NotResumable(reason.decode(errors="replace"))
        return Failed(f"the learner died with exit code {self.learner.exitcode}")


def buffer_and_weights(settings: TrainingSettings) -> tuple[Spec, int]:
    """Return the specification of the buffer and the network's number of weights. Raises ValueError if DQN cannot act
    in the environment."""
    env = gymnasium_make(settings.env)
    weights = sum(each.numel() for each in network_for(env, settings).parameters())
    spec = Spec(
        settings.capacity,
        fields_of(env.observation_space.shape or ()),
        prioritized=True,
        alpha=settings.alpha,
        beta=settings.beta,
        seed=settings.seed,
    )
    env.close()
    return spec, weights


@contextmanager
def on_this_machine(settings: TrainingSettings) -> Iterator[tuple[Adapter, ProcessStarter]]:
    """Make the buffer and the starter of processes; close the buffer at the end. Raises ValueError if DQN cannot act in
    the environment, and the buffer's own exceptions if it cannot be created."""
    spec, weights = buffer_and_weights(settings)
    with (
        closing(registry.adapter_class(settings.peer).make(spec)) as adapter,
        closing(Forked(settings.explorers, weights)) as starter,
    ):
        yield adapter, starter


def train(
    settings: TrainingSettings,
    adapter: Adapter,
    starter: ProcessStarter,
    *,
    seconds: float,
    target: float | None,
    watch: Callable[[Supervisor], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    folder: Path | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> TrainingOutcome:
    """Train until an evaluation reaches `target`, for `seconds` or until `interrupted`; `watch` is called about ten
    times per second. Checkpoints are written to `folder`, unless it is None.

    Raises `Failed`, and `NotResumable`. However the training run ends, it leaves no process behind.
    """
    supervisor = Supervisor(settings, adapter, starter)
    progress = supervisor.progress
    solved = False
    try:
        supervisor.start(folder, checkpoint_seconds, resume)
        while not (solved or interrupted()) and progress.seconds < seconds:
            supervisor.look()
            watch(supervisor)
            solved = target is not None and any(each.score >= target for each in supervisor.evaluations)
            time.sleep(LOOK_SECONDS)
        took = progress.seconds
        supervisor.end()
    except Failed:
        with suppress(Failed):
            supervisor.end()  # which writes a last checkpoint if the learner is alive
        raise
    finally:
        starter.close()
    return TrainingOutcome(
        took,
        progress.steps.value,
        sum(progress.transitions),
        supervisor.evaluations,
        supervisor.restarts,
        solved,
    )
