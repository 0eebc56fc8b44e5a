"""The options of `make apex`."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import fields
from pathlib import Path

from adapters import registry
from suites.training.settings import BadSetting, Settings

SETTINGS = "settings.json"


def _option(field: str) -> str:
    return "--" + {"peer": "buffer"}.get(field, field.replace("_", "-"))


def parse(description: str, arguments: list[str] | None) -> tuple[argparse.Namespace, Settings]:
    """Return the options and the settings of the training, which are those of the resumed one if there is one. Exits
    with status 2 if an option is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m suites.training.train", usage="%(prog)s [options]; --help lists them", description=description
    )
    for each in fields(Settings):
        kind = type(each.default)
        parser.add_argument(
            _option(each.name), dest=each.name, metavar=kind.__name__.upper(), type=kind, default=argparse.SUPPRESS,
            help=f"default: {each.default}",
        )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=10.0,
        help="at most, including the time before the training was resumed; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--target", type=float, help="score at which to stop; default: the environment's reward threshold"
    )
    parser.add_argument("--folder", type=Path, help="for checkpoints and logs; default: a new one in results/runs/")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0, help="default: %(default)s")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="continue the training in this folder")
    args = parser.parse_args(arguments)
    for name in ("minutes", "checkpoint_seconds"):
        if not getattr(args, name) > 0:  # NaN is not, either
            parser.error(f"{_option(name)} must be above 0, got {getattr(args, name):g}")
    if args.target is not None and math.isnan(args.target):
        parser.error("--target must be a number, got nan")
    given = {each.name: getattr(args, each.name) for each in fields(Settings) if hasattr(args, each.name)}
    try:
        settings = _stored(args.resume, given) if args.resume else Settings(**given)
        if args.resume and args.folder:
            raise BadSetting("folder", "cannot be chosen when a training is resumed")
        if settings.peer not in (usable := _usable()):
            raise BadSetting("peer", f"must be one of {', '.join(usable)}, got {settings.peer}")
    except BadSetting as error:
        parser.error(f"{_option(error.name)} {error.problem}")
    return args, settings


def _usable() -> list[str]:
    """Return the names of buffers that forked processes can share."""
    return [name for name in registry.together() if registry.adapter_class(name).start_method == "fork"]


def _stored(folder: Path, given: dict[str, object]) -> Settings:
    """Return the settings of the training in `folder`. Raises `BadSetting`, also if other ones are given."""
    if not (folder / SETTINGS).exists():
        raise BadSetting("resume", f"must be the folder of a training, and {folder} has no {SETTINGS}")
    try:
        settings = Settings(**json.loads((folder / SETTINGS).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise BadSetting(
            "resume", f"must be the folder of a training; {folder / SETTINGS} cannot be read: {error}"
        ) from None
    for name, value in given.items():
        if value != (kept := getattr(settings, name)):
            raise BadSetting(name, f"cannot change when a training is resumed: it is {kept}, got {value}")
    return settings
