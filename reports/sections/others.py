"""Suites that no section declares: their figures are shown like throughput's, under the benchmarks' own names."""

from __future__ import annotations

from reports.sections.section import Context, Part, Section
from reports.sections.speeds import parts_of


def parts(context: Context) -> list[Part]:
    unknown = [name for name in context.ranking if name not in context.suites]
    return [part for name in unknown for part in parts_of(context, context.suite(name))]


SECTION = Section(parts)
