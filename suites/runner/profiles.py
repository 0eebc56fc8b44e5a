"""What a profile says that is no suite's own. How much each suite measures in it is in the suite's `spec.py`.

`quick` gives an answer over a coffee, `survey` compares all peers, `full` measures figures to publish, `tiny` shows
that everything works, and `sweep` shows how figures depend on the capacity and on the number of explorers.
"""

from __future__ import annotations

from dataclasses import dataclass

from suites.workloads.own import OwnSizes


@dataclass(frozen=True)
class Profile:
    limit_seconds: float  # after which a launch is killed
    own: OwnSizes | None = None  # None: a workload of the user's own is not for this profile


PROFILES = {
    "tiny": Profile(120, OwnSizes(rows=2_000, bytes=8 << 20, memory_rows=4_096)),
    "quick": Profile(180, OwnSizes(rows=100_000, bytes=128 << 20, memory_rows=16_384)),
    "survey": Profile(420, OwnSizes(rows=100_000, bytes=128 << 20, memory_rows=4_096)),
    "full": Profile(1_200, OwnSizes(rows=100_000, bytes=512 << 20, memory_rows=131_072)),
    "sweep": Profile(600),
}
