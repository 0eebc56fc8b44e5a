"""Tasks (a benchmark with its sizes) and jobs (a task on a buffer) of the throughput suite."""

from __future__ import annotations

import math
from dataclasses import dataclass

from results.record import Record
from suites.suite import Quantity

PER_TRANSITION, PER_CALL, PER_STEP = (Quantity(f"s/{what}", "lower") for what in ("transition", "call", "step"))

#: In the order in which a launch measures them.
BENCHMARKS = {
    "add": PER_TRANSITION,
    "add_dicts": PER_TRANSITION,
    "add_lists": PER_TRANSITION,
    "sample": PER_CALL,
    "prioritized": PER_CALL,
    "learner_step": PER_STEP,
    "learner_step_uniform": PER_STEP,
    "sample_beside": PER_CALL,
    "sample_held": PER_CALL,
    "compressed_add": PER_TRANSITION,
    "compressed_sample": PER_CALL,
}


@dataclass(frozen=True)
class SizedBenchmark:
    """A benchmark with its sizes: rows per call ("batch"), and any others that the benchmark takes.

    As text, in a profile and on a command line: "learner_step:adds=4,batch=32".
    """

    benchmark: str
    sizes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.benchmark not in BENCHMARKS:
            raise ValueError(f"benchmark must be one of {', '.join(BENCHMARKS)}, got {self.benchmark!r}")

    @classmethod
    def of(cls, benchmark: str, **sizes: int) -> SizedBenchmark:
        return cls(benchmark, tuple(sorted(sizes.items())))

    @classmethod
    def parse(cls, text: str) -> SizedBenchmark:
        benchmark, _, sizes = text.partition(":")
        pairs = [size.partition("=") for size in sizes.split(",")]
        try:
            return cls.of(benchmark, **{name: int(number) for name, _, number in pairs})
        except ValueError as error:
            raise ValueError(f"task must be BENCHMARK:NAME=NUMBER[,NAME=NUMBER...], got {text!r}: {error}") from None

    def __str__(self) -> str:
        return f"{self.benchmark}:{self.sizes_text}"

    @property
    def sizes_text(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.sizes)

    @property
    def order(self) -> tuple[int, tuple[tuple[str, int], ...]]:
        """The sort key that determines the position in a launch."""
        return list(BENCHMARKS).index(self.benchmark), self.sizes


@dataclass(frozen=True)
class ThroughputJob:
    """A task on a buffer of this capacity."""

    task: SizedBenchmark
    workload: str
    capacity: int
    fill_seconds: float = math.inf  # a buffer that takes longer to fill gets no figure

    @property
    def benchmark(self) -> str:
        return self.task.benchmark

    @property
    def params(self) -> dict[str, int]:
        return {**dict(self.task.sizes), "capacity": self.capacity}

    def is_of(self, record: Record) -> bool:
        """Return whether the record is of this job."""
        mine = self.benchmark, self.workload, self.params
        return mine == (record.benchmark, record.workload, record.params)


def tasks(*texts: str) -> tuple[SizedBenchmark, ...]:
    return tuple(map(SizedBenchmark.parse, texts))


#: groups of tasks, from which profiles are composed
CORE = tasks(
    "add:batch=1", "add:batch=100", "sample:batch=32", "sample:batch=256", "prioritized:batch=32",
    "prioritized:batch=256",
)  # fmt: skip
FORMS = tasks("add_dicts:batch=1", "add_lists:batch=100")
FRAMES = tasks("compressed_add:batch=1", "compressed_sample:batch=32")
CYCLE = tasks("prioritized:batch=32", "prioritized:batch=256")
FEW = tasks("add:batch=1", "sample:batch=32")
SMALL = tasks("add:batch=1", "add:batch=100", "sample:batch=32", "prioritized:batch=32")
STEP = tasks("learner_step:adds=4,batch=32")
STEPS = tasks(*(f"learner_step:adds={adds},batch=32" for adds in (1, 4, 16)))
UNIFORM_STEP = tasks("learner_step_uniform:adds=4,batch=32")
UNIFORM_STEPS = tasks(*(f"learner_step_uniform:adds={adds},batch=32" for adds in (1, 4, 16)))
BESIDE = tasks(*(f"sample_beside:batch=32,work_ms={ms}" for ms in (1, 5)))
MORE_BESIDE = tasks(*(f"sample_beside:batch=256,work_ms={ms}" for ms in (1, 5)))
HELD = tasks("sample_held:batch=32,held=8", "sample_held:batch=256,held=8")

#: All tasks: measured when the suite is run by hand, unless others are named.
USUAL = (*CORE, *FORMS, *STEPS, *UNIFORM_STEPS, *BESIDE, *MORE_BESIDE, *HELD, *FRAMES)
