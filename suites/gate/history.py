"""Measures commits of main, each against the same fixed commit, to reveal slow drifts: `make gate-history`.

    python -m suites.gate.history [--commits 1] [--every 1] [--pairs 3] [--folder DIR]

Measures the newest commits that changed the package and have no record in DIR yet, with a fixed number of pairs of each
benchmark. A pair that does not count is not measured again. `reports.gate.history` shows the records.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from results.analysis.studies import HISTORY
from results.analysis.verdict import HarnessError, Status, judge
from suites.gate import sources
from suites.gate.builds import Side
from suites.gate.measure import Gate, only_one
from suites.runner.driver import Interrupt

#: The commit that all others are compared with: the first one that has everything that the gate measures.
ANCHOR = "d101d6715cf9bc28568132ac1b8dd0adad95e638"
#: How many commits to try in place of commits that cannot be measured. More failures than this are unlikely to be the
#: commits' fault.
SPARE = 3
BUILT = ("cpprb_impl", "CMakeLists.txt", "pyproject.toml")


def commits(every: int) -> list[tuple[str, str]]:
    """Return (file name, hash) of every N-th commit of main that changed the package, newest first."""
    log = sources.git(sources.CHECKOUT, "log", "--first-parent", "--reverse", "--format=%H", "main", "--", *BUILT)
    numbered = list(enumerate(log.split()))  # from the oldest, so that numbers stay the same as main grows
    return [(f"{number:04d}-{commit[:10]}.json", commit) for number, commit in numbered[::every]][::-1]


def measure(folder: Path, wanted: int, every: int, pairs: int) -> list[str]:
    """Return, for each commit that could not be measured, what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [(name, commit) for name, commit in commits(every) if not (folder / name).exists()]
    if not missing:
        print("every commit that changed the package has a record")
    troubles = []
    with only_one(), Interrupt() as interrupt, tempfile.TemporaryDirectory() as unfinished:
        for name, commit in missing[: wanted + SPARE]:
            if wanted == 0:
                break
            sides = [Side("base", sources.parse(ANCHOR)), Side("head", sources.parse(commit))]
            gate = Gate(sides, minutes=None, command="python -m suites.gate.history")
            try:
                gate.build(interrupt)
                gate.measure(Path(unfinished, name), interrupt, pairs)
                judge(gate.run)
            except HarnessError as error:  # an older commit may still be measurable
                troubles.append(f"{commit[:10]}: {error}")
                continue
            interrupt.check()
            shutil.move(Path(unfinished, name), folder / name)
            wanted -= 1
    return troubles


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.gate.history", description=__doc__.partition("\n")[0])
    parser.add_argument("--commits", type=int, default=1, help="commits to measure now (default: %(default)s)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="measure only every N-th commit")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of each benchmark (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=HISTORY)
    args = parser.parse_args(arguments)
    try:
        troubles = measure(args.folder, args.commits, args.every, args.pairs)
    except HarnessError as error:
        troubles = [str(error)]
    except KeyboardInterrupt:
        print("gate-history: interrupted; the next call continues", file=sys.stderr)
        return 130
    for trouble in troubles:
        print(f"gate-history: {trouble}", file=sys.stderr)
    return Status.HARNESS_ERROR if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
