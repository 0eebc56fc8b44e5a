"""The options of `make apex`."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, fields
from pathlib import Path

from adapters import registry
from suites.apex_dqn.settings import BadSetting, TrainingSettings

SETTINGS = "settings.json"
MOST_HOSTS = 16  # emulated on one machine
ON_HOSTS = ["cpprb_impl[Ray]", "cpprb_impl[Ray, unencrypted]"]  # buffers over several hosts; the first is the default


def _option(field: str) -> str:
    return "--" + {"peer": "buffer"}.get(field, field.replace("_", "-"))


def parse(description: str, arguments: list[str] | None) -> tuple[argparse.Namespace, TrainingSettings]:
    """Return the options, and the settings of the new or resumed training run. Exits with status 2 if an option is
    invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m suites.apex_dqn.train", usage="%(prog)s [options]; --help lists them", description=description
    )
    for each in fields(TrainingSettings):
        kind = type(each.default)
        parser.add_argument(
            _option(each.name), dest=each.name, metavar=kind.__name__.upper(), type=kind, default=argparse.SUPPRESS,
            help=f"default: {each.default}",
        )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=10.0,
        help="at most, including the time before the run was resumed; default: %(default)s",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, help="the same in seconds")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--address", help="run on the Ray cluster at this address, such as auto")
    where.add_argument(
        "--hosts",
        type=int,
        help="run on this many hosts emulated on this machine (Linux, root), the first for the learner",
    )
    parser.add_argument(
        "--lose-host", type=float, metavar="SECONDS", help="turn off the last host's power after this many seconds"
    )
    parser.add_argument(
        "--target", type=float, help="score at which to stop; default: the environment's reward threshold"
    )
    parser.add_argument("--folder", type=Path, help="for checkpoints and logs; default: a new one in results/runs/")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="continue the training run in this folder")
    args = parser.parse_args(arguments)
    for name in ("minutes", "seconds", "checkpoint_seconds", "lose_host"):
        value = getattr(args, name)
        if value is not None and not value > 0:  # true for NaN, too
            parser.error(f"{_option(name)} must be above 0, got {value:g}")
    if args.seconds is None:
        args.seconds = 60 * args.minutes
    if args.hosts is not None and not 1 <= args.hosts <= MOST_HOSTS:
        parser.error(f"--hosts must be from 1 to {MOST_HOSTS}, got {args.hosts}")
    if args.lose_host is not None and (args.hosts or 0) < 3:
        parser.error("--lose-host needs --hosts 3 or more: the first has the learner, and another must remain")
    if args.lose_host is not None and args.lose_host >= args.seconds:
        parser.error(f"--lose-host must be below {args.seconds:g}, when the training ends, got {args.lose_host:g}")
    if args.target is not None and math.isnan(args.target):
        parser.error("--target must be a number, got nan")
    given = {each.name: getattr(args, each.name) for each in fields(TrainingSettings) if hasattr(args, each.name)}
    on_hosts = args.hosts is not None or args.address is not None
    try:
        if on_hosts and not args.resume:
            given.setdefault("peer", ON_HOSTS[0])
        settings = _stored(args.resume, given) if args.resume else TrainingSettings(**given)
        if args.resume and args.folder:
            raise BadSetting("folder", "cannot be chosen when a training run is resumed")
        if settings.peer not in (usable := ON_HOSTS if on_hosts else _usable()):
            raise BadSetting("peer", f"must be one of {', '.join(usable)}, got {settings.peer}")
    except BadSetting as error:
        parser.error(f"{_option(error.name)} {error.problem}")
    return args, settings


def arguments_for(args: argparse.Namespace, settings: TrainingSettings, address: str) -> list[str]:
    """Return the arguments for the same training run on the Ray cluster at `address`."""
    chosen = {_option(name): getattr(args, name) for name in ("seconds", "target", "checkpoint_seconds", "folder")}
    if args.resume:
        chosen["--resume"] = args.resume
    else:
        chosen |= {_option(name): value for name, value in asdict(settings).items()}
    return [f"--address={address}", *(f"{name}={value}" for name, value in chosen.items() if value is not None)]


def _usable() -> list[str]:
    """Return the names of buffers that forked processes can share."""
    return [name for name in registry.together() if registry.adapter_class(name).start_method == "fork"]


def _stored(folder: Path, given: dict[str, object]) -> TrainingSettings:
    """Return the settings of the training run in `folder`. Raises `BadSetting` if they cannot be read, or if the given
    options differ from them."""
    if not (folder / SETTINGS).exists():
        raise BadSetting("resume", f"must be the folder of a training run, but {folder} has no {SETTINGS}")
    try:
        settings = TrainingSettings(**json.loads((folder / SETTINGS).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise BadSetting(
            "resume", f"must be the folder of a training run; {folder / SETTINGS} cannot be read: {error}"
        ) from None
    for name, value in given.items():
        if value != (kept := getattr(settings, name)):
            raise BadSetting(name, f"cannot change when a training run is resumed: it is {kept}, got {value}")
    return settings
