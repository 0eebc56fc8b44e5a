"""The settings of a profile that do not belong to a suite. Each suite's `spec.py` defines how much it measures.

- `quick` gives an answer within minutes.
- `survey` compares all peers.
- `full` measures figures for publication.
- `tiny` shows that everything works.
- `sweep` shows how figures depend on the capacity and on the number of explorers.
- `apex` shows what Ape-X waits for.
- `solve_time` shows how long an Ape-X training run takes.
- `paired_training` shows the effect of our buffer on other libraries' training runs.
- `paired_speed` shows the speed of these runs relative to runs with the library's own buffer.
- `paired_prioritized` shows the effect of prioritized replay on them.
- `paired_sparse` shows the effect of prioritized replay if rewards are sparse.
- `adding` shows what adding costs in a buffer with sequences.
- `hosts` shows the cost of buffers over several hosts.
- `gate` is measured by the gate (`suites/gate/`).
"""

from __future__ import annotations

from dataclasses import dataclass

from suites.workloads.user_workload import UserSizes


@dataclass(frozen=True)
class Profile:
    limit_seconds: float  # after which a launch is killed
    user: UserSizes | None = None  # for a user-defined workload; None if this profile does not measure one


PROFILES = {
    "tiny": Profile(120, UserSizes(rows=2_000, bytes=8 << 20, memory_rows=4_096)),
    "quick": Profile(180, UserSizes(rows=100_000, bytes=128 << 20, memory_rows=16_384)),
    "survey": Profile(420, UserSizes(rows=100_000, bytes=128 << 20, memory_rows=4_096)),
    "full": Profile(1_200, UserSizes(rows=100_000, bytes=512 << 20, memory_rows=131_072)),
    "sweep": Profile(600),
    "apex": Profile(600),
    "solve_time": Profile(1_200),
    "paired_training": Profile(600),
    "paired_prioritized": Profile(600),
    "paired_sparse": Profile(600),
    "paired_speed": Profile(600),
    "adding": Profile(600),
    "hosts": Profile(600),
    "gate": Profile(120),
}
