"""From which change on a benchmark's figure matters, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from reports.figures.jobs import Job

#: The probability that the gate reports any regression although nothing became slower.
FALSE_ALARM = 0.01
#: The probability that a benchmark passes although it became slower by its smallest relevant change.
MISSED = 0.05


@dataclass(frozen=True)
class Rule:
    """The smallest relevant change, as a fraction of base's figure."""

    effect: float
    exact: bool = False  # whether the figure is counted, so that it needs no statistics


# Within one process, the ratios of pairs differ by 1 to 3% from launch to launch: 5% can be told in a minute or two.
SINGLE = Rule(0.05)
# Where processes compete for the cores, the scheduler decides: ratios differ by 10% and more.
MANY = Rule(0.25)
# A fresh process each, at the mercy of the file cache.
STARTUP = Rule(0.25)
# Pages of memory and bytes of a file: more than rounding.
SIZES = Rule(0.02, exact=True)
# Draws are random, so that counts differ by some tenths of a percent.
COUNTS = Rule(0.02, exact=True)
BY_SUITE = {"startup": STARTUP, "memory": SIZES, "counts": COUNTS, "wheel": SIZES}


def rule_of(job: Job) -> Rule:
    return BY_SUITE.get(job.suite) or (MANY if "explorers" in job.params else SINGLE)
