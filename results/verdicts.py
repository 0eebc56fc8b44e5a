"""What a verdict requires, for both the plan that measures and the report that judges."""

from __future__ import annotations

from collections.abc import Sequence

#: The peers to which others are compared: in one process, among processes, over several hosts, in a learner, and for
#: sequences of steps.
REFERENCE = "cpprb"
SHARED_REFERENCE = "cpprb[MP]"
HOSTS_REFERENCE = "cpprb[replay server]"
PAIRED_REFERENCE = "stable-baselines3[training]"
SEQUENCES_REFERENCE = "torchrl[SliceSampler]"
#: suite -> its reference
REFERENCES = {
    "throughput": REFERENCE,
    "latency": REFERENCE,
    "apex": SHARED_REFERENCE,
    "sharing": SHARED_REFERENCE,
    "solve_time": SHARED_REFERENCE,
    "hosts": HOSTS_REFERENCE,
    "paired_training": PAIRED_REFERENCE,
    "sequences": SEQUENCES_REFERENCE,
}
#: Fewest calls of the reference in a window: with fewer, its rate is too uncertain to be a divisor.
FEWEST_CALLS = 1_000

#: Fewest launches for a useful interval, and therefore for a verdict.
ENOUGH = 5
#: Code placement in memory alone changes a library's speed by up to 10%, in every launch (docs/measuring/ratios.md).
MATTERS = 1.1
#: Ratios from two runs on one machine differ by up to this factor, however narrow their intervals: memory is faster at
#: some hours than at others, and some libraries depend on it more than others (docs/measuring/another-run.md).
BETWEEN_RUNS = 1.2


def library_of(peer: str) -> str:
    """Return the peer that a variant belongs to: "cpprb" for "cpprb[MP]"."""
    return peer.partition("[")[0]


def rivals(peer: str, others: Sequence[str]) -> list[str]:
    """Return those of `others` that belong to other libraries, or all if there are none.

    A lead over one's own variants says nothing about which library to choose.
    """
    return [other for other in others if library_of(other) != library_of(peer)] or list(others)
