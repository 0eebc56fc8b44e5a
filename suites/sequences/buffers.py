"""The buffers that the sequences suite measures, filled with a recording and checked."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator

from adapters import sequence_checks
from adapters.base import Columns
from adapters.numbered_steps import NumberedSteps
from adapters.sequences import SequenceAdapter, SequenceSpec
from suites import workloads
from suites.runner.filling import TooSlow
from suites.runner.spent import SPENT
from suites.sequences.spec import IMAGES, WORKLOAD, SequencesJob

STEPS_A_CALL = 800  # as ADDS, a divisor of the recording


@functools.cache
def recorded_steps(workload: str = WORKLOAD) -> NumberedSteps:
    """Return the recording as one stream that can be repeated: its last step ends an episode. Images are not also
    stored as next observations, which are those of a sequence's next steps."""
    recording = workloads.load(workload)
    left_out = "next_" if workload == IMAGES else None
    fields = {name: field for name, field in recording.fields.items() if not (left_out and name.startswith(left_out))}
    columns = {name: recording.columns[name][:, None] for name in fields}
    columns["done"] = columns["done"].copy()
    columns["done"][-1] = True
    return NumberedSteps(columns, fields)


@functools.cache
@SPENT.on("check")
def check_contract(kind: type[SequenceAdapter], prioritized: bool) -> None:
    sequence_checks.check(kind, prioritized=prioritized)


class FullBuffer:
    """A full buffer of a peer, to which the recording is added again and again, as one stream. If the job's sequences
    have no steps, it is the same buffer without sequences."""

    @SPENT.on("fill")
    def __init__(self, kind: type[SequenceAdapter], job: SequencesJob) -> None:
        """Raises `TooSlow` if filling takes longer than the job's limit, counted from the end of the first call, in
        which a peer may compile."""
        shape, steps = job.shape, recorded_steps(job.workload)
        spec = SequenceSpec(
            job.capacity, steps.fields, shape.steps - shape.burn_in, shape.burn_in, prioritized=job.is_prioritized
        )
        self.adapter, self.steps, self._at = kind.make(spec), steps, 0
        try:
            self._fill(job)
        except BaseException:
            self.close()
            raise

    def _fill(self, job: SequencesJob) -> None:
        begin = None
        for _, columns in zip(range(0, job.capacity + 1, STEPS_A_CALL), self.coming(STEPS_A_CALL), strict=False):
            # Copies, since a peer may keep what it is given.
            self.adapter.add({name: column.copy() for name, column in columns.items()})
            begin = begin or time.monotonic()
            if time.monotonic() - begin > job.fill_seconds:
                raise TooSlow(f"too slow for {job.capacity:,} steps: not full after {job.fill_seconds:g} s")

    def coming(self, steps: int) -> Iterator[Columns]:
        """Generate the next steps to add, so many at a time, without end. The recording has a multiple of them."""
        while True:
            at, self._at = self._at, (self._at + steps) % self.steps.steps
            yield {name: column[at : at + steps] for name, column in self.steps.columns.items()}

    def check(self, sequences: int, length: int) -> None:
        """Check a batch. Raises `WrongAnswer`."""
        self.steps.check(self.adapter.sequences, self.adapter.sample(sequences), sequences, length)

    def close(self) -> None:
        self.adapter.close()
