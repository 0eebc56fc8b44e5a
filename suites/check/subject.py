"""A buffer under check, called through its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adapters.base import Array, Columns
from suites.check import last_call
from suites.check.functions import DRAW, OPTIONS, STEP, BufferFunctions, NotApplicable

#: Arguments of `add` that a probe need not pass.
UNSAID: Mapping[str, Any] = {
    "terminated": False,
    "truncated": False,
    "env": 0,
    "first": False,
    "info": 0,
    **{name: np.zeros(1, np.float32) for name in ("achieved_goal", "next_achieved_goal", "desired_goal")},
}


class PanicException(Exception):  # noqa: N818 (pyo3's name)
    """A panic of Rust code, as an `Exception`, which the exception of this name in pyo3 is not."""


PROCESSES = 4  # of a buffer that claims to be shared


@dataclass(frozen=True)
class CheckSettings:
    """How much is checked."""

    draws: int = 4_000  # per test of a distribution
    patience: float = 5.0  # seconds after which a call counts as blocked forever
    seed: int = 0
    seconds: float = 60.0  # for all probes together
    memory: int = 2 << 30  # bytes that the buffer's process may take beside those it has after the import
    processes: int = 0  # that use a buffer at the same time, and threads; 0: as many as the buffer claims


@dataclass(frozen=True)
class Subject:
    """The buffer to check, in one way of using it."""

    functions: BufferFunctions
    setting: CheckSettings = CheckSettings()
    way: str = ""  # a name in `BufferFunctions.ways`, or "" for the plain way
    options: Mapping[str, Any] = field(default_factory=dict)  # of the way

    @property
    def processes(self) -> int:
        """Return how many processes use a buffer at the same time; 0 if it claims no such use."""
        return self.setting.processes or (PROCESSES if self.functions.shared else 0)

    @property
    def has_priorities(self) -> bool:
        return self.functions.has("update")

    @property
    def other_rows(self) -> list[str]:
        """Return the options of the way with which a batch's rows are not those that were added."""
        return [name for name in ("n_step", "stack", "envs", "length") if self.options.get(name, 1) != 1]

    def ways(self) -> list[Subject]:
        """Return the subject in each way of using it, the plain one first."""
        return [self] + [replace(self, way=name, options=more) for name, more in self.functions.ways.items()]

    def can(self, **asked: Any) -> bool:
        """Return whether `make` can be asked for these options."""
        return all(name in self.options or self.functions.accepts("make", name) for name in asked)

    def make(self, capacity: int, **asked: Any) -> CheckedBuffer:
        """Return an empty buffer with these options (`OPTIONS`) and those of the way. Raises `NotApplicable` if `make`
        does not name one of them, and whatever the buffer raises."""
        if missing := [name for name in asked if not self.can(**{name: None})]:
            raise NotApplicable(f"make has no argument {missing[0]}")
        passed = {name: value for name, value in OPTIONS.items() if self.functions.accepts("make", name)}
        passed |= {"seed": self.setting.seed} if "seed" in passed else {}
        passed |= asked | dict(self.options)
        if not self.functions.takes_any("make"):  # an option may only tell the probes what to expect
            passed = {name: value for name, value in passed.items() if self.functions.accepts("make", name)}
        last_call.note(f"make({', '.join([str(capacity), *(f'{name}={value!r}' for name, value in passed.items())])})")
        return CheckedBuffer(self, _call(self.functions.named["make"], capacity, **passed))


class CheckedBuffer:
    """A buffer, called through the subject's functions."""

    def __init__(self, subject: Subject, buffer: Any) -> None:
        self.subject, self.buffer, self._functions = subject, buffer, subject.functions
        self._ignores = False
        self._unset: tuple[Any, int] | None = None  # indexes and size of a batch that must be updated first

    def ignore_priorities(self) -> CheckedBuffer:
        """Return this buffer, which from now on updates each batch if it withholds sampled rows until then."""
        self._ignores = self._functions.withholds and self._functions.has("update")
        return self

    def _settle(self) -> None:
        if self._unset is not None:
            indexes, rows = self._unset
            self.update(indexes, np.ones(rows))

    def add(self, **step: Any) -> None:
        """Store one step, given as the arguments in `STEP`. `done` defaults to "terminated or truncated". Raises
        `NotApplicable` if a truncated step cannot be told from a terminal one, or the buffer has no environments."""
        step = {**UNSAID, **step}
        step.setdefault("done", bool(step["terminated"] or step["truncated"]))
        accepts = self._functions.accepts
        if step["env"] and not accepts("add", "env"):
            raise NotApplicable("add has no argument env")
        self._settle()
        last_call.note("add")
        _call(
            self._functions.named["add"],
            self.buffer,
            **{k: v for k, v in step.items() if k in STEP and accepts("add", k)},
        )

    def add_batch(self, **fields: Array) -> None:
        """Store the rows of these columns, (rows, *shape) each, which have no ends by time limit."""
        function = self._functions.require("add_batch")
        rows = len(fields["obs"])
        ends = {"done": np.zeros(rows, bool)} | fields
        ends = {"terminated": ends["done"], "truncated": np.zeros(rows, bool)} | ends
        accepts = self._functions.accepts
        self._settle()
        last_call.note(f"add_batch of {rows} rows")
        _call(function, self.buffer, **{k: v for k, v in ends.items() if accepts("add_batch", k)})

    def sample(self, size: int, **asked: Any) -> Columns:
        """Return a batch of columns as arrays, which may share memory with the buffer."""
        passed = {k: v for k, v in asked.items() if k in DRAW and self._functions.accepts("sample", k)}
        self._settle()
        last_call.note(f"sample({size})")
        batch = columns(_call(self._functions.named["sample"], self.buffer, size, **passed))
        if self._ignores and "indexes" in batch:
            self._unset = batch["indexes"], size
        return batch

    def windows(self, size: int, length: int) -> Columns:
        """Return a batch of sequences, (size, length, *shape) each."""
        function = self._functions.require("windows")
        last_call.note(f"windows({size}, {length})")
        return columns(_call(function, self.buffer, size, length))

    def at(self, indexes: Any) -> Columns:
        """Return the rows with these indexes, which a batch had."""
        function = self._functions.require("at")
        last_call.note("at")
        return columns(_call(function, self.buffer, indexes))

    def cut(self) -> None:
        """End the episode in progress after its newest step."""
        function = self._functions.require("cut")
        last_call.note("cut")
        _call(function, self.buffer)

    def update(self, indexes: Any, priorities: Array) -> None:
        function = self._functions.require("update")
        last_call.note("update")
        _call(function, self.buffer, indexes, priorities)
        self._unset = None

    def __len__(self) -> int:
        return int(_call(self._functions.require("size"), self.buffer))


def _call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    try:
        return function(*args, **named)
    except BaseException as error:
        if type(error).__name__ != PanicException.__name__:
            raise
        raise PanicException(str(error)).with_traceback(error.__traceback__) from None
    finally:
        last_call.returned()


def columns(batch: Mapping[str, Any]) -> Columns:
    """Return the columns of a batch as arrays, and its indexes, which `update` is passed, as they are. Flags become
    bool, which many libraries return as floats."""
    arrays = {name: value if name == "indexes" else np.asarray(value) for name, value in batch.items()}
    if (done := arrays.get("done")) is not None and np.all((done == 0) | (done == 1)):
        arrays["done"] = done.astype(bool)
    return arrays
