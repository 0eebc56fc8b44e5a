"""Explorers and a learner around one shared buffer, with an environment."""

from __future__ import annotations

from reports.figures.jobs import SHARED_REFERENCE, Suite
from reports.sections.integrity import APEX, WHOLE
from reports.sections.speeds import section_of

SUITE = Suite(
    APEX,
    title="Ape-X",
    spoken="Ape-X",
    reference=SHARED_REFERENCE,
    benchmarks={
        "explorers": "explorers N={explorers}",
        "learner": "learner N={explorers}",
        WHOLE: "rows checked N={explorers}",
    },
    counts=(WHOLE,),
)
SECTION = section_of(SUITE)
