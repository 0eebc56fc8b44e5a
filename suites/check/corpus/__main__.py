"""Check the releases that had a published fault, and those that fixed it.

    python -m suites.check.corpus [NUMBER ...] [--quick] [--all]

The releases are downloaded once, and unpacked into .cache/check-corpus. A fault is found if one of its checks
(releases.toml) fails for the broken release. It is silent if none of them fails for the fixed one, which may also
refuse. Exit status: 0 if all are found and silent, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from adapters import venvs
from suites.check.checks import BEHAVIOURS, named
from suites.check.corpus import releases
from suites.check.corpus.releases import Fault, NotObtained
from suites.check.outcome import CheckOutcome, CheckVerdict
from suites.check.run import Checked, CouldNotCheck, run
from suites.check.subject import CheckSettings

SETTINGS = CheckSettings(draws=4_000, patience=20.0, seconds=600.0)
OUT = venvs.CHECKOUT / "build" / "check-corpus"
COLUMNS = ("#", "library", "fault", "reference", "broken", "fixed", "found by", "fixed release")


@dataclass(frozen=True)
class CorpusResult:
    """What the check said about a fault's two releases, or why a release could not be checked."""

    fault: Fault
    broken: Sequence[CheckOutcome] | str
    fixed: Sequence[CheckOutcome] | str

    @property
    def found_by(self) -> list[CheckOutcome]:
        """Return the faults of the broken release that are this one. As long as no checks are known for it, these are
        the faults that the fixed release does not have."""
        if self.fault.checks:
            return self._own(self.broken)
        fixed = {each.check for each in faults(self.fixed)}
        return [each for each in faults(self.broken) if each.check not in fixed and not isinstance(self.fixed, str)]

    @property
    def still_found_by(self) -> list[CheckOutcome]:
        """Return the faults of the fixed release that are this one."""
        return self._own(self.fixed)

    def _own(self, seen: Sequence[CheckOutcome] | str) -> list[CheckOutcome]:
        return [each for each in faults(seen) if each.check in self.fault.checks]

    @property
    def unchecked(self) -> list[CheckOutcome]:
        """Return the fault's checks that could not be made of the fixed release."""
        outcomes = [] if isinstance(self.fixed, str) else self.fixed
        return [each for each in outcomes if each.check in self.fault.checks and each.verdict is CheckVerdict.UNCHECKED]

    @property
    def is_as_published(self) -> bool:
        if self.fault.out_of_scope:
            return True
        is_silent = not self.still_found_by and not self.unchecked and not isinstance(self.fixed, str)
        return bool(self.found_by) and (is_silent or not self.fault.fixed)

    @property
    def row(self) -> tuple[str, ...]:
        """Return what the table says about this fault."""
        fault = self.fault
        found = ", ".join(each.check for each in self.found_by) or fault.out_of_scope or _why(self.broken, "missed")
        silent = ", ".join(f"{each.check} {each.verdict}" for each in [*self.still_found_by, *self.unchecked])
        silent = "" if fault.out_of_scope or not fault.fixed else silent or _why(self.fixed, "silent")
        versions = (fault.broken.replace("==", " "), fault.fixed.replace("==", " ") or "never")
        return (str(fault.number), fault.library, fault.fault, fault.reference, *versions, found, silent)


def _why(seen: Sequence[CheckOutcome] | str, otherwise: str) -> str:
    return seen.splitlines()[-1] if isinstance(seen, str) and seen else otherwise


def faults(seen: Sequence[CheckOutcome] | str) -> list[CheckOutcome]:
    return [] if isinstance(seen, str) else [each for each in seen if each.verdict is CheckVerdict.FAULT]


def checked(file: Path, python: str, folder: Path | None, only: frozenset[str] = frozenset()) -> Sequence[CheckOutcome]:
    """Check a buffer through the functions in this file, with a Python that also imports modules from `folder`. A
    Python that is too old for this project runs only the functions."""
    is_old = Path(python).is_relative_to(releases.CACHE)
    which = {"through": python} if is_old else {"python": python}
    return run(Checked(str(file), project=folder, only=only, **which), SETTINGS).outcomes


def of_release(fault: Fault, release: str, only: frozenset[str]) -> Sequence[CheckOutcome] | str:
    """Return what was seen of a release, or why it cannot be checked."""
    try:
        folder = None if release == releases.INSTALLED else releases.unpacked(release, fault)
        return checked(fault.file, releases.python(fault.python), folder, only)
    except (NotObtained, CouldNotCheck) as error:
        return str(error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.check.corpus", description=__doc__.partition("\n")[0])
    known = {each.number: each for each in releases.faults()}
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="of faults in releases.toml")
    parser.add_argument("--quick", action="store_true", help="make only the checks that find these faults")
    parser.add_argument("--only", default="", metavar="CHECKS", help="comma-separated names of checks")
    parser.add_argument("--all", action="store_true", help="show all outcomes")
    args = parser.parse_args()
    if unknown := [each for each in args.numbers if each not in known]:
        parser.error(f"number must be one of {', '.join(map(str, known))}, got {unknown[0]}")
    results = []
    for number in args.numbers or known:
        fault = known[number]
        only = named(args.only)
        if args.quick:
            only = frozenset(fault.checks) & BEHAVIOURS.keys()
        if fault.out_of_scope:
            results.append(CorpusResult(fault, "", ""))
        else:
            broken = of_release(fault, fault.broken, only)
            results.append(CorpusResult(fault, broken, of_release(fault, fault.fixed, only) if fault.fixed else ""))
        show(results[-1], args.all)
        write(results)
    return 0 if all(each.is_as_published for each in results) else 1


def show(result: CorpusResult, every: bool) -> None:
    number, library, _, _, broken, fixed, found, silent = result.row
    print(f"{number:>3} {library}, {broken}: {found} | {fixed}: {silent}", flush=True)
    for each in [*result.found_by, *result.still_found_by]:
        print(f"      {each.check}: {each.word}; {each.evidence}", flush=True)
    if every:
        for release, seen in (("broken", result.broken), ("fixed", result.fixed)):
            for each in [] if isinstance(seen, str) else seen:
                print(f"      {release}, {each.verdict}, {each.check}: {each.word}; {each.evidence}")
    sys.stdout.flush()


def write(results: Sequence[CorpusResult]) -> None:
    """Write all outcomes as JSON, and the table as Markdown."""
    OUT.mkdir(parents=True, exist_ok=True)
    seen = [asdict(each) for each in results]
    (OUT / "corpus.json").write_text(json.dumps(seen, indent=1), encoding="utf-8")
    rows = [COLUMNS, ["---"] * len(COLUMNS), *(each.row for each in results)]
    table = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
    (OUT / "corpus.md").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
