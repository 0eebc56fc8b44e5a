"""From which change on a benchmark's figure matters, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from results.jobs import Job

#: The probability that the gate reports any regression although nothing became slower.
FALSE_ALARM = 0.01
#: The probability that a benchmark passes although it became slower by its smallest relevant change.
MISSED = 0.05


@dataclass(frozen=True)
class Rule:
    """The smallest relevant change, as a fraction of base's figure. `exact`: the figure is counted, not timed."""

    effect: float
    exact: bool = False
    ignored: float = 0.0  # a difference of counts, in the figure's unit, that is not even looked at


# Within one process, the ratios of pairs differ by 1 to 3% from launch to launch: 5% can be told in a minute or two.
SINGLE = Rule(0.05)
# Where processes compete for the cores, the scheduler decides: ratios differ by 10% and more.
MANY = Rule(0.25)
# A fresh process each, which depends on the file cache.
STARTUP = Rule(0.25)
# Memory is counted in pages, of which a few are chance: 0.6% between equal builds.
SIZES = Rule(0.03, exact=True)
# The size of the installed files depends a little on the order of linking, and 100 kB more matter to no user.
INSTALLED = Rule(0.03, exact=True, ignored=100_000)
# Equal code in another place of memory, or beside other modules, differed by up to 0.24%.
WORK = Rule(0.01, exact=True)
# These do not differ at all, except that something rare may fall into the counted calls, a twentieth per call.
CALLS = Rule(0.0, exact=True, ignored=0.1)
#: Launches in which a count must be higher, since some of what is counted is chance.
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
