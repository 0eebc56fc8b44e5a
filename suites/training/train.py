"""Ape-X (Horgan et al. 2018): explorers, one learner with a dueling double DQN, and one shared prioritized buffer.

    python -m suites.training.train [--env CartPole-v1] [--explorers 4] [--peer NAME] [--seconds S] ...
    python -m suites.training.train --resume FOLDER

This process only supervises: it starts an explorer again that has died, prints the progress, and writes TensorBoard's
logs. The training ends when the score reaches the environment's reward threshold, after `--seconds`, or with Ctrl-C; a
checkpoint is written first, if the buffer can be saved. Exit status: 0 if the target was reached or the time is up, 1
if the learner died or an explorer cannot run, 2 for bad arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO

import gymnasium

from adapters import registry
from adapters.base import Adapter, Spec, Unavailable
from adapters.child_process import exit_with_parent
from adapters.environments import NotInstalled
from suites.training import checkpoint
from suites.training.evaluator import evaluate
from suites.training.explorer import explore, network_for
from suites.training.learner import learn
from suites.training.nstep import fields_of
from suites.training.progress import ENDED, Evaluation, Progress
from suites.training.settings import Settings
from suites.training.weights import SharedWeights

LOOK_SECONDS = 0.1
END_SECONDS = 60.0  # for processes to end by themselves, including a last checkpoint
LIVES = 3  # an explorer that dies so often without adding a transition, or an evaluator without a score, cannot run
RUNS = Path(__file__).resolve().parents[2] / "results" / "runs"


class Failed(Exception):  # noqa: N818 (its name is the outcome)
    """A process ended that the training cannot do without."""


@dataclass(frozen=True)
class Outcome:
    """What a training reached."""

    seconds: float
    steps: int
    transitions: int
    evaluations: list[Evaluation]
    restarts: int
    solved: bool


def _run(parent: int, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    exit_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor ends its children; Ctrl-C reaches all
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    work(*args)


class Supervisor:
    """The processes of one training."""

    def __init__(
        self,
        settings: Settings,
        adapter: Adapter,
        folder: Path | None = None,
        checkpoint_seconds: float = 60.0,
        resume: bool = False,
    ) -> None:
        self.settings, self.adapter = settings, adapter
        self._context, self._pid = multiprocessing.get_context("fork"), os.getpid()
        env = gymnasium.make(settings.env)
        size = sum(each.numel() for each in network_for(env, settings).parameters())
        env.close()
        self.weights, self.progress = SharedWeights(size), Progress(settings.explorers)
        shared = (settings, adapter, self.weights, self.progress)
        self.learner = self._start(learn, *shared, folder, checkpoint_seconds, resume)
        self.evaluator = self._start(evaluate, settings, self.weights, self.progress)
        self.explorers = [self._start(explore, number, 0, *shared) for number in range(settings.explorers)]
        self.lives = [0] * settings.explorers
        self._barren = [0] * settings.explorers  # deaths in a row without a transition in between
        self._known = [0] * settings.explorers  # transitions at the last death
        self._evaluator_barren = self._evaluated = 0  # its deaths in a row without a score, and scores at the last one
        self.evaluations: list[Evaluation] = []

    def _start(self, work: Callable[..., None], *args: Any) -> BaseProcess:
        process = self._context.Process(target=_run, args=(self._pid, work, args), daemon=True)
        process.start()
        return process

    def look(self) -> None:
        """Restart dead explorers and a dead evaluator, and collect evaluations. Raises `Failed` if the training cannot
        continue."""
        if not self.learner.is_alive():
            if reason := self.progress.reason.value:
                raise checkpoint.NotResumable(reason.decode(errors="replace"))
            raise Failed(f"the learner died with exit code {self.learner.exitcode}")
        if not self.evaluator.is_alive():
            ended = len(self.evaluations)
            self._evaluator_barren = 0 if ended > self._evaluated else self._evaluator_barren + 1
            self._evaluated = ended
            if self._evaluator_barren == LIVES:
                raise Failed(
                    f"the evaluator died {LIVES} times without a score, the last time with exit code "
                    f"{self.evaluator.exitcode}"
                )
            self.evaluator = self._start(evaluate, self.settings, self.weights, self.progress)
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
            shared = (self.settings, self.adapter, self.weights, self.progress)
            self.explorers[number] = self._start(explore, number, self.lives[number], *shared)
        while self.progress.evaluations.poll():
            self.evaluations.append(self.progress.evaluations.recv())

    @property
    def restarts(self) -> int:
        return sum(self.lives)

    def end(self) -> bool:
        """End every process; return whether the learner ended by itself."""
        self.progress.stop.value = True
        deadline = time.monotonic() + END_SECONDS
        while self.learner.is_alive() and time.monotonic() < deadline:
            for number, process in enumerate(self.explorers):
                if not process.is_alive():  # the learner need not wait for it
                    self.progress.paused[number] = ENDED
            self.learner.join(LOOK_SECONDS)
        for process in (self.learner, self.evaluator, *self.explorers):
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.progress.close()
        self.weights.close()
        return self.learner.exitcode == 0


def train(
    settings: Settings,
    *,
    seconds: float,
    target: float | None,
    watch: Callable[[Supervisor], None] = lambda _: None,
    folder: Path | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> Outcome:
    """Train until an evaluation reaches `target` or for `seconds`; `watch` is called about ten times per second.

    Raises `Failed`, `NotResumable`, and ValueError if DQN cannot act in the environment. No process remains, however it
    ends.
    """
    env = gymnasium.make(settings.env)
    network_for(env, settings)
    spec = Spec(
        settings.capacity,
        fields_of(env.observation_space.shape or ()),
        prioritized=True,
        alpha=settings.alpha,
        beta=settings.beta,
        seed=settings.seed,
    )
    env.close()
    adapter = registry.adapter_class(settings.peer).make(spec)
    try:
        supervisor = Supervisor(settings, adapter, folder, checkpoint_seconds, resume)
        progress = supervisor.progress
        solved = False
        try:
            while not solved and progress.seconds < seconds:
                supervisor.look()
                watch(supervisor)
                solved = target is not None and any(each.score >= target for each in supervisor.evaluations)
                time.sleep(LOOK_SECONDS)
            took = progress.seconds
        finally:
            ended = supervisor.end()
        if not ended:
            raise Failed(f"the learner ended with exit code {supervisor.learner.exitcode}")
        return Outcome(
            took,
            progress.steps.value,
            sum(progress.transitions),
            supervisor.evaluations,
            supervisor.restarts,
            solved,
        )
    finally:
        adapter.close()


class Display:
    """The progress line, and TensorBoard's logs."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter
        from tqdm import tqdm

        self.writer = SummaryWriter(str(folder))
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(bar_format="{desc}", disable=not self.terminal)
        self.every = 1.0 if self.terminal else 5.0
        self.at, self.steps, self.transitions, self.shown = 0.0, 0, 0, 0

    def __call__(self, now: Supervisor) -> None:
        progress = now.progress
        for each in now.evaluations[self.shown :]:
            self.writer.add_scalar("evaluation/mean return", each.score, each.steps)
        self.shown = len(now.evaluations)
        seconds = progress.seconds
        if seconds < self.at + self.every:
            return
        steps, transitions = progress.steps.value, sum(progress.transitions)
        took = seconds - self.at
        rates = (transitions - self.transitions) / took, (steps - self.steps) / took
        first = not self.at
        self.at, self.steps, self.transitions = seconds, steps, transitions
        score = f"{now.evaluations[-1].score:.1f}" if now.evaluations else "none yet"
        line = (
            f"{seconds:5.0f} s  score {score}  {rates[0]:,.0f} transitions/s  {rates[1]:,.0f} learner steps/s  "
            f"{transitions:,} transitions  {steps:,} steps"
        ) + (f"  {now.restarts} explorers restarted" if now.restarts else "")
        if self.terminal:
            self.bar.set_description_str(line)
        else:
            print(line, flush=True)
        if first:  # the rates since the start would include start-up
            return
        for name, value in (
            ("speed/transitions per second", rates[0]),
            ("speed/learner steps per second", rates[1]),
            ("learner/mean absolute TD error", progress.error.value),
            ("explorers/mean return of last episodes", sum(progress.last_return) / len(progress.last_return)),
            ("explorers/restarts", now.restarts),
        ):
            self.writer.add_scalar(name, value, steps)

    def close(self) -> None:
        self.bar.close()
        self.writer.close()


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m suites.training.train", description=__doc__.partition("\n")[0])
    for each in fields(Settings):
        option = f"--{each.name.replace('_', '-')}"
        parser.add_argument(option, type=type(each.default), default=each.default, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=600.0,
        help="at most, including the time before the training was resumed; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--target", type=float, help="score at which to stop; default: the environment's reward threshold"
    )
    parser.add_argument("--folder", type=Path, help="for checkpoints and logs; default: a new one in results/runs/")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="continue the training in this folder")
    args = parser.parse_args(arguments)
    if args.peer not in registry.together():
        known = ", ".join(registry.together())
        parser.error(f"--peer must be a buffer that processes share, got {args.peer}; known are {known}")
    if registry.adapter_class(args.peer).start_method != "fork":
        parser.error(f"--peer must be a buffer that forked processes can use, got {args.peer}")
    if args.resume and not (args.resume / "settings.json").exists():
        parser.error(f"--resume must be the folder of a training, and {args.resume} has no settings.json")
    for name in (each.name for each in fields(Settings) if type(each.default) is int and each.name != "seed"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    if args.seed < 0:
        parser.error(f"--seed must be at least 0, got {args.seed}")
    if not args.seconds > 0:
        parser.error(f"--seconds must be above 0, got {args.seconds:g}")
    return args


def _threshold(settings: Settings) -> float | None:
    """Return the score at which the environment counts as solved. Raises what makes a training in it impossible."""
    env = gymnasium.make(settings.env)  # which imports the module of "module:Env-v0", too
    try:
        network_for(env, settings)
        return env.spec.reward_threshold if env.spec else None
    finally:
        env.close()


def _claim(folder: Path, is_new: bool) -> TextIO:
    """Make the folder, and lock it while the returned file is open. Raises OSError if another training uses it."""
    folder.mkdir(parents=True, exist_ok=not is_new)
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise OSError(f"another training uses {folder}") from None
    return lock


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    if args.resume:
        folder, settings = args.resume, Settings(**json.loads((args.resume / "settings.json").read_text()))
    else:
        settings = Settings(**{each.name: getattr(args, each.name) for each in fields(Settings)})
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        folder = args.folder or RUNS / f"apex-{settings.env.replace('/', '-')}-{now}"
    saves = checkpoint.supported(settings.peer)
    try:
        threshold = _threshold(settings)
        if args.resume and not saves:
            raise ValueError(f"a training with {settings.peer} cannot be resumed: its buffer cannot be saved")
        if args.resume:
            checkpoint.newest(folder)
        lock = _claim(folder, is_new=not (args.folder or args.resume))
    except gymnasium.error.Error as error:
        print(f"unknown environment: {error}", file=sys.stderr)
        return 2
    except (ValueError, ImportError, OSError, checkpoint.NotResumable) as error:
        print(error, file=sys.stderr)
        return 2
    if not args.resume:
        (folder / "settings.json").write_text(json.dumps(asdict(settings), indent=1))
    print(
        f"checkpoints and logs are in {folder}" if saves else f"logs are in {folder}; {settings.peer} cannot be saved"
    )
    display = Display(folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcome = train(
            settings,
            seconds=args.seconds,
            target=threshold if args.target is None else args.target,
            watch=display,
            folder=folder if saves else None,
            checkpoint_seconds=args.checkpoint_seconds,
            resume=bool(args.resume),
        )
    except KeyboardInterrupt:
        print(f"\ninterrupted; continue with --resume {folder}" if saves else "\ninterrupted")
        return 130
    except checkpoint.NotResumable as error:
        print(error, file=sys.stderr)
        return 1
    except (Failed, NotInstalled, Unavailable, ValueError) as error:
        hint = f"; continue with --resume {folder}" if saves and any(folder.glob("checkpoint-*")) else ""
        print(f"{error}{hint}", file=sys.stderr)
        return 1
    finally:
        display.close()
        lock.close()
    last = f"{outcome.evaluations[-1].score:.1f}" if outcome.evaluations else "none"
    print(
        f"{'solved' if outcome.solved else 'ended'} after {outcome.seconds:.0f} s: score {last}, "
        f"{outcome.transitions:,} transitions, {outcome.steps:,} learner steps, {outcome.restarts} restarts"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
