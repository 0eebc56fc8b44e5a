"""What the memory suite measures: bytes per transition, when they are allocated, and whether they leak.

One launch measures one kind of buffer of one peer, since a process may keep memory after freeing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters import registry
from adapters.base import Spec
from results.record import Run
from suites import workloads as recorded
from suites.suite import Launch, Quantity, Suite, SuiteSettings
from suites.workloads.user_workload import SMALLEST_CAPACITY, UserSizes, UserWorkload

#: kind of buffer -> its options
KINDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "priorities": {"prioritized": True},
    "next_of": {"next_of": True},
    "stack_compress": {"stack_compress": True},
    "both": {"next_of": True, "stack_compress": True},
}
#: Additional figures of some kinds, measured on the same buffer.
FILLED = {"constructed": 0.0, "quarter": 0.25, "half": 0.5}  # shares of the capacity at which memory is measured
PEAK = "peak"
LEAKS = {"plain": "leak", "priorities": "leak_prioritized"}
# The rows of a batch whose peak is measured, and the fewest bytes per row: a batch of smaller rows takes too few pages
# of memory for a figure.
PEAK_BATCH, PEAK_FROM_BYTES = 256, 1_000

BENCHMARKS = {
    **dict.fromkeys((*KINDS, *FILLED), Quantity("B/transition", "lower")),
    PEAK: Quantity("B/row drawn", "lower"),
    **dict.fromkeys(LEAKS.values(), Quantity("B/round", "lower")),
}
EVERYWHERE = ("plain", "priorities", "next_of")  # kinds for every workload; stack_compress needs stacked frames
USER_BYTES = 32 << 20  # limit for the rows of a user-defined workload that a launch stores


@dataclass(frozen=True, kw_only=True)
class MemorySettings(SuiteSettings):
    buffers: Mapping[str, tuple[int, Sequence[str]]]  # workload -> capacity, kinds
    leak_seconds: float  # spent on detecting leaks


PROFILES = {
    "tiny": MemorySettings(
        leak_seconds=0.2,
        buffers={"CartPole-v1": (4_096, ("plain", "priorities")), "ALE/Seaquest-v5": (256, ("both",))},
    ),
    "quick": MemorySettings(
        leak_seconds=0.4,
        buffers={"CartPole-v1": (16_384, EVERYWHERE[:1]), "ALE/Seaquest-v5": (1_024, ("plain", "both"))},
    ),
    "survey": MemorySettings(
        blocks=3,
        leak_seconds=0.4,
        buffers={"CartPole-v1": (4_096, EVERYWHERE[:2]), "ALE/Seaquest-v5": (512, ("plain", "both"))},
    ),
    "gate": MemorySettings(
        leak_seconds=0.2,
        buffers={"CartPole-v1": (65_536, EVERYWHERE[:2]), "ALE/Seaquest-v5": (1_024, ("plain", "both"))},
    ),
    "full": MemorySettings(
        blocks=3,
        leak_seconds=6.0,
        buffers={
            "CartPole-v1": (131_072, EVERYWHERE),
            "ALE/Seaquest-v5": (4_096, tuple(KINDS)),
            "Humanoid-v4": (8_192, EVERYWHERE),
            "CartPole-v1/slices": (4_096, EVERYWHERE[:2]),
            "CartPole-v1/image": (2_048, EVERYWHERE[:2]),
        },
    ),
}


def figures(kind: str, row_bytes: int) -> list[str]:
    """Return the benchmarks of one launch, in the order in which they are measured."""
    beside = [*FILLED, *([PEAK] if row_bytes >= PEAK_FROM_BYTES else [])] if kind == "plain" else []
    return [kind, *beside, *([LEAKS[kind]] if kind in LEAKS else [])]


def rows_for(capacity: int) -> int:
    """Return the number of rows that fill a buffer one and a half times."""
    return capacity * 3 // 2


class Memory(Suite[MemorySettings]):
    name = "memory"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    repeated = False
    compared = tuple(KINDS)

    def workloads(self, settings: MemorySettings) -> list[str]:
        return list(settings.buffers)

    def peers(self) -> list[str]:
        return registry.alone()

    def recordings(self, settings: MemorySettings) -> dict[str, int]:
        return {workload: rows_for(capacity) for workload, (capacity, _) in settings.buffers.items()}

    def for_user_workload(self, settings: MemorySettings, workload: UserWorkload, sizes: UserSizes) -> MemorySettings:
        """Measure the kinds of buffer that the profile measures on its first workload, and `next_of` if possible."""
        capacity = max(SMALLEST_CAPACITY, min(sizes.memory_rows, USER_BYTES // workload.row_bytes))
        _, usual = next(iter(settings.buffers.values()))
        kinds = [kind for kind in EVERYWHERE if (workload.has_episodes if kind == "next_of" else kind in usual)]
        return replace(settings, buffers={workload.name: (capacity, kinds)})

    def launches(
        self, run: Run, settings: MemorySettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        rows = {name: recorded.load(name) for name in workloads}

        def launch(peer: str, workload: str, kind: str, capacity: int) -> Launch:
            benchmarks = figures(kind, rows[workload].row_bytes)
            records = self.declare(run, peer, workload, {"capacity": capacity}, benchmarks)
            spec = Spec(capacity, rows[workload].fields, **KINDS[kind])
            if refusal := registry.adapter_class(peer).refusal(spec):
                for record in records:  # this is known without a process
                    record.fail("skipped", refusal)
            options = {"workload": workload, "benchmark": kind, "capacity": capacity}
            options["leak-seconds"] = settings.leak_seconds
            return self.launch(f"memory of {peer}, {kind} on {workload}", records, options)

        return [
            launch(peer, workload, kind, capacity)
            for workload, (capacity, kinds) in settings.buffers.items()
            if workload in workloads
            for kind in kinds
            for peer in peers
        ]


SUITE = Memory()
