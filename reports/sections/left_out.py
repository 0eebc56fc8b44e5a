"""Suites that the time budget left out whole, and the command that measures them."""

from __future__ import annotations

from dataclasses import dataclass

from reports.sections.again import peers_option
from reports.sections.section import Context, Part, Section


@dataclass(frozen=True)
class LeftOut:
    suite: str
    title: str
    peers_option: str


def parts(context: Context) -> list[Part]:
    option = peers_option(context.run.command)
    suites = [context.suite(name) for name in context.left_out_whole]
    return [Part("left_out", each.name, each.title, LeftOut(each.name, each.title, option)) for each in suites]


SECTION = Section(parts)
