"""The program behind `make apex`: from its options to its last line."""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import gymnasium

from adapters.base import Adapter, Unavailable
from adapters.venvs import NotInstalled
from suites.apex_dqn import checkpoint, interrupt
from suites.apex_dqn.checkpoint import NotResumable
from suites.apex_dqn.display import Display
from suites.apex_dqn.options import SETTINGS
from suites.apex_dqn.processes import ProcessStarter
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.supervisor import Failed, TrainingOutcome, buffer_and_weights, on_this_machine, train
from suites.workloads.recipes import gymnasium_make

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "results" / "runs"
# Errors in the options, the environment, the folder or the checkpoint, which need no traceback.
TROUBLE = (
    ValueError, OverflowError, MemoryError, OSError, RuntimeError, ImportError, NotImplementedError, NotInstalled,
    Unavailable, NotResumable, gymnasium.error.Error,
)  # fmt: skip


@contextmanager
def _claimed(folder: Path, settings: TrainingSettings, resume: bool) -> Iterator[None]:
    """Create the folder and lock it. Raises ValueError if it belongs to another training run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another training run uses {folder}") from None
        if not resume:
            check_new(folder)
            (folder / SETTINGS).write_text(json.dumps(asdict(settings), indent=1))
        yield


def check_new(folder: Path) -> None:
    """Raise ValueError if the folder contains a training run."""
    if (folder / SETTINGS).exists() or checkpoint.every(folder):
        instead = f"; {_continue(folder)}" if checkpoint.every(folder) else ""
        raise ValueError(f"{folder} contains a training run: choose a different --folder{instead}")


def _continue(folder: Path, args: argparse.Namespace | None = None) -> str:
    """Return a hint on how to continue a training run with these options. The time limit includes the time that has
    already passed."""
    variables = {"RESUME": shlex.quote(_shown(folder))}
    if args:
        variables |= {"MINUTES": math.ceil(args.seconds / 60) + 10, "HOSTS": args.hosts, "ADDRESS": args.address}
    given = " ".join(f"{name}={value}" for name, value in variables.items() if value is not None)
    return f"to continue: make apex {given}"


def _shown(path: Path) -> str:
    """Return a path for a command, relative to the checkout if it is inside."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def check(args: argparse.Namespace, settings: TrainingSettings) -> None:
    """Raise one of `TROUBLE` if the training run is known to be impossible, before anything is started."""
    if args.resume:
        if not checkpoint.supported(settings.peer):
            raise ValueError(f"a training run with {settings.peer} cannot be resumed: its buffer cannot be saved")
        checkpoint.newest(args.resume)
    buffer_and_weights(settings)


def refuse(error: Exception, settings: TrainingSettings) -> int:
    """Print why the training run cannot begin; return the exit status."""
    cause = f"--env {settings.env} cannot be used: " if isinstance(error, gymnasium.error.Error) else ""
    print(f"{cause}{error}", file=sys.stderr)
    return 2


def run(args: argparse.Namespace, settings: TrainingSettings) -> int:
    """Run the program; return its exit status."""
    saves, resume = checkpoint.supported(settings.peer), args.resume is not None
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    folder = args.resume or args.folder or RUNS / f"apex-{settings.env.replace('/', '-')}-{now}"

    def hint() -> str:
        if not saves:
            return ""
        return f"; {_continue(folder, args)}" if checkpoint.every(folder) else "; there is no checkpoint"

    with ExitStack() as stack:
        try:
            check(args, settings)
            adapter, starter = stack.enter_context(_where(args, settings))
            if interrupt.received():
                print("interrupted before the training began")
                return 130
            stack.enter_context(_claimed(folder, settings, resume))
        except TROUBLE as error:
            return refuse(error, settings)
        what = "checkpoints and logs are" if saves else f"{settings.peer} cannot be saved; logs are"
        print(f"{what} in {folder}", flush=True)
        tensorboard = Path(sys.executable).with_name("tensorboard")
        print(f"plots: {_shown(tensorboard)} --logdir {shlex.quote(_shown(folder))}", flush=True)
        target = _threshold(settings) if args.target is None else args.target
        try:
            outcome = _train(args, settings, adapter, starter, folder if saves else None, target, Display(folder))
        except NotResumable as error:
            print(error, file=sys.stderr)
            return 1
        except (Failed, OSError, MemoryError) as error:
            print(f"{error}{hint()}", file=sys.stderr)
            return 1
    interrupted = interrupt.received() and not outcome.solved
    last = f"{outcome.evaluations[-1].score:.1f}" if outcome.evaluations else "none"
    goal = "" if target is None else f" (target {target:g})"
    print(
        f"{'solved' if outcome.solved else 'interrupted' if interrupted else 'ended'} after {outcome.seconds:.0f} s: "
        f"score {last}{goal}, {outcome.transitions:,} transitions, {outcome.steps:,} learner steps, "
        f"{outcome.restarts} restarts{'' if outcome.solved else hint()}"
    )
    return 130 if interrupted else 0


def _where(
    args: argparse.Namespace, settings: TrainingSettings
) -> AbstractContextManager[tuple[Adapter, ProcessStarter]]:
    if args.address is None:
        return on_this_machine(settings)
    from suites.apex_dqn.cluster.processes import on_cluster  # needs Ray

    return on_cluster(settings, args.address)


def _train(
    args: argparse.Namespace,
    settings: TrainingSettings,
    adapter: Adapter,
    starter: ProcessStarter,
    folder: Path | None,
    target: float | None,
    display: Display,
) -> TrainingOutcome:
    try:
        return train(
            settings,
            adapter,
            starter,
            seconds=args.seconds,
            target=target,
            watch=display,
            interrupted=interrupt.received,
            folder=folder,
            checkpoint_seconds=args.checkpoint_seconds,
            resume=args.resume is not None,
        )
    finally:
        display.close()


def _threshold(settings: TrainingSettings) -> float | None:
    """Return the score at which the environment counts as solved."""
    env = gymnasium_make(settings.env)
    env.close()
    return env.spec.reward_threshold if env.spec else None
