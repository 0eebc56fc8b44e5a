"""One training run of a library's own learner, with one replay buffer.

python -m suites.paired_training.measure --peer NAME --task NAME [--steps N] [--every N] [--stored ROWS]
       [--target SCORE] [--kind training|turns] [--seed 0]

Before the training run, random play fills buffers of the same kind: one whose samples are compared with the added rows,
and a small and a large one whose memory is measured. The training run itself has a separate process without their
memory.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adapters import registry
from adapters.training_arm import TrainingArm
from suites.paired_training.playing import add, check_answers, make_env, make_model, play
from suites.paired_training.spec import REFERENCE, RELATIVE_SPEED, SCORE, SUITE, WEIGHTS, figures, params
from suites.paired_training.tasks import TASKS, TrainingTask
from suites.paired_training.turns import relative_speed
from suites.runner import entry
from suites.runner.memory_use import in_use
from suites.runner.results import NotMeasured, PeerTrouble, Result, failure

SMALLER = 16  # the ratio of the two capacities whose memory is compared
TIMED = ("add", "sample", "update_priorities")
clock = time.perf_counter


@dataclass
class TrainingProgress:
    """The progress of a training run, which its library reports by calling this object after each step."""

    task: TrainingTask
    returns: list[tuple[int, float]] = field(default_factory=list)  # step at which an episode ended, return
    in_buffer: float = 0.0  # seconds
    begin: tuple[int, float, float] | None = None  # step, time and seconds in the buffer when timing began

    def __call__(self, names: Mapping[str, Any], _globals: Mapping[str, Any]) -> bool:
        step = names["self"].num_timesteps
        self.returns += [(step, float(info["episode"]["r"])) for info in names["infos"] if "episode" in info]
        if self.begin is None and step >= self.task.timed_from:
            self.begin = step, clock(), self.in_buffer
        return True

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of a buffer so that its time is counted."""

        def call(*args: Any, **options: Any) -> Any:
            begin = clock()
            try:
                return method(*args, **options)
            finally:
                self.in_buffer += clock() - begin

        return call

    def speed(self, last: int) -> tuple[float, float]:
        """Return steps per second and the percentage of time in the buffer, for a training run that ended at `last`."""
        assert self.begin is not None
        first, begin, in_buffer = self.begin
        seconds = clock() - begin
        return (last - first) / seconds, 100 * (self.in_buffer - in_buffer) / seconds

    def score(self, moment: int) -> float | None:
        """Return the mean return of the last episodes before this step, or None if no episode has ended."""
        ended = [value for step, value in self.returns if step <= moment][-self.task.episodes :]
        return float(np.mean(ended)) if ended else None

    def solved_at(self) -> int | None:
        """Return the step at which the score reached the target, or None."""
        target, count = self.task.target, self.task.episodes
        for last in range(count, len(self.returns) + 1):
            mean = np.mean([value for _, value in self.returns[last - count : last]])
            if target is not None and mean >= target:
                return self.returns[last - 1][0]
        return None


def bytes_per_row(task: TrainingTask, arm: type[TrainingArm], seed: int) -> float:
    """Return how much a process grows per row of a full buffer: the difference between a large and a small buffer, each
    filled one and a half times.

    The rows are played beforehand, since some environments leak memory. Nothing is sampled, because some buffers keep
    their last sample, which is smaller if the buffer is small.
    """
    small = task.stored // SMALLER
    env = make_env(task, seed)
    rows = play(env, seed, filling(task.stored))
    used = {}
    for capacity in (small, small, task.stored):  # the first one takes memory that later ones reuse
        buffer = make_model(task, arm, env, seed, capacity).replay_buffer
        for row in itertools.islice(rows, filling(capacity)):
            add(buffer, row)
        used[capacity] = in_use()
        if buffer.size() != capacity:
            raise PeerTrouble(f"a full buffer of {capacity} rows reports a size of {buffer.size()}")
        del buffer
    env.close()
    if used[task.stored] <= used[small]:
        raise PeerTrouble(f"{task.stored} rows are too few: they use no more memory than {small}")
    return (used[task.stored] - used[small]) / (task.stored - small)


def filling(capacity: int) -> int:
    """Return the number of rows that fill a buffer one and a half times."""
    return capacity * 3 // 2


def train(task: TrainingTask, arm: type[TrainingArm], seed: int) -> Iterator[tuple[str, int | None, float | None]]:
    """Yield the benchmark, moment and value of each figure of one training run."""
    env, progress = make_env(task, seed), TrainingProgress(task)
    model = make_model(task, arm, env, seed)
    buffer = model.replay_buffer
    for name in TIMED:
        if hasattr(buffer, name):
            setattr(buffer, name, progress.timed(getattr(buffer, name)))
    model.learn(task.steps, callback=progress)
    speed, share = progress.speed(model.num_timesteps)
    env.close()
    expected = min(model.num_timesteps, model.buffer_size)
    if buffer.size() != expected:
        raise PeerTrouble(f"its buffer has {buffer.size()} rows after {model.num_timesteps} steps, not {expected}")
    yield "steps", None, speed
    yield "in_buffer", None, share
    if task.target is not None:
        solved = progress.solved_at()
        yield "solved", None, float(solved is not None)
        yield "needed", None, float(solved or model.num_timesteps)
    if arm.exact or arm.name == REFERENCE:
        weights = (value.numpy().tobytes() for value in model.policy.state_dict().values())
        yield WEIGHTS, None, float(zlib.crc32(b"".join(weights)))
    for moment in task.moments:
        yield SCORE, moment, progress.score(moment)


def measure(peer: str, task: TrainingTask, seed: int) -> Iterator[Result]:
    """Yield the figures of one launch."""
    arm = registry.learner_class(peer)
    left = figures(task, arm)

    def result(name: str, moment: int | None, value: float | None) -> Result:
        left.remove((name, moment))
        if value is None:
            outcome, reason = failure(NotMeasured(f"no episode ended in the first {moment} steps"))
            return Result(name, peer, task.env, params(task, moment), outcome, None, reason)
        return Result(name, peer, task.env, params(task, moment), "ok", value)

    try:
        arm.version()
        import torch

        torch.set_num_threads(1)
        check_answers(task, arm, seed)
        yield result("memory", None, bytes_per_row(task, arm, seed))
        for figure in train(task, arm, seed):
            yield result(*figure)
    except Exception as error:
        outcome, reason = failure(error)
        for name, moment in left:
            yield Result(name, peer, task.env, params(task, moment), outcome, None, reason)


def measure_in_turns(peer: str, task: TrainingTask, seed: int) -> Iterator[Result]:
    """Yield the relative speed, from a training run that takes turns with one that has the library's own buffer."""
    arm = registry.learner_class(peer)
    try:
        arm.version()
        result = Result(RELATIVE_SPEED, peer, task.env, task.params, "ok", relative_speed(task, arm, seed))
    except Exception as error:
        outcome, reason = failure(error)
        result = Result(RELATIVE_SPEED, peer, task.env, task.params, outcome, None, reason)
    yield result


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", required=True, choices=TASKS, metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--steps", type=int, help="default: the task's")
    parser.add_argument("--every", type=int, help="steps between two scores; default: the task's")
    parser.add_argument("--stored", type=int, help="rows of the buffer whose memory is measured; default: the task's")
    parser.add_argument("--target", type=float, help="default: none")
    parser.add_argument(
        "--kind", choices=("training", "turns"), default="training", help="turns: only the relative speed is measured"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def task_of(args: argparse.Namespace) -> TrainingTask:
    task = TASKS[args.task].shortened if args.kind == "turns" else TASKS[args.task]
    given = {name: value for name in ("steps", "every", "stored") if (value := getattr(args, name)) is not None}
    return replace(task, target=args.target, **given)


def main() -> int:
    def measured(args: argparse.Namespace) -> Iterator[Result]:
        return (measure_in_turns if args.kind == "turns" else measure)(args.peer, task_of(args), args.seed)

    return entry.main(SUITE, __doc__, options, measured)


if __name__ == "__main__":
    sys.exit(main())
