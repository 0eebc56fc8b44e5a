"""What was found: peers that crashed, hung, raised or answered wrong."""

from __future__ import annotations

from reports.sections.section import Context, Part, Section


def parts(context: Context) -> list[Part]:
    found = [trouble for trouble in context.troubles if trouble.is_finding]
    return [Part("found", "found", "What was found", found)] if found else []


SECTION = Section(parts)
