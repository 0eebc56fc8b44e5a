"""Reproduce this run: the commands that repeat the run."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.formatting import spoken_time
from reports.sections.section import Context, Part, Section
from results import Run

DIRTY = "+dirty"


@dataclass(frozen=True)
class Again:
    run: Run
    started: str
    setup_options: str

    @property
    def commit(self) -> str:
        return self.run.revision.removesuffix(DIRTY)

    @property
    def is_dirty(self) -> bool:
        """Whether it was made with uncommitted changes."""
        return self.run.revision.endswith(DIRTY)


def parts(context: Context) -> list[Part]:
    run = context.run
    return [Part("again", "again", "Reproduce this run", Again(run, spoken_time(run.started), setup_options(run)))]


def peers_option(command: str) -> str:
    """Return the option of `make` that selects the peers of this command, or ""."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--peers")
    peers = parser.parse_known_args(shlex.split(command))[0].peers
    return f" PEERS={shlex.quote(peers)}" if peers else ""


def narrowed(command: str, peer: str, suites: Sequence[str]) -> str:
    """Return the command of a run with only this peer and these suites, and without its time budget."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--peers", "--suites", "--minutes"):
        parser.add_argument(option)
    kept = parser.parse_known_args(shlex.split(command))[1]
    return shlex.join([*kept, f"--peers={peer}", f"--suites={','.join(suites)}"])


def setup_options(run: Run) -> str:
    """Return the options of `make setup` that install what this run needs."""
    return f" PROFILE={shlex.quote(run.profile)}{peers_option(run.command)}"


SECTION = Section(parts)
