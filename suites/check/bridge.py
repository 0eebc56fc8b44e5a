"""A buffer's functions as an adapter, for the probes that the conformance suite runs on adapters."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Array, Columns, Field, Spec, Step
from adapters.behaviours import Replacement
from adapters.checks import as_steps
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes
from suites.check.probes import numbered
from suites.check.probes.tracked import NO_ALPHA, manners
from suites.check.subject import CheckedBuffer, Subject

SHAPES = {"obs_shape": "obs", "act_shape": "act"}  # argument of make -> field
DTYPES = {"obs_dtype": "obs", "act_dtype": "act"}
ROUNDS = 300  # of updates, at most, until each new row has its priority


def adapter_of(subject: Subject) -> type[Adapter]:
    """Return a class whose buffers are made by the subject's functions."""

    class Bridge(_Bridge):
        contract = Contract(
            batch_add=yes() if subject.functions.has("add_batch") else no(),
            fields=Stated(RowFields.FIXED),
            priorities=yes() if subject.has_priorities and _alpha_is_known(subject) else no(),
            returns=Stated(Returns.COLUMNS),
            n_step=no(),
            disk=no(),
            framework="",
            licence="",
            eps=subject.functions.eps,
            largest=subject.functions.largest,
            next_of_rows=not subject.functions.accepts("add", "next_obs"),
            prioritized_replacement=Replacement.WITHOUT if subject.functions.withholds else Replacement.WITH,
        )

    Bridge.subject = subject
    return Bridge


def _alpha_is_known(subject: Subject) -> bool:
    return subject.can(alpha=None) or subject.functions.alpha is not None


class _Bridge(Adapter):
    name, distribution, usage = "the checked buffer", None, "called through its functions"
    subject: Subject

    def __init__(self, spec: Spec) -> None:
        self.fields, self.spec = spec.fields, spec
        self._buffer: CheckedBuffer = self.subject.make(spec.capacity, **self._asked(spec))
        if not spec.prioritized:
            self._buffer.ignore_priorities()
        self._stored: deque[bytes] = deque(maxlen=spec.capacity)
        self._priorities: dict[bytes, float] = {}  # by row: as last set through this class, or to be set
        self._due: set[bytes] = set()  # rows whose priorities are to be set once they are drawn
        self._drawn: list[bytes] = []  # the rows of the last batch
        self._returned = spec.fields
        self._waits = False  # for the update of a batch, which must come before the next

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        if spec.prioritized and cls.subject.has_priorities and not _alpha_is_known(cls.subject):
            return NO_ALPHA
        if reason := super().refusal(spec):
            return reason
        missing = [name for name in cls._asked(spec) if not cls.subject.can(**{name: None})]
        return f"make has no argument {missing[0]}" if missing else None

    @classmethod
    def _asked(cls, spec: Spec) -> Mapping[str, Any]:
        """Return the options that differ from the default, and those that `make` names in any case."""
        asked: dict[str, Any] = {}
        for name, field in SHAPES.items():
            if spec.fields[field].shape != numbered.FIELDS[field].shape:
                asked[name] = spec.fields[field].shape
        for name, field in DTYPES.items():
            if spec.fields[field].dtype != numbered.FIELDS[field].dtype:
                asked[name] = spec.fields[field].dtype
        if spec.prioritized and (cls.subject.can(alpha=None) or spec.alpha != cls.subject.functions.alpha):
            asked["alpha"] = spec.alpha
        optional = {"seed": spec.seed, "prioritized": spec.prioritized, "beta": spec.beta}
        return asked | {name: value for name, value in optional.items() if cls.subject.can(**{name: None})}

    @property
    def returned(self) -> Mapping[str, Field]:
        return self._returned

    def add(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._add(_named(step))

    def _add(self, step: Mapping[str, Any]) -> None:
        self._buffer.add(**step)
        self._stored.append(step["obs"].tobytes())

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        for step, priority in zip(steps, priorities, strict=True):
            self._add({**_named(step), "priority": priority})

    def add_batch(self, columns: Columns, priorities: Array | None = None) -> None:
        if priorities is not None and self.subject.functions.accepts("add", "priority"):
            self.add_with_priorities(as_steps(columns), priorities.tolist())
            return
        if self.subject.functions.has("add_batch"):
            self._buffer.add_batch(**columns)
            self._stored.extend(row.tobytes() for row in columns["obs"])
        else:
            self.add(as_steps(columns))
        if priorities is not None:
            self._set_priorities(columns, priorities)

    def _set_priorities(self, columns: Columns, priorities: Array) -> None:
        """Update the new rows after they were drawn, as a user must if `add` takes no priority: all at once if the
        buffer does not require an update of each batch, since a high priority hides the rows that are yet to be drawn.
        A row that is not drawn keeps the priority of a new row until it is drawn in a later call."""
        new = {row.tobytes(): priority for row, priority in zip(columns["obs"], priorities, strict=True)}
        self._priorities |= new
        self._due |= new.keys()
        drawable = list(self._stored)[1:-1] if self.contract.next_of_rows else self._stored
        one_by_one = self.contract.withholds_sampled_rows or manners(self.subject, self._asked(self.spec)).must_update
        batches: list[tuple[Any, list[bytes]]] = []
        for _ in range(ROUNDS):
            if self._due.isdisjoint(drawable) or self._waits:
                break
            batch = self.sample(min(16, len(new)))
            if self._priorities.keys() >= {*self._drawn} or self.contract.withholds_sampled_rows:
                batches.append((copy.deepcopy(batch["indexes"]), self._drawn))
                self._due -= {*self._drawn}
            while batches and one_by_one:
                self._update_drawn(*batches.pop())
        for indexes, drawn in batches:
            self._update_drawn(indexes, drawn)

    def _update_drawn(self, indexes: Any, drawn: list[bytes]) -> None:
        largest = max(self._priorities.values())  # which a row should have that was added without a priority
        self._drawn = drawn
        self.update_priorities(indexes, np.array([self._priorities.get(key, largest) for key in drawn]))

    def sample(self, batch_size: int) -> Columns:
        batch = self._converted(self._buffer.sample(batch_size, beta=self.spec.beta))
        unstored = {"next_obs"} if self.contract.next_of_rows else set()
        has = {"obs", *batch} - unstored
        self._returned = {name: field for name, field in self.fields.items() if name in has}
        if self.spec.prioritized:
            self._waits = self.contract.withholds_sampled_rows
            dtype = self.fields["obs"].dtype
            self._drawn = [row.tobytes() for row in np.ascontiguousarray(batch["obs"], dtype)]
        return batch

    def _converted(self, batch: Columns) -> Columns:
        """Return the batch, with integers as actions where the functions return floats of the same values.

        This is not done if `make` takes the dtype: its buffers must return that.
        """
        dtype, act = np.dtype(self.fields["act"].dtype), np.asarray(batch.get("act", 0))
        is_float = dtype.kind == "i" and act.dtype.kind == "f" and np.array_equal(act, np.rint(act))
        if not is_float or self.subject.can(act_dtype=None):
            return batch
        self.converted = frozenset({"act"})
        return {**batch, "act": act.astype(dtype)}

    def update_priorities(self, indexes: Array, priorities: Array) -> None:
        self._priorities.update(zip(self._drawn, priorities.tolist(), strict=False))
        self._buffer.update(indexes, priorities)
        self._waits = False

    def __len__(self) -> int:
        return len(self._buffer)


def _named(step: Iterable[Any]) -> dict[str, Any]:
    values = dict(zip(Step._fields, step, strict=True))
    return {**values, "terminated": bool(values["done"])}
