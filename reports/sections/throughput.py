"""Single calls, and a learner's whole step, in one process."""

from __future__ import annotations

from reports.figures.jobs import Suite
from reports.sections.speeds import section_of

SUITE = Suite(
    "throughput",
    benchmarks={
        "add": "add {batch}",
        "add_dicts": "add {batch} from dicts",
        "add_lists": "add {batch} from lists",
        "learner_step": "learner's step, {adds} added",
        "learner_step_uniform": "learner's step, uniform, {adds} added",
        "sample": "sample {batch}",
        "sample_held": "sample {batch}, {held} held",
        "sample_beside": "sample {batch} beside {work_ms} ms of work",
        "prioritized": "prioritized cycle {batch}",
        "compressed_add": "frames once: add {batch}",
        "compressed_sample": "frames once: sample {batch}",
    },
    explained={
        "add_dicts": "from dicts: each step is a dict, passed as keyword arguments where the library takes them",
        "add_lists": "from lists: columns are nested Python lists",
        "learner_step": "learner's step: transitions added one by one to a prioritized buffer, then one prioritized "
        "sample of 32 and the update of its priorities, timed as a whole",
        "learner_step_uniform": "uniform: the same with a uniform buffer, which has no priorities",
        "sample_held": "held: the newest batches stay referenced, so their arrays cannot be recycled",
        "sample_beside": "beside work: how long sampling blocks a learner that works on 8 MB of other data between "
        "samples",
        "prioritized": "prioritized cycle: a prioritized sample, and the update of its priorities",
        "compressed_add": "frames once: next observations, and each frame of a stack, are stored once",
    },
)
SECTION = section_of(SUITE)
