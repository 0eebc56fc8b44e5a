"""The queueing model of Ape-X: N explorers and a learner that take turns at the processors and at the buffer.

Each process runs in a cycle: an explorer makes `rows` steps and adds them in one call; the learner samples, works, and
updates priorities. A part of each cycle excludes other processes (a lock, a server, a gate); the rest does not. Both
parts need a processor, of which there are `cores`. This is a closed queueing network of two classes of customers and
two stations: the processors, which are shared equally by the customers that are ready, and the exclusive part, which
serves one customer at a time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CycleCosts:
    """CPU time in seconds of each part of a cycle.

    `add`, `learn`: the parts that exclude no process; an explorer's steps are extra. `add_alone`, `learn_alone`: the
    exclusive parts. `row`: the learner's cost per new row, which it must add to its priority tree. `served`: the
    exclusive parts are executed by a server while the caller sleeps.
    """

    add: float
    add_alone: float
    learn: float
    learn_alone: float
    row: float
    served: bool = False


@dataclass(frozen=True)
class ModelledFleet:
    """`explorers` processes, each of which makes `rows` steps of `step` seconds of CPU time per call.

    The buffer's `capacity` limits the number of new rows that the learner takes in per step, since older rows are
    overwritten.
    """

    explorers: int
    rows: int
    step: float
    cores: int
    capacity: int = 1_000_000


@dataclass(frozen=True)
class Rates:
    """Transitions per second of all explorers, steps per second of the learner, and for each of the two kinds of
    process the share of time in which it sleeps because of the exclusive part."""

    explorers: float
    learner: float
    explorers_blocked: float = 0.0
    learner_blocked: float = 0.0
