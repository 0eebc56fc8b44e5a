"""The gate's measurement: the native package at a base revision against the working tree.

    python -m suites.gate --base REV [--launches 10] [--profile quick] [--workloads X,Y] [--out FILE]

Builds each into its own environment under .gate/, and runs the throughput suite on both in alternating launches, with
the working tree's suites and adapters. Writes a run file with the peers "base" and "head", which reports.verdict
judges.

Exit status: 0 measured, 3 harness error (nothing to judge), 130 interrupted.
"""

from __future__ import annotations

import argparse
import fcntl
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

from adapters import registry
from results import files, machine
from results.record import Record, Run
from suites import workloads
from suites.runner import process as processes
from suites.runner.command_line import names
from suites.runner.driver import Interrupt, drive
from suites.runner.plan import Fixed, in_blocks
from suites.runner.profiles import PROFILES
from suites.suite import Launch
from suites.throughput.spec import SUITE, ThroughputSettings
from suites.throughput.spec import options as process_options

PACKAGE = "cpprb_impl"  # the one peer that is built here
FOLDER = processes.CHECKOUT / ".gate"
FEWEST_LAUNCHES = 8  # per side; with fewer, no test can distinguish a shift from noise
BUILD_LIMIT_SECONDS = 900
HARNESS_ERROR = 3


class HarnessError(Exception):
    """The gate could not measure. This says nothing about the change under test."""


@dataclass(frozen=True)
class Side:
    """One of the two builds: an environment in which only the package differs."""

    name: str  # its name as a peer of the run
    revision: str

    @property
    def home(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.home)}))


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=processes.CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"git {arguments[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def resolve(revision: str) -> str:
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except HarnessError:
        raise HarnessError(f"no such revision: {revision}") from None


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the checkout's lock: two gates would overwrite each other's builds."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError("another gate is running in this checkout") from None
        yield


@contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """Make a temporary work tree of this revision."""
    tree = FOLDER / "tree"
    _remove_worktree(tree)  # left by a gate that was killed
    git("worktree", "add", "--detach", "--force", str(tree), revision)
    try:
        yield tree
    finally:
        _remove_worktree(tree)


def _remove_worktree(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "prune")


def build(side: Side, source: Path, interrupt: Interrupt) -> None:
    """Make a fresh environment with the package built from `source`, and append our own environment's packages.

    Python searches the paths in the .pth file after the environment's own packages. It does not read .pth files in
    those folders, so an editable install of the package in our environment has no effect.
    """
    print(f"building {side.name} ({side.revision})", flush=True)
    shutil.rmtree(side.home, ignore_errors=True)
    wheels, objects = side.home / "wheel", side.home / "build"
    venv.create(side.home, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", f"--config-settings=build-dir={objects}"]
    _build_step(side, interrupt, [*pip, "wheel", *options, f"--wheel-dir={wheels}", str(source)])
    built = [str(wheel) for wheel in wheels.glob("*.whl")]
    _build_step(side, interrupt, [*pip, "install", "--no-deps", "--no-index", f"--target={side.site_packages}", *built])
    behind = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(processes.CHECKOUT)]
    (side.site_packages / "behind.pth").write_text("\n".join(dict.fromkeys(behind)) + "\n")


def _build_step(side: Side, interrupt: Interrupt, command: list[str]) -> None:
    if trouble := processes.run(command, BUILD_LIMIT_SECONDS, tick=interrupt.check).trouble:
        raise HarnessError(f"{side.name} ({side.revision}) does not build: {trouble}")


def renew(side: Side) -> None:
    """Move the built library to other pages of memory.

    A file stays in the pages into which it was first read, and their addresses determine how they share the caches. Two
    identical builds differed by 10% in every launch until one of them was copied. Copying the file before each launch
    turns this bias into noise, which the verdict takes into account.
    """
    for library in (side.site_packages / PACKAGE).glob("*.so"):
        copy = library.with_suffix(".copy")
        shutil.copyfile(library, copy)
        copy.replace(library)


def launch_of(side: Side, run: Run, settings: ThroughputSettings, chosen: Sequence[str]) -> Launch:
    jobs = settings.jobs(chosen)

    def command(records: Sequence[Record], cells: Path, _block: int) -> list[str]:
        renew(side)
        options = {**process_options(settings, jobs, records), "cells": cells}
        options["package-at"] = f"{PACKAGE}={side.site_packages}"
        # -P keeps the checkout, whose package has no compiled part, from the front of sys.path.
        return [str(side.python), "-P", *SUITE.command(PACKAGE, options)]

    return Launch(f"throughput of {side.name}", SUITE.declare_jobs(run, side.name, jobs), command)


def measure(args: argparse.Namespace) -> int:
    if args.launches < FEWEST_LAUNCHES:
        raise HarnessError(f"launches must be at least {FEWEST_LAUNCHES} per side, got {args.launches}")
    sides = [Side("base", resolve(args.base)), Side("head", machine.revision(processes.CHECKOUT))]
    settings = SUITE.profiles[args.profile]

    with only_one(), Interrupt() as interrupt:
        with worktree(sides[0].revision) as tree:
            build(sides[0], tree, interrupt)
        build(sides[1], processes.CHECKOUT, interrupt)

        command = shlex.join(["python", "-m", "suites.gate", *sys.argv[1:]])
        run = Run("gate", args.profile, sides[1].revision, command, machine.describe())
        about = registry.describe(PACKAGE)
        for side in sides:
            run.add_peer(**asdict(replace(about, name=side.name, version=side.revision)))
        for name in args.workloads:
            run.add_workload(**workloads.load(name).describe())
        launches = [launch_of(side, run, settings, args.workloads) for side in sides]
        interrupt.check()
        plan = Fixed(in_blocks(launches, args.launches))
        limit = PROFILES[args.profile].limit_seconds
        status = drive(run, args.out or files.new_path(run), plan, limit, excused=lambda _record: False)
    return HARNESS_ERROR if status == 1 else status


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(message)  # argparse would exit with 2, which is the verdict "can't tell"


def main() -> int:
    parser = Parser(prog="python -m suites.gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", required=True, metavar="REV", help="the revision to compare the working tree with")
    parser.add_argument("--launches", type=int, default=10, help="per side (default: %(default)s)")
    parser.add_argument("--profile", choices=SUITE.profiles, default="quick", help="how long each launch measures")
    parser.add_argument("--workloads", type=names("workload", workloads.NAMES), default=list(workloads.NAMES))
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: a dated file in results/runs/")
    try:
        return measure(parser.parse_args())
    except HarnessError as error:
        print(f"gate: {error}", file=sys.stderr)
        return HARNESS_ERROR
    except KeyboardInterrupt:
        print("gate: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
