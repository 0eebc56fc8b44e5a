"""The queueing model of Ape-X: N explorers and a learner that take turns at the processors and at the buffer.

Each process runs in a cycle: an explorer makes `rows` steps and adds them in one call; the learner samples, works, and
updates priorities. A part of each cycle excludes other processes (a lock, a server, a gate), the rest does not. Both
need a processor, of which there are `cores`. This is a closed queueing network of two classes of customers and two
stations: the processors, shared equally by those that are ready, and the exclusive part, served one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Costs:
    """CPU time in seconds of each part of a cycle.

    `add`, `learn`: the parts that exclude no process; an explorer's steps are extra.
    `add_alone`, `learn_alone`: the exclusive parts.
    `row`: what each new row costs the learner, whose priority tree must take it in.
    """

    add: float
    add_alone: float
    learn: float
    learn_alone: float
    row: float


@dataclass(frozen=True)
class Crowd:
    """`explorers` processes, each of which makes `rows` steps of `step` seconds of CPU time per call."""

    explorers: int
    rows: int
    step: float
    cores: int

    def with_explorers(self, explorers: int) -> Crowd:
        return replace(self, explorers=explorers)


@dataclass(frozen=True)
class Rates:
    """Transitions per second of all explorers, and steps per second of the learner."""

    explorers: float
    learner: float
