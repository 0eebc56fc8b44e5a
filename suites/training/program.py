"""The program behind `make apex`: from its options to its last line."""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import gymnasium

from adapters import registry
from adapters.base import Unavailable
from adapters.environments import NotInstalled
from suites.training import checkpoint, interrupt
from suites.training.display import Display
from suites.training.explorer import network_for
from suites.training.settings import Settings
from suites.training.supervisor import Failed, buffer_for, train

RUNS = Path(__file__).resolve().parents[2] / "results" / "runs"


def parse(description: str, arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m suites.training.train", description=description)
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


def run(description: str, arguments: list[str] | None) -> int:
    """Run the program; return its exit status."""
    args = parse(description, arguments)
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
    try:
        with buffer_for(settings) as adapter:
            outcome = train(
                settings,
                adapter,
                seconds=args.seconds,
                target=threshold if args.target is None else args.target,
                watch=display,
                interrupted=interrupt.received,
                folder=folder if saves else None,
                checkpoint_seconds=args.checkpoint_seconds,
                resume=bool(args.resume),
            )
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
    if interrupt.received() and not outcome.solved:
        print(f"interrupted; continue with --resume {folder}" if saves else "interrupted")
        return 130
    last = f"{outcome.evaluations[-1].score:.1f}" if outcome.evaluations else "none"
    print(
        f"{'solved' if outcome.solved else 'ended'} after {outcome.seconds:.0f} s: score {last}, "
        f"{outcome.transitions:,} transitions, {outcome.steps:,} learner steps, {outcome.restarts} restarts"
    )
    return 0
