"""The page of a run, in Markdown and in HTML. Templates only show plain values: they compute nothing and contain no
numbers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from reports.answer.heatmap import heat_map
from reports.answer.heatmap_svg import pictures
from reports.answer.sentences import not_said, sentences
from reports.answer.unmeasured import unmeasured
from reports.figures.formatting import listed, spoken_time
from reports.figures.ranking import answers_of
from reports.rendering import render, to_html, worded
from reports.sections import context_of, parts_of
from reports.sections.section import Context
from reports.sections.troubles import measured
from reports.site.data import payload
from reports.site.lookup import lookup
from reports.tables import budget
from results import Run
from results.jobs import is_finding
from results.machine import changed_since
from results.suites import SUITES, Kind, suite_of

#: The run's name in the lookup of figures.
THIS = "this run"
#: The profile whose launches are too short to compare peers.
TINY = "tiny"


@dataclass(frozen=True)
class Page:
    """`files` maps the names of pictures, beside the Markdown page, to their contents."""

    markdown: str
    html: str
    files: Mapping[str, bytes]


def page_of(run: Run) -> Page:
    context = context_of(run)
    values, heat = _values(context), heat_map(context)
    drawn = {f"plots/answer-{theme}.svg": svg.encode() for theme, svg in pictures(heat).items()}
    head, answer = render("head.md.j2", values), render("answer.md.j2", {**values, "heat": heat})
    parts = [(part, render(f"{part.template}.md.j2", part.values)) for part in parts_of(context)]
    inside = {picture.file: Markup(picture.svg) for part, _ in parts for picture in part.pictures}
    html = render(
        "report.html.j2",
        {
            "title": values["title"],
            "head": to_html(head, {}),
            "answer": _embedded(to_html(answer, {}), drawn),
            "parts": [(part, "" if part.html else to_html(text, inside)) for part, text in parts],
            **lookup(payload({THIS: run})),
        },
    )
    files = {picture.file: picture.png for part, _ in parts for picture in part.pictures}
    in_order = sorted(parts, key=lambda each: bool(each[0].html))  # one HTML table replaces many in Markdown
    return Page("\n".join([head, answer, *(text for _, text in in_order)]), html, files | drawn)


def _embedded(html: Markup, pictures: Mapping[str, bytes]) -> Markup:
    """Return HTML with its pictures embedded."""
    for file, svg in pictures.items():
        html = Markup(html.replace(file, f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"))
    return html


def _values(context: Context) -> dict[str, Any]:
    """Return the values that the head and the answer show."""
    run = context.run
    return {
        "run": run,
        "title": _title(context),
        "started": spoken_time(run.started),
        "took": _took(run),
        "budget_line": _budget_line(context),
        "warnings": _warnings(run),
        "sentences": sentences(context),
        "variants": _variants(context),
        "below": worded("sentences.j2", "below", suites=_spoken_suites(context), has_records=bool(run.records)),
        "not_said": not_said(context),
        "left_out": budget.left_out(run, _undecided(context)),
        "unmeasured": unmeasured(run),
    }


def _title(context: Context) -> str:
    figures = [each for each in context.run.records if each.ok and suite_of(each.suite).kind is not Kind.CHECKS]
    names = list(dict.fromkeys(each.workload for each in figures))
    what = "Base and head compared" if context.run.kind == "gate" else "Replay buffers compared"
    return f"{what} on {listed(names, most=3)}" if names else what


def _budget_line(context: Context) -> str:
    spoken = {name: suite.spoken for name, suite in SUITES.items()}
    with_ratios = [name for name, suite in SUITES.items() if suite.kind in (Kind.RANKS, Kind.RATIOS)]
    return budget.budget_line(context.run, spoken, with_ratios)


def _variants(context: Context) -> list[tuple[str, str]]:
    """Return the peers with square brackets in their names that have a figure, and how each of them is used."""
    shown = {peer for job in context.measured for peer in job.shown}
    return [(peer.name, peer.usage) for peer in context.run.peers if "[" in peer.name and peer.name in shown]


def _undecided(context: Context) -> int:
    """Return the number of jobs for which more launches could tell which peer is fastest."""
    ranked = [(context.reference(suite_of(name)), jobs) for name, jobs in context.ranking.items()]
    answers = [each for reference, jobs in ranked for each in answers_of(context.run, jobs, reference)]
    return len({id(each.job) for each in answers if each.is_open})


def _spoken_suites(context: Context) -> list[str]:
    """Return the names of the suites that the run covers."""
    return [suite_of(name).spoken for name in dict.fromkeys(job.suite for job in context.measured)]


def _warnings(run: Run) -> list[str]:
    warned = partial(worded, "warnings.j2")
    lines = []
    if run.profile == TINY:
        lines.append(warned("tiny", profile=TINY))
    if run.interrupted:
        lines.append(warned("interrupted"))
    elif run.finished is None:
        lines.append(warned("unfinished"))
    if run.resumed:
        lines.append(warned("resumed", times=[spoken_time(time) for time in run.resumed]))
    if changed := changed_since(run.revision):
        lines.append(warned("changed", files=changed))
    if not any(record.ok or is_finding(record) for record in run.records):
        lines.append(warned("nothing"))
    elif run.is_whole and run.missing():
        lines.append(warned("fewer", cells=measured(run), declared=run.declared))
    return lines


def _took(run: Run) -> str:
    minutes = budget.run_minutes(run)
    if minutes is None:
        return ""
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{minutes * 60:.0f} seconds"
