"""Check a replay buffer: whether it returns what was stored, and draws it as it should.

    python -m suites.check module:Class [--like FAMILY] [--project FOLDER] [--quick | --long] [--processes N]
    python -m suites.check file.py                  the functions of suites/check/functions.py
    python -m suites.check peer:NAME                a peer of this project

Exit status: 0 no fault found, 1 a fault found, 2 the buffer could not be checked, 3 an error of the check itself.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from suites.check import output
from suites.check.checks import named
from suites.check.outcome import CheckVerdict
from suites.check.run import Checked, CouldNotCheck, run
from suites.check.subject import CheckSettings

QUICK = CheckSettings(draws=2_000, seconds=10.0)
NORMAL = CheckSettings(draws=20_000, seconds=60.0)
LONG = CheckSettings(draws=400_000, seconds=600.0)
NOTHING = "no check was finished in time"
REPEAT = "to repeat a finding: {command}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.check", description=__doc__.partition("\n")[0])
    parser.add_argument("buffer", help="module:Class, the path of a Python file with functions, or peer:NAME")
    parser.add_argument("--like", help="API family, if the class does not show its own")
    parser.add_argument("--project", type=Path, help="folder from which the module is imported")
    parser.add_argument("--through", metavar="PYTHON", help="that runs the functions, if it is older than Python 3.11")
    parser.add_argument("--only", default="", metavar="CHECKS", help="comma-separated names of checks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=0, help="also check so many threads and processes")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", dest="settings", action="store_const", const=QUICK, default=NORMAL)
    length.add_argument("--long", dest="settings", action="store_const", const=LONG)
    parser.add_argument("--out", type=Path, default=Path("build/check"), help="default: %(default)s")
    args = parser.parse_args()
    only = named(args.only)
    if args.project is not None and not args.project.is_dir():
        parser.error(f"project must be a folder, got {str(args.project)!r}")
    output.clear(args.out)  # a check that fails or is interrupted would leave them
    try:
        report = run(
            Checked(args.buffer, args.like, args.project, only, through=args.through),
            replace(args.settings, seed=args.seed, processes=args.processes),
            _show_progress if sys.stderr.isatty() else lambda *_: None,
        )
    except CouldNotCheck as error:
        print(f"{args.buffer} cannot be checked:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130  # as shells report it
    output.write(report, args.out)
    output.table(report)
    print(f"{args.out}: {', '.join(sorted(path.name for path in args.out.iterdir()))}")
    findings = [*output.roots(report), *report.of(CheckVerdict.HAZARD)]
    if script := next((output.script_name(each) for each in findings if each.script), None):
        print(REPEAT.format(command=_command(args, args.out / script)))
    if broken := [each for each in report.of(CheckVerdict.UNCHECKED) if each.word == "broken"]:
        print(broken[0].evidence, file=sys.stderr)
        return 3
    if report.of(CheckVerdict.UNCHECKED) and not output.summary(report)["made"]:
        print(NOTHING, file=sys.stderr)
        return 2
    return 0 if report else 1


def _command(args: argparse.Namespace, script: Path) -> str:
    """Return the command that runs a script, which imports the buffer from its project."""
    folder = args.project or (Path(args.buffer).parent if args.buffer.endswith(".py") else None)
    where = [f"PYTHONPATH={shlex.quote(str(folder))}"] if folder is not None else []
    return " ".join([*where, shlex.join([args.through or sys.executable, str(script)])])


def _show_progress(done: int, parts: int, check: str) -> None:
    print(f"\r\033[K{done} of {parts} {check}" if check else "\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
