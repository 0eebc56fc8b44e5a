"""What the throughput suite measures: tasks (a benchmark with its sizes), and jobs (a task on a buffer)."""

from __future__ import annotations

from dataclasses import dataclass

from results.record import Record

#: benchmarks and the unit of each figure (lower is better), in the order in which a launch comes to them
THROUGHPUT = {
    "add": "s/transition",
    "add_dicts": "s/transition",
    "add_lists": "s/transition",
    "sample": "s/call",
    "prioritized": "s/call",
    "learner_step": "s/step",
    "learner_step_uniform": "s/step",
    "sample_beside": "s/call",
    "sample_held": "s/call",
    "compressed_add": "s/transition",
    "compressed_sample": "s/call",
}


@dataclass(frozen=True)
class Task:
    """A benchmark with its sizes: rows per call ("batch"), and whatever else the benchmark takes.

    Its text is the same in a profile, in a node id and on a command line: "learner_step:adds=4,batch=32".
    """

    benchmark: str
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, benchmark: str, **sizes: int) -> Task:
        if benchmark not in THROUGHPUT:
            raise ValueError(f"benchmark must be one of {', '.join(THROUGHPUT)}, got {benchmark!r}")
        return cls(benchmark, tuple(sorted(sizes.items())))

    @classmethod
    def parse(cls, text: str) -> Task:
        benchmark, _, sizes = text.partition(":")
        pairs = [size.partition("=") for size in sizes.split(",")]
        try:
            return cls.of(benchmark, **{name: int(number) for name, _, number in pairs})
        except ValueError as error:
            raise ValueError(f"task must be BENCHMARK:NAME=NUMBER[,NAME=NUMBER...], got {text!r}: {error}") from None

    @classmethod
    def of_record(cls, record: Record) -> Task:
        return cls.of(record.benchmark, **{name: size for name, size in record.params.items() if name != "capacity"})

    def __str__(self) -> str:
        return f"{self.benchmark}:{self.sizes_text}"

    @property
    def sizes_text(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.sizes)

    @property
    def order(self) -> tuple[int, tuple[tuple[str, int], ...]]:
        """Sort key: the position in a launch."""
        return list(THROUGHPUT).index(self.benchmark), self.sizes


@dataclass(frozen=True)
class Job:
    """A task on a buffer of that capacity."""

    task: Task
    workload: str
    capacity: int

    @property
    def benchmark(self) -> str:
        return self.task.benchmark

    @property
    def params(self) -> dict[str, int]:
        return {**dict(self.task.sizes), "capacity": self.capacity}


def tasks(*texts: str) -> tuple[Task, ...]:
    return tuple(map(Task.parse, texts))


#: the tasks of a profile
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

#: all of them: what a run by hand measures unless it names others
USUAL = (*CORE, *FORMS, *STEPS, *UNIFORM_STEPS, *BESIDE, *MORE_BESIDE, *HELD, *FRAMES)
