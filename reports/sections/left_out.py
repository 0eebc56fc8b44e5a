"""Suites left out entirely because of the time budget, and the command that measures them."""

from __future__ import annotations

from collections.abc import Iterator

from reports.commands import peers_option
from reports.sections.section import Context, Part
from results.suites import suite_of


def parts(context: Context) -> Iterator[Part]:
    option = peers_option(context.run.command)
    for suite in map(suite_of, context.left_out_whole):
        yield Part("left_out", suite.name, suite.title, {"suite": suite, "options": option})
