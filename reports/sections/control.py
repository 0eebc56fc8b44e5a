"""The control: one peer measured as if it were two."""

from __future__ import annotations

from collections.abc import Iterator

from reports.sections.section import Context, Part
from results import frames
from results.suites import SUITES
from results.verdicts import ENOUGH

SUITE = SUITES["control"]


def parts(context: Context) -> Iterator[Part]:
    if context.jobs_of(SUITE):
        for each in frames.control(frames.table({"": context.run})).to_dict("records"):
            # With too few blocks, the control is meaningless.
            is_even = each["low"] <= 1 <= each["high"] or each["launches"] < ENOUGH
            yield Part("control", "control", "Control", {**each, "is_even": is_even})
