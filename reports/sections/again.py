"""Reproduce this run: the commands that repeat the run."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass

from reports.figures.formatting import spoken_time
from reports.sections.section import Context, Part, Section
from results import Run


@dataclass(frozen=True)
class Again:
    run: Run
    started: str
    peers_option: str


def parts(context: Context) -> list[Part]:
    run = context.run
    return [
        Part("again", "again", "Reproduce this run", Again(run, spoken_time(run.started), peers_option(run.command)))
    ]


def peers_option(command: str) -> str:
    """For make: the peers that this command names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--peers")
    peers = parser.parse_known_args(shlex.split(command))[0].peers
    return f" PEERS={shlex.quote(peers)}" if peers else ""


SECTION = Section(parts)
