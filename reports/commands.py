"""The commands that repeat a run or a part of it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from results import Run


def peers_option(command: str) -> str:
    """Return the option of `make` that selects the peers of this command, or ""."""
    peers = _without(command, "--peers")[0].peers
    return f" PEERS={shlex.quote(peers)}" if peers else ""


def narrowed(command: str, peer: str, suites: Sequence[str]) -> str:
    """Return the command of a run with only this peer and these suites, and without its time budget."""
    kept = _without(command, "--peers", "--suites", "--minutes")[1]
    return shlex.join([*kept, f"--peers={peer}", f"--suites={','.join(suites)}"])


def setup_options(run: Run) -> str:
    """Return the options of `make setup` that install what this run needs."""
    return f" PROFILE={shlex.quote(run.profile)}{peers_option(run.command)}"


def _without(command: str, *options: str) -> tuple[argparse.Namespace, list[str]]:
    """Return the values of these options of a command, and its other words."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(option)
    return parser.parse_known_args(shlex.split(command))
