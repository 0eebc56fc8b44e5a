"""The buffers of one peer that the throughput benchmarks share. Each is created and filled when it is first needed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property

from adapters import checks, registry
from adapters.base import Adapter, Spec
from suites import workloads
from suites.runner.filling import fill
from suites.runner.results import NotMeasured
from suites.runner.spent import SPENT
from suites.workloads import Workload

STEPS_A_CALL = 64  # steps per call of an adapter, which loops over them
CHECKED_ROWS, CHECKED_BATCHES = 32, 100  # enough to detect a wrong distribution, in well under a second


class KnownRows(checks.AddedRows):
    """The rows that a sample may contain. The time that all checks take is counted."""

    __init__ = SPENT.on("check")(checks.AddedRows.__init__)
    check = SPENT.on("check")(checks.AddedRows.check)


class Buffers:
    """Buffers of one peer, workload and capacity. If one cannot be made, later requests for it raise the same error."""

    def __init__(self, peer: str, workload: str, capacity: int, fill_seconds: float) -> None:
        self.peer, self.capacity, self.fill_seconds = peer, capacity, fill_seconds
        self.recording = workloads.load(workload)
        self._made: dict[str, Adapter | BaseException] = {}
        self._closing = ExitStack()

    @property
    def uniform(self) -> Adapter:
        return self._buffer("uniform", self.recording)

    @property
    def prioritized(self) -> Adapter:
        return self._buffer("prioritized", self.recording, prioritized=True)

    @property
    def compressed(self) -> Adapter:
        return self._buffer("compressed", self.frames, next_of=True, stack_compress=True)

    @cached_property
    def steps(self) -> list:
        return self.recording.steps()

    @cached_property
    def frames(self) -> Workload:
        """The recording, cut to a whole number of calls. Its last row ends an episode, since it is used in a cycle."""
        recording = self.recording
        if recording.stack == 1:
            raise NotMeasured(f"{recording.name} has no stacked frames")
        rows = recording.transitions // STEPS_A_CALL * STEPS_A_CALL
        columns = {key: column[:rows] for key, column in recording.columns.items()}
        columns["done"] = columns["done"].copy()
        columns["done"][-1] = True
        return replace(recording, columns=columns)

    @cached_property
    def known(self) -> KnownRows:
        return KnownRows(self.recording.columns, self.recording.fields)

    @cached_property
    def known_frames(self) -> KnownRows:
        return KnownRows(self.frames.columns, self.frames.fields)

    def close(self) -> None:
        self._closing.close()

    def _buffer(self, kind: str, recording: Workload, **asked: bool) -> Adapter:
        if kind not in self._made:
            try:
                self._made[kind] = self._filled(recording, **asked)
            except BaseException as error:
                self._made[kind] = error
        made = self._made[kind]
        if isinstance(made, BaseException):
            raise made
        return made

    def _filled(self, recording: Workload, **asked: bool) -> Adapter:
        """Return a buffer filled with the recording. Priorities are checked first; the rows added for this check are
        overwritten when the buffer is filled."""
        spec = Spec(self.capacity, recording.fields, **asked)
        with ExitStack() as until_filled:
            adapter = registry.adapter_class(self.peer).make(spec)
            until_filled.callback(adapter.close)
            if spec.prioritized:
                with SPENT.on("check"):
                    checks.check_priorities(adapter, spec, rows=CHECKED_ROWS, batches=CHECKED_BATCHES)
            fill(adapter, spec, recording, self.fill_seconds)
            self._closing.push(until_filled.pop_all())
        return adapter
