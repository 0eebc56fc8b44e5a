"""Suites left out entirely because of the time budget, and the command that measures them."""

from __future__ import annotations

from dataclasses import dataclass

from reports.sections.again import peers_option
from reports.sections.section import Context, Part, Section
from results.suites import suite_of


@dataclass(frozen=True)
class LeftOut:
    suite: str
    title: str
    command: str


def parts(context: Context) -> list[Part]:
    option = peers_option(context.run.command)
    suites = [suite_of(name) for name in context.left_out_whole]
    bodies = [LeftOut(each.name, each.title, f"make bench{option} SUITES={each.name}") for each in suites]
    return [Part("left_out", body.suite, body.title, body) for body in bodies]


SECTION = Section(parts)
