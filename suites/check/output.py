"""A report as a table in the terminal, Markdown, JSON, JUnit XML and a badge, and its scripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

from suites.check.checks import SHOWN
from suites.check.outcome import CheckOutcome, CheckVerdict
from suites.check.run import Report

MARKS = {
    CheckVerdict.FAULT: "✗",
    CheckVerdict.HAZARD: "!",
    CheckVerdict.PASSED: "✓",
    CheckVerdict.ABSENT: "-",
    CheckVerdict.UNCHECKED: "?",
}
COLOURS = {
    CheckVerdict.FAULT: 31,
    CheckVerdict.HAZARD: 33,
    CheckVerdict.PASSED: 32,
    CheckVerdict.ABSENT: 90,
    CheckVerdict.UNCHECKED: 35,
}
BADGE = Path(__file__).parent / "badge.svg"
GREEN, RED = "#2e7d32", "#c62828"


def summary(report: Report) -> dict[str, int]:
    """Return how many checks have each verdict, and `made`: how many could say something."""
    counts = {verdict.value: len(report.of(verdict)) for verdict in CheckVerdict}
    return {
        **counts,
        "made": sum(len(report.of(each)) for each in (CheckVerdict.FAULT, CheckVerdict.HAZARD, CheckVerdict.PASSED)),
    }


def roots(report: Report) -> list[CheckOutcome]:
    """Return the faults that follow from no other one."""
    return [each for each in report.of(CheckVerdict.FAULT) if not each.cause]


def following(report: Report, root: CheckOutcome) -> list[CheckOutcome]:
    return [each for each in report.of(CheckVerdict.FAULT) if each.cause == root.check]


def table(report: Report, file: TextIO | None = None) -> None:
    """Print the report: faults and hazards with what was seen, then what passed and what does not apply."""
    out = file or sys.stdout
    coloured = out.isatty() and "NO_COLOR" not in os.environ
    print(*_lines(report, coloured), sep="\n", file=out)


def _lines(report: Report, coloured: bool) -> Iterator[str]:
    def mark(verdict: CheckVerdict) -> str:
        return f"\033[{COLOURS[verdict]}m{MARKS[verdict]}\033[0m" if coloured else MARKS[verdict]

    yield f"{report.buffer}: {report.called}"
    yield ""
    for each in roots(report):
        yield f"{mark(each.verdict)} {each.title}: {each.word}"
        yield f"    {each.evidence}"
        if each.script:
            yield f"    script: {script_name(each)}"
        if more := following(report, each):
            yield f"    also failing, probably for this reason: {', '.join(other.check for other in more)}"
    for each in report.of(CheckVerdict.HAZARD):
        yield f"{mark(each.verdict)} {each.title}: {each.word}"
        yield f"    {each.evidence}"
    yield from _by_reason(report.of(CheckVerdict.UNCHECKED), mark(CheckVerdict.UNCHECKED))
    for each in report.of(CheckVerdict.PASSED):
        yield f"{mark(each.verdict)} {each.title}: {each.word}"
    yield from _by_reason(report.of(CheckVerdict.ABSENT), mark(CheckVerdict.ABSENT))
    yield ""
    counts = summary(report)
    yield (
        f"{counts['passed']} of {counts['made']} checks passed, faults: {len(roots(report))}, "
        f"hazards: {counts['hazard']}, not applicable: {counts['not applicable']}, "
        f"not checked: {counts['not checked']}; {report.seconds:.0f} s, seed {report.settings.seed}"
    )


def _by_reason(outcomes: Sequence[CheckOutcome], mark: str) -> Iterator[str]:
    """Yield a line for each reason, with the checks that it concerns."""
    reasons: dict[str, list[str]] = {}
    for each in outcomes:
        reasons.setdefault(each.evidence.strip().splitlines()[-1], []).append(each.check)
    for reason, checks in reasons.items():
        yield f"{mark} {', '.join(checks)}: {reason}"


def markdown(report: Report) -> str:
    rows = [
        f"| {MARKS[each.verdict]} {each.verdict} | {each.title} | {_cell(each.word)} | {_cell(each.evidence)} |"
        for verdict in CheckVerdict
        for each in report.of(verdict)
    ]
    head = [f"### {report.buffer}", "", report.called, "", "| verdict | check | seen | evidence |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def as_json(report: Report) -> str:
    checks = [{**asdict(each), "title": each.title, "group": each.shown.group} for each in report.outcomes]
    head = {"buffer": report.buffer, "called": report.called, "seconds": report.seconds}
    return json.dumps({**head, **asdict(report.settings), "summary": summary(report), "checks": checks}, indent=1)


def junit(report: Report) -> str:
    counts = summary(report)
    suite = ElementTree.Element(
        "testsuite",
        name=report.buffer,
        tests=str(len(report.outcomes)),
        failures=str(counts["fault"]),
        errors=str(counts["not checked"]),
        skipped=str(counts["not applicable"]),
        time=f"{report.seconds:.3f}",
    )
    for each in report.outcomes:
        case = ElementTree.SubElement(suite, "testcase", classname=each.shown.group, name=each.check)
        kinds = {CheckVerdict.FAULT: "failure", CheckVerdict.UNCHECKED: "error", CheckVerdict.ABSENT: "skipped"}
        if each.verdict in kinds:
            ElementTree.SubElement(case, kinds[each.verdict], message=each.word or each.evidence).text = each.evidence
        else:
            ElementTree.SubElement(case, "system-out").text = f"{each.verdict}: {each.word}: {each.evidence}"
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def badge(report: Report) -> str:
    """Return an SVG picture with the number of checks passed, of those that could say something."""
    counts = summary(report)
    sound = counts["made"] - counts["fault"]
    text = BADGE.read_text(encoding="utf-8")
    return (
        text.replace("{sound}", str(sound))
        .replace("{made}", str(counts["made"]))
        .replace("{colour}", RED if counts["fault"] else GREEN)
    )


def script_name(each: CheckOutcome) -> str:
    return f"{each.check}.py"


def clear(folder: Path) -> None:
    """Delete the report and the scripts of an earlier check."""
    for name in [*FORMS, *(f"{check}.py" for check in SHOWN)]:
        (folder / name).unlink(missing_ok=True)


def write(report: Report, folder: Path) -> None:
    """Write the report in every form, and a script for each finding, into `folder`, which is emptied of old ones."""
    folder.mkdir(parents=True, exist_ok=True)
    clear(folder)
    for name, form in FORMS.items():
        (folder / name).write_text(form(report), encoding="utf-8")
    for each in report.outcomes:
        if each.script and each.verdict in (CheckVerdict.FAULT, CheckVerdict.HAZARD):
            (folder / script_name(each)).write_text(each.script, encoding="utf-8")


FORMS = {"check.json": as_json, "junit.xml": junit, "check.md": markdown, "badge.svg": badge}
