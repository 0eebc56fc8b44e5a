"""The committed records of the gate: main's history, and the study of how often the gate is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from results.files import REFERENCE

HISTORY, POWER = REFERENCE / "gate-history", REFERENCE / "gate"
NEIGHBOUR, COUNTED = "neighbour", "work"  # prefixes of records' names
LEVELS = (2, 5, 10, 20, 50)  # percent by which calls are slowed
BESIDE = ", while another process uses one core"
BESIDE_TWO = ", while two other processes use one core each"


@dataclass(frozen=True)
class Way:
    """A way to measure pairs. Some ways leave out a rule against noise, to show how much that rule gains."""

    name: str
    what: str
    beside: int = 0  # processes that use one core each

    @property
    def record(self) -> str:
        return f"{('', 'neighbour-', 'neighbours-')[self.beside]}noise-{self.name}"


WAYS = (
    Way("usual", "as described above"),
    Way("turns", "one process after the other, instead of turns"),
    Way("caches", "the first calls of each turn are timed, too"),
    Way("orders", "each build is always linked in the same order"),
    Way("usual", f"as described above{BESIDE}", beside=1),
    Way("waiting", f"waiting for a processor is counted{BESIDE}", beside=1),
    Way("usual", f"as described above{BESIDE_TWO}", beside=2),
    Way("waiting", f"waiting for a processor is counted{BESIDE_TWO}", beside=2),
)
