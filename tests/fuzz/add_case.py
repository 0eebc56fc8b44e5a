"""One case of fuzzing `add`: a few calls on a small buffer, each checked.

The oracle: a call that raises has changed nothing; a call that returns has stored the values as NumPy converts them.
"""

from __future__ import annotations

import contextlib
import gc
import random
import warnings
from typing import Any

import numpy as np

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

from . import values

EXPECTED = (TypeError, ValueError, OverflowError, KeyError, RecursionError, values.RefusedError)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays have the same dtype and values. NaN and NaT equal themselves; padding is ignored."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.names:
        return all(same(a[name], b[name]) for name in a.dtype.names)
    if a.tobytes() == b.tobytes():
        return True
    return a.dtype.kind in "fcmM" and bool(np.all((a == b) | ((a != a) & (b != b))))


class State:
    """The contents of a buffer, oldest row first."""

    def __init__(self, buffer: Any) -> None:
        stored, capacity, following = buffer.get_stored_size(), buffer.get_buffer_size(), buffer.get_next_index()
        slots = [(following - back) % capacity for back in range(stored, 0, -1)]
        in_slot_order = np.argsort(np.argsort(slots)) if slots else []
        held = buffer.get_all_transitions()
        self.rows = {name: column[in_slot_order] if slots else column for name, column in held.items()}
        self.following = following
        self.episode = buffer.get_current_episode_len()
        self.largest = buffer.get_max_priority() if isinstance(buffer, PrioritizedReplayBuffer) else 1.0

    def differs(self, other: State) -> str:
        """Return what is different, or an empty string."""
        for name in ("following", "episode", "largest"):
            if getattr(self, name) != getattr(other, name):
                return f"{name}: {getattr(self, name)} and {getattr(other, name)}"
        for name, column in self.rows.items():
            if not same(column, other.rows[name]):
                return f"{name}:\n{column!r}\nand\n{other.rows[name]!r}"
        return ""

    def after(self, new: dict[str, np.ndarray], priorities: np.ndarray | None, capacity: int) -> State:
        rows = len(next(iter(new.values())))
        next_state = object.__new__(State)
        next_state.rows = {
            name: np.concatenate([old, new[name]], dtype=old.dtype)[-capacity:] for name, old in self.rows.items()
        }
        next_state.following = (self.following + rows) % capacity
        next_state.episode = self.episode + rows
        next_state.largest = self.largest if priorities is None else max(self.largest, priorities.max())
        return next_state


class Case:
    """A buffer, and what the objects passed to it do when they are converted."""

    def __init__(self, rng: random.Random, plain: type = ReplayBuffer, prioritized: type = PrioritizedReplayBuffer):
        self.rng = rng
        count = rng.choice([1, 2, 2, 3, 3, 20])
        self.fields = {
            f"f{i}": {"dtype": np.dtype(rng.choice(values.FIELD_DTYPES)), "shape": rng.choice(values.SHAPES)}
            for i in range(count)
        }
        self.prioritized = rng.randrange(2) == 1
        self.buffer = (prioritized if self.prioritized else plain)(rng.randrange(1, 9), self.fields)
        self.arrays: list[np.ndarray] = []
        self.quiet = self.mutated = self.closed = False
        self.stored = self.refused = 0

    def look(self) -> None:
        self.before = State(self.buffer)

    def act(self) -> None:
        """Run something in the middle of a conversion: often a call of the same buffer."""
        if self.quiet or self.closed:
            return
        deed = self.rng.choice(["none", "raise", "add", "sample", "clear", "mutate", "collect", "close", "update"])
        if deed == "raise":
            raise values.RefusedError
        if deed == "mutate" and self.arrays:
            self.mutate(self.rng.choice(self.arrays))
        if deed == "collect":
            gc.collect(0)
        if deed == "close" and self.rng.randrange(8) == 0:
            self.closed = True
            self.buffer.close()
            return
        if deed == "add":
            self.buffer.add(**{name: np.zeros((2, *f["shape"]), f["dtype"]) for name, f in self.fields.items()})
        if deed == "sample" and self.buffer.get_stored_size():
            self.buffer.sample(2)
        if deed == "clear":
            self.buffer.clear()
        if deed == "update" and self.prioritized and self.buffer.get_stored_size():
            last = (self.buffer.get_next_index() - 1) % self.buffer.get_buffer_size()
            self.buffer.update_priorities([last], [self.rng.random() + 0.1])
        self.look()

    def mutate(self, array: np.ndarray) -> None:
        self.mutated = True
        deeds = [
            lambda: array.resize(1, refcheck=False),
            lambda: setattr(array, "dtype", np.uint8),
            lambda: array.fill(0),
        ]
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # not every array can be changed in every way
            self.rng.choice(deeds)()

    def call(self) -> None:
        """Make one call of `add`, and check it."""
        rows = self.rng.choice([1, 1, 2, 3, 7, 20])
        given: dict[str, Any] = {
            name: values.value(self.rng, self.act, field["shape"], field["dtype"], rows)
            for name, field in self.fields.items()
        }
        if len(given) > 1 and self.rng.randrange(3) == 0:  # values seldom fit all fields
            keep = self.rng.choice(list(given))
            given |= {n: np.zeros((rows, *f["shape"]), f["dtype"]) for n, f in self.fields.items() if n != keep}
        if self.rng.randrange(16) == 0:
            del given[self.rng.choice(list(given))]
        if self.rng.randrange(16) == 0:
            given["unknown"] = values.scalar(self.rng)
        if self.prioritized and self.rng.randrange(2):
            given["priorities"] = values.value(self.rng, self.act, (), np.dtype("f8"), rows)
        # Arrays that add reads without a conversion: to resize one while NumPy converts it would crash NumPy.
        self.arrays = [
            given[name]
            for name, field in self.fields.items()
            if type(given.get(name)) is np.ndarray and given[name].dtype == field["dtype"]
        ]
        self.mutated = self.quiet = False
        self.look()
        try:
            first = self.buffer.add(**given)
        except EXPECTED:
            self.refused += 1
            changed = not self.closed and State(self.buffer).differs(self.before)
            assert not changed, f"add raised, and the buffer has changed: {changed}"
            return
        assert not self.closed, "a buffer that was closed meanwhile took the rows"
        assert first == self.before.following
        self.stored += 1
        if not self.mutated:
            self.quiet = True
            wrong = State(self.buffer).differs(self.expected(given))
            assert not wrong, f"what is stored is not what NumPy makes of the values: {wrong}"
        if self.prioritized:
            batch = self.buffer.sample(3)
            assert np.isfinite(batch["weights"]).all()

    def expected(self, given: dict[str, Any]) -> State:
        new = {
            name: np.asarray(given[name], field["dtype"]).reshape(-1, *field["shape"])
            for name, field in self.fields.items()
        }
        priorities = given.get("priorities") if self.prioritized else None
        if priorities is not None:
            priorities = np.asarray(priorities, np.float64)
        return self.before.after(new, priorities, self.buffer.get_buffer_size())


def run(rng: random.Random, **kinds: type) -> Case:
    """Run a case of some calls. Raises AssertionError if the buffer is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = Case(rng, **kinds)
        for _ in range(rng.randrange(1, 6)):
            if not case.closed:
                case.call()
    return case
