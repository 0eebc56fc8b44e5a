"""What a check of a buffer found, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from adapters.behaviours import Meaning
from suites.check import checks
from suites.check.checks import SHOWN, ShownCheck
from suites.check.watching import Ended
from suites.check.worker import ABSENT, RAISED, WRONG

DIED, HANGS, LATE = "died", "hangs", "late"  # outcomes of a check whose worker did not finish
#: Titles for these outcomes, which say nothing about what the check observes.
TITLES = {HANGS: "Every call returns", DIED: "The check runs to its end"}
HUNG = "{ended.last_call} did not return within {ended.seconds:g} s, after {ended.before}"
HUNG_AGAIN = "{ended.function} did not return within {ended.seconds:g} s, and had hung before"


class CheckVerdict(StrEnum):
    FAULT = "fault"
    HAZARD = "hazard"  # allowed, but dangerous for a user who does not know about it
    PASSED = "passed"
    ABSENT = "not applicable"
    UNCHECKED = "not checked"  # no time was left, or the check itself failed


@dataclass(frozen=True)
class CheckOutcome:
    """The result of one check."""

    check: str
    verdict: CheckVerdict
    word: str = ""  # what was observed: the value of a `Behaviour`
    evidence: str = ""
    script: str = ""  # a program that repeats it
    cause: str = ""  # the check whose fault explains this one

    @property
    def shown(self) -> ShownCheck:
        return SHOWN[self.check]

    @property
    def title(self) -> str:
        return TITLES.get(self.word, self.shown.title)


def outcome(check: str, report: Mapping[str, Any]) -> CheckOutcome:
    """Return the result for a worker's report."""
    if "word" in report:
        meaning = checks.BEHAVIOURS[check](report["word"]).meaning
        verdict = {
            Meaning.SOUND: CheckVerdict.PASSED,
            Meaning.HAZARD: CheckVerdict.HAZARD,
            Meaning.FAULT: CheckVerdict.FAULT,
        }[meaning]
        return CheckOutcome(check, verdict, report["word"], report["evidence"], report["script"])
    known = {ABSENT: CheckVerdict.ABSENT} | dict.fromkeys((RAISED, WRONG, DIED, HANGS), CheckVerdict.FAULT)
    verdict = known.get(report["outcome"], CheckVerdict.UNCHECKED)
    return CheckOutcome(check, verdict, report["outcome"], report["reason"])


def silent(check: str, ended: Ended) -> dict[str, Any]:
    """Return the report of a check during which the worker hung or died."""
    if ended.slow:
        return {"outcome": LATE, "reason": "too slow for the time limit"}
    if ended.again:
        return {"outcome": LATE, "reason": HUNG_AGAIN.format(ended=ended)}
    word = "waits" if ended.hung else "kills the process"
    how = "no answer in time" if ended.hung else ended.how
    evidence = f"{how}, in {ended.last_call}" if ended.last_call else how
    if ended.announced and word in list(checks.BEHAVIOURS[check]):
        return {"word": word, "evidence": evidence, "looked_at": 1, "script": ""}
    if ended.hung and ended.within:
        return {"outcome": HANGS, "reason": HUNG.format(ended=ended) if ended.seconds and ended.before else evidence}
    return {"outcome": DIED, "reason": evidence}


def with_causes(found: Sequence[CheckOutcome]) -> list[CheckOutcome]:
    """Return the outcomes, each fault that follows from another one with its cause."""
    faults = {each.check: _follows(each) for each in found if each.verdict is CheckVerdict.FAULT}
    hung = [each for each in found if each.word == HANGS]
    first = {each.evidence: each.check for each in reversed(hung)}  # of the checks that one call kept from their end
    faults |= {each.check: (first[each.evidence],) for each in hung}
    return [
        replace(each, cause=_cause(each.check, faults)) if each.verdict is CheckVerdict.FAULT else each
        for each in found
    ]


def _follows(found: CheckOutcome) -> tuple[str, ...]:
    """Return the checks whose faults may be the cause of this one."""
    return found.shown.follows_if_wrong if found.word == WRONG else found.shown.follows


def _cause(check: str, faults: Mapping[str, tuple[str, ...]]) -> str:
    """Return the fault at the root of this one; "" if it has no other cause."""
    seen, cause = {check}, ""
    while (before := next((each for each in faults[cause or check] if each in faults.keys() - seen), "")) != "":
        seen.add(before)
        cause = before
    return cause
