"""The queueing model of Ape-X: N explorers and a learner that take turns at the processors and at the buffer.

Each process runs in a cycle: an explorer makes `rows` steps and adds them in one call; the learner samples, works, and
updates priorities. A part of each cycle excludes other processes (a lock, a server, a gate), the rest does not. Both
need a processor, of which there are `cores`. This is a closed queueing network of two classes of customers and two
stations: the processors, shared equally by those that are ready, and the exclusive part, served one by one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CycleCosts:
    """CPU time in seconds of each part of a cycle.

    `add`, `learn`: the parts that exclude no process; an explorer's steps are extra.
    `add_alone`, `learn_alone`: the exclusive parts.
    `row`: what each new row costs the learner, whose priority tree must take it in.
    `served`: the exclusive parts are done by a server, and the caller sleeps meanwhile.
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

    `capacity` of the buffer bounds the new rows that a step of the learner takes in: older ones are overwritten.
    """

    explorers: int
    rows: int
    step: float
    cores: int
    capacity: int = 1_000_000


@dataclass(frozen=True)
class Rates:
    """Transitions per second of all explorers, steps per second of the learner, and the share of its time in which a
    process of either kind sleeps because of the exclusive part."""

    explorers: float
    learner: float
    explorers_blocked: float = 0.0
    learner_blocked: float = 0.0
