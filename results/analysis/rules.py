"""The smallest change of each benchmark's figure that matters, and how the figure is judged."""

from __future__ import annotations

from dataclasses import dataclass

from results.jobs import Job

#: The probability that the gate reports any regression although nothing has become slower.
FALSE_ALARM = 0.01
#: The probability that a benchmark passes although it has become slower by its smallest relevant change.
MISSED = 0.05


@dataclass(frozen=True)
class Rule:
    """The smallest relevant change, as a fraction of base's figure. If `exact`, the figure is counted, not timed."""

    effect: float
    exact: bool = False
    ignored: float = 0.0  # the largest difference between counts, in the figure's unit, that is ignored


# Within one process, the ratios of pairs vary by 1 to 3% between launches: 5% can be detected in a minute or two.
SINGLE = Rule(0.05)
# If processes compete for the cores, the scheduler has a large effect: ratios vary by 10% and more.
MANY = Rule(0.25)
# Each launch starts a fresh process, whose time depends on the file cache.
STARTUP = Rule(0.25)
# Memory is counted in pages, whose number varies a little by chance: equal builds differed by 0.6%.
SIZES = Rule(0.03, exact=True)
# The size of the installed files depends a little on the order of linking, and no user cares about another 100 kB.
INSTALLED = Rule(0.03, exact=True, ignored=100_000)
# The counts of equal code at different addresses, or loaded with different modules, differed by up to 0.24%.
WORK = Rule(0.01, exact=True)
# These do not vary at all, except when a rare event falls into the counted calls, which adds a twentieth per call.
CALLS = Rule(0.0, exact=True, ignored=0.1)
#: Number of launches in which a count must be higher before it is a regression, since counts vary a little by chance.
CONFIRMED = 3

#: The suite whose figures are counted for each call.
COUNTS = "counts"
BY_SUITE = {"startup": STARTUP, "memory": SIZES}
BY_COUNT = dict.fromkeys(("instructions", "reads", "writes"), WORK)


def rule_of(job: Job) -> Rule:
    if job.suite == COUNTS:
        return BY_COUNT.get(job.benchmark, CALLS)
    if job.benchmark == "installed":
        return INSTALLED
    return BY_SUITE.get(job.suite) or (MANY if "explorers" in job.params else SINGLE)
