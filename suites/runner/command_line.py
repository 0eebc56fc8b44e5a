"""The options of `python -m suites.run`, and which parts of each suite they select."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapters import external, registry
from results.record import Run
from results.suites import Kind, suite_of
from suites import SUITES, suite_named, workloads
from suites.runner.needs import SuiteLaunches
from suites.runner.profiles import PROFILES
from suites.suite import Suite, SuiteSettings
from suites.workloads import user_workload_file
from suites.workloads.user_workload import BadWorkload, UserWorkload, of_environment

LEAST_MINUTES = 1.0  # with less, hardly any launch would fit into the time budget
PEERS_HELP = f"default: {', '.join(registry.PEERS)}; {registry.ALL} for all; a name includes its variants"


@dataclass(frozen=True)
class SuiteChoice:
    """What is measured in one suite."""

    suite: Suite
    settings: SuiteSettings
    peers: Sequence[str]
    workloads: Sequence[str]
    named: Collection[str] = ()  # peers that were asked for by name

    @property
    def recordings(self) -> dict[str, int]:
        """Workload -> number of rows that launches need, if that is more than its usual recording."""
        wanted = self.suite.recordings(self.settings)
        return {name: wanted[name] for name in self.workloads if name in wanted}

    def part(self, run: Run) -> SuiteLaunches:
        launches = self.suite.launches(run, self.settings, self.peers, self.workloads)
        ranks = suite_of(self.suite.name).kind is not Kind.RATIOS
        return SuiteLaunches(
            launches, self.settings.blocks, self.suite.repeated, self.named, self.suite.compared, ranks
        )


@dataclass(frozen=True)
class Arguments:
    profile: str
    choices: Sequence[SuiteChoice]  # in the order of `SUITES`
    user_workload: UserWorkload | None
    minutes: float | None
    out: Path | None
    resume: Path | None


def parse(arguments: Sequence[str] | None) -> Arguments:
    _use_adapter(arguments)
    known = list(dict.fromkeys([*workloads.NAMES, *(name for each in SUITES for name in suite_named(each).generated)]))
    # The usage is suppressed, since a user who misspelt a variable of make did not call this program.
    parser = argparse.ArgumentParser(
        prog="python -m suites.run", description="Measures peer after peer in fresh processes.", usage=argparse.SUPPRESS
    )
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--peers", type=names("peer", [*registry.every(), registry.ALL]), help=PEERS_HELP)
    parser.add_argument("--adapter", metavar="FILE", help="also measure another project's buffer, through this adapter")
    of_what = parser.add_mutually_exclusive_group()
    of_what.add_argument("--workloads", type=names("workload", known), default=known)
    of_what.add_argument("--env", metavar="ID", help="measure this Gymnasium environment instead, also as module:ID")
    of_what.add_argument(
        "--workload-file", type=Path, metavar="FILE", help="measure rows described by a TOML file instead"
    )
    parser.add_argument("--suites", type=names("suite", SUITES), default=list(SUITES))
    parser.add_argument(
        "--minutes", type=minutes, help="time budget; default: none, and the profile's number of blocks"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help="default: a dated file in results/runs/")
    where.add_argument("--resume", type=Path, metavar="FILE", help="continue the interrupted run in this file")
    args = parser.parse_args(arguments)
    if args.resume and args.minutes:
        parser.error("a run with a time budget cannot be resumed: its budget is spent; start a new one")
    if args.out and args.out.exists():
        parser.error(f"{args.out} already exists: records are never overwritten")
    try:
        user_workload = _user_workload(args)
    except BadWorkload as error:
        parser.error(str(error))
    chosen = _choices(args, user_workload)
    if not chosen:
        parser.error("nothing to measure: these peers, workloads and suites have no cell in common" + _where(args))
    return Arguments(args.profile, chosen, user_workload, args.minutes, args.out, args.resume)


def _use_adapter(arguments: Sequence[str] | None) -> None:
    """Make another project's buffer a peer, before the names of peers are read."""
    parser = argparse.ArgumentParser(prog="python -m suites.run", usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--adapter", type=Path)
    file = parser.parse_known_args(arguments)[0].adapter
    try:
        if file:
            external.use(file)
        registry.every()  # which reads the adapter that an environment variable names
    except external.BadAdapter as error:
        parser.error(str(error))


def _user_workload(args: argparse.Namespace) -> UserWorkload | None:
    if args.env is None and args.workload_file is None:
        return None
    user_workload = of_environment(args.env) if args.env is not None else user_workload_file.of_file(args.workload_file)
    if PROFILES[args.profile].user is None:
        able = ", ".join(name for name, profile in PROFILES.items() if profile.user)
        raise BadWorkload(f"the profile {args.profile} does not measure a workload of your own; choose one of {able}")
    return user_workload


def _choices(args: argparse.Namespace, user_workload: UserWorkload | None) -> list[SuiteChoice]:
    peers, sizes = registry.chosen(args.peers), PROFILES[args.profile].user
    named = [*(args.peers or ()), *external.adapters()]
    asked = [user_workload.name] if user_workload else workloads.possible(args.workloads)
    found = []
    for name in (each for each in SUITES if each in args.suites):
        measured = suite_named(name)
        settings = measured.profiles.get(args.profile)
        if settings and user_workload and sizes:
            settings = measured.for_user_workload(settings, user_workload, sizes)
        if settings is None:
            continue
        able = [peer for peer in measured.peers() if peer in peers]
        on = [workload for workload in asked if workload in measured.workloads(settings)]
        if able and on:
            found.append(SuiteChoice(measured, settings, able, on, named))
    return found


def _where(args: argparse.Namespace) -> str:
    """Return the workloads of the requested suites, for an error message."""
    measured = {name: suite_named(name).profiles.get(args.profile) for name in args.suites}
    words = [
        f"{name} measures {', '.join(sorted(suite_named(name).workloads(settings)))}"
        for name, settings in measured.items()
        if settings
    ]
    return f" ({'; '.join(words)})" if words else ""


def names(kind: str, known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return an argparse type for comma-separated names, each of which must be known."""

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                like = "".join(f"did you mean {each!r}? " for each in difflib.get_close_matches(name, known, 1))
                raise argparse.ArgumentTypeError(f"unknown {kind} {name!r}; {like}known: {', '.join(sorted(known))}")
        return names

    return parse


def minutes(text: str) -> float:
    """Parse a time budget, as an argparse type."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LEAST_MINUTES <= value < math.inf:
        raise argparse.ArgumentTypeError(
            f"a time budget must be a number of minutes, at least {LEAST_MINUTES:g}, such as 3; got {text!r}"
        )
    return value


def measured_options(arguments: Sequence[str]) -> list[str]:
    """Return the options that define what is measured: all except `--out` and `--resume`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out")
    parser.add_argument("--resume")
    return parser.parse_known_args(arguments)[1]
