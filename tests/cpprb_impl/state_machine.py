"""Any calls in any order, on a buffer and on its model: Hypothesis searches for calls after which they disagree."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.contents.held import HeldSlots

from .drawn import FORMS, KINDS_OF_STEPS, Config, Steps, as_given, configs, ways_to_store
from .model import Model, Row

PRIORITIES = st.sampled_from([0.0, *(2.0**k for k in range(-3, 13))])  # the largest is usually unique
REFUSED = (KeyError, ValueError, TypeError, OverflowError, IndexError)


def same(ours: np.ndarray, wanted: np.ndarray) -> bool:
    if ours.dtype != wanted.dtype or ours.shape != wanted.shape:
        return False
    return ours.tolist() == wanted.tolist() if ours.dtype.hasobject else ours.tobytes() == wanted.tobytes()


class BufferMachine(RuleBasedStateMachine):
    """The buffer, its model, and the last saved file."""

    kinds = (ReplayBuffer, PrioritizedReplayBuffer)

    @initialize(config=configs(), rows=st.sampled_from([0, 10, 30, 100]), data=st.data())
    def begin(self, config: Config, rows: int, data: st.DataObject) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.config = config
        self.buffer = config.make(self.kinds, self.folder.name)
        self.model = config.model()
        self.steps = Steps(config)
        self.saved: tuple[bytes, Model] | None = None
        self.batch = self.batch_as_it_was = {}
        if rows:  # begins with many rows, which would take long to draw singly
            self._add(([*["goes on"] * 6, "done", *["goes on"] * 9, "jump", "goes on"] * 6)[:rows], "arrays", data)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.buffer.close()
            self.folder.cleanup()

    # Adding.

    @rule(kinds=st.lists(KINDS_OF_STEPS, min_size=1, max_size=9), form=FORMS, data=st.data())
    def add(self, kinds: list[str], form: str, data: st.DataObject) -> None:
        self._add(kinds, form, data)

    @rule(kinds=st.lists(KINDS_OF_STEPS, min_size=18, max_size=40), form=FORMS, data=st.data())
    def add_many(self, kinds: list[str], form: str, data: st.DataObject) -> None:
        self._add(kinds, form, data)

    def _add(self, kinds: list[str], form: str, data: st.DataObject) -> None:
        rows = [self.steps.take(what) for what in kinds]
        given = {**as_given(rows, form), "unknown": object()}
        priorities = None
        if self.config.prioritized and data.draw(st.booleans()):
            priorities = data.draw(st.lists(PRIORITIES, min_size=1, max_size=12))
            priorities = (priorities * len(rows))[: len(rows)]
            given["priorities"] = data.draw(st.sampled_from([list, np.array]))(priorities)
        assert self.buffer.add(**given) == self.model.add(rows, priorities)

    @rule(kinds=st.lists(KINDS_OF_STEPS, min_size=1, max_size=4), form=FORMS, data=st.data())
    def add_what_does_not_fit(self, kinds: list[str], form: str, data: st.DataObject) -> None:
        """Check that a refused add changes nothing, nor any later transition."""
        rows = [self.steps.take(what) for what in kinds]
        given = as_given(rows, form)
        name = data.draw(st.sampled_from(sorted(given)))
        column = np.stack([row[name] for row in rows])
        ways = ["missing", "wider", "longer", "text", "too large"] + ["priorities"] * self.config.prioritized
        way = data.draw(st.sampled_from(ways))
        if way == "missing":
            del given[name]
        elif way == "wider":
            given[name] = np.concatenate([column, column[..., :1], column[..., :1]], axis=-1)
        elif way == "longer":
            given[name] = np.concatenate([column, column])
        elif way == "text":
            given["number"] = "seven"
        elif way == "too large":
            given["number"] = [2**70] * len(rows)
        else:
            bad = data.draw(st.sampled_from([[np.nan], [np.inf], [-1.0], [1.0, 1.0]]))
            given["priorities"] = [1.0] * (len(rows) - 1) + bad
        with pytest.raises(REFUSED):
            self.buffer.add(**given)

    @rule()
    def on_episode_end(self) -> None:
        self.buffer.on_episode_end()
        self.model.on_episode_end()

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.model.clear()

    # Reading.

    @rule(size=st.integers(0, 40), into=st.booleans(), beta=st.sampled_from([0.0, 0.4, 1.0]))
    def sample(self, size: int, into: bool, beta: float) -> None:
        options = {"beta": beta} if self.config.prioritized else {}
        drawable = any(self.model.exponents is None or self.model.leaf(held) > 0 for held in self.model.held)
        if not drawable:
            with pytest.raises(ValueError, match="cannot sample"):
                self.buffer.sample(size, **options)
            return
        if into and self.config.other_dtype == "O":
            with pytest.raises(TypeError, match="objects"):
                self.buffer.sample(size, out={}, **options)
            return
        if into:
            kinds = self.config.fields()
            if self.config.prioritized:
                kinds |= {"weights": ((), np.dtype(np.float32)), "indexes": ((), np.dtype(np.int64))}
            out = {name: np.empty((size, *shape), dtype) for name, (shape, dtype) in kinds.items()}
            batch = self.buffer.sample(size, out=dict(out), **options)
            assert all(batch[name] is out[name] for name in out)
        else:
            batch = self.buffer.sample(size, **options)
        self.what_was_sampled_is_still_the_same()
        self.model.sampled(batch["indexes"].tolist() if self.config.prioritized else [])
        self._check_drawn(batch, size, beta)
        self.batch, self.batch_as_it_was = batch, copy.deepcopy(batch)

    def _check_drawn(self, batch: dict[str, np.ndarray], size: int, beta: float) -> None:
        rows = [{name: batch[name][i] for name in self.config.fields()} for i in range(size)]
        if self.config.prioritized:
            by_slot = self.model.by_slot()
            indexes = batch["indexes"].tolist()
            assert all(self.model.leaf(by_slot[index]) > 0 for index in indexes)
            wanted = [[by_slot[index].row] for index in indexes]
            assert batch["weights"].dtype == np.float32 and batch["weights"].shape == (size,)
            assert batch["weights"].tolist() == pytest.approx(self.model.weights(indexes, beta), rel=1e-3)
        else:
            # A row that was loaded twice may have been completed differently each time.
            held = [h.row for h in self.model.held]
            wanted = [[h for h in held if h["number"] == row["number"]] for row in rows]
        for row, candidates in zip(rows, wanted, strict=True):
            assert any(all(same(row[name], c[name]) for name in row) for c in candidates), f"no such row: {row}"

    @rule(data=st.data())
    def read_by_index(self, data: st.DataObject) -> None:
        by_slot = self.model.by_slot()
        indexes = data.draw(st.lists(st.sampled_from(sorted(by_slot)), max_size=8)) if by_slot else []
        from_the_end = data.draw(st.booleans()) * self.model.capacity
        rows = self.buffer._encode_sample([index - from_the_end for index in indexes])
        self._check_columns(rows, [by_slot[index].row for index in indexes])
        with pytest.raises(IndexError):
            self.buffer._encode_sample(
                [*indexes, data.draw(st.sampled_from([self.model.capacity, -1 - self.model.capacity]))]
            )

    @rule()
    def shuffled(self) -> None:
        shuffled = self.buffer.get_all_transitions(shuffle=True)
        order = np.argsort(shuffled["number"].ravel(), kind="stable")
        held = sorted((h.row for h in self.model.held), key=lambda row: row["number"][0])
        assert shuffled["number"][order].ravel().tolist() == [row["number"][0] for row in held]

    # Priorities.

    @precondition(lambda self: self.config.prioritized)
    @rule(kinds=st.lists(KINDS_OF_STEPS, max_size=6), form=FORMS, priority=PRIORITIES, data=st.data())
    def train(self, kinds: list[str], form: str, priority: float, data: st.DataObject) -> None:
        """Run the usual cycle, with new transitions between sampling and update."""
        self.sample(8, False, 0.4)
        if kinds:
            self._add(kinds, form, data)
        if len(self.batch.get("indexes", ())) and self.model.held:
            stored = self.model.slots()
            indexes = [index for index in self.batch["indexes"].tolist() if index in stored]
            priorities = [priority / 2 ** (i % 4) for i in range(len(indexes))]
            self.buffer.update_priorities(indexes, priorities)
            self.model.update_priorities(indexes, priorities)

    @precondition(lambda self: self.config.prioritized)
    @rule(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]))
    def update_priorities(self, data: st.DataObject, dtype: type) -> None:
        changes = data.draw(st.lists(st.tuples(st.sampled_from(self.model.slots() or [0]), PRIORITIES), max_size=6))
        indexes, priorities = [i for i, _ in changes], [p for _, p in changes]
        if changes and not self.model.held:
            with pytest.raises(IndexError):
                self.buffer.update_priorities(indexes, priorities)
            return
        self.buffer.update_priorities(np.array(indexes, np.int64), np.array(priorities, dtype))
        self.model.update_priorities(indexes, priorities)

    @precondition(lambda self: self.config.prioritized)
    @rule(bad=st.sampled_from(["index", "negative index", "empty slot", "nan", "inf", "negative", "length"]))
    def update_what_can_not_be(self, bad: str) -> None:
        indexes, priorities = self.model.slots()[:2], [30.0] * len(self.model.held)
        priorities = priorities[:2]
        free = set(range(self.model.capacity)) - set(self.model.slots())
        index = {"index": self.model.capacity, "negative index": -1, "empty slot": min(free, default=None)}.get(bad)
        if bad in ("index", "negative index", "empty slot"):
            if index is None:
                return
            indexes, priorities = [*indexes, index], [*priorities, 30.0]
        elif bad == "length":
            priorities = [*priorities, 30.0]
        elif indexes:
            priorities[-1] = {"nan": np.nan, "inf": np.inf, "negative": -1.0}[bad]
        else:
            return
        with pytest.raises((IndexError, ValueError)):
            self.buffer.update_priorities(indexes, priorities)

    # Copies and files.

    @rule(way=st.sampled_from([copy.deepcopy, copy.copy, lambda b: pickle.loads(pickle.dumps(b))]))
    def go_on_with_a_copy(self, way) -> None:
        if self.config.mmap:
            with pytest.raises(TypeError, match="mmap_prefix"):
                way(self.buffer)
            return
        twin = way(self.buffer)
        self._check(twin)
        self.buffer.clear()  # must not affect the copy
        self.buffer.close()
        self.buffer = twin

    @rule()
    def save(self) -> None:
        stream = io.BytesIO()
        if self.config.other_dtype == "O":
            with pytest.raises(ValueError, match="other"):
                self.buffer.save_transitions(stream)
            return
        self.buffer.save_transitions(stream)
        self.saved = stream.getvalue(), copy.deepcopy(self.model)

    @precondition(lambda self: self.saved)
    @rule()
    def load(self) -> None:
        """Load a file into this buffer, which may be empty, or may already contain those transitions."""
        file, model = self.saved
        self.buffer.load_transitions(io.BytesIO(file))
        self.model.load(model)

    @precondition(lambda self: self.saved)
    @rule(at=st.floats(0, 1, exclude_max=True))
    def load_what_was_cut_short(self, at: float) -> None:
        file, _ = self.saved
        with pytest.raises(ValueError, match=r"^the file"):
            self.buffer.load_transitions(io.BytesIO(file[: int(len(file) * at)]))

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def load_into_another(self, data: st.DataObject) -> None:
        """Continue with another buffer, with a possibly different capacity, exponents or way of storing."""
        file, model = self.saved
        changed = data.draw(ways_to_store(self.config.other_dtype))
        if data.draw(st.booleans()):
            changed["capacity"] = data.draw(st.sampled_from([1, 4, 8, 30]))
        if data.draw(st.booleans()):
            changed["exponents"] = (data.draw(st.sampled_from([0.0, 0.5, 0.9])), 1e-3)
            changed["prioritized"] = data.draw(st.booleans())
        config = replace(self.config, **changed)
        other = config.make(self.kinds, self.folder.name)
        other.load_transitions(io.BytesIO(file))
        self.buffer.close()
        self.config, self.buffer, self.model = config, other, config.model()
        self.model.load(model)

    # After each call.

    @invariant()
    def buffer_is_as_the_model(self) -> None:
        self._check(self.buffer)

    @invariant()
    def what_was_sampled_is_still_the_same(self) -> None:
        for name, column in self.batch_as_it_was.items():
            assert same(self.batch[name], column), f"the {name} of an earlier sample have changed"

    def _check(self, buffer: ReplayBuffer) -> None:
        model = self.model
        assert buffer.get_buffer_size() == model.capacity
        assert buffer.get_stored_size() == len(model.held)
        assert buffer.get_next_index() == model.next_index
        assert buffer.get_current_episode_len() == model.episode_len
        assert buffer.is_Nstep() == bool(model.steps)
        self._check_columns(buffer.get_all_transitions(), [held.row for held in model.by_slot().values()])
        if self.config.prioritized:
            # Leaves are floats, so a priority close to the largest counts as the largest.
            assert buffer.get_max_priority() == pytest.approx(model.largest, rel=1e-3)
            leaves = buffer._get_leaves(HeldSlots(buffer)[:]).tolist()
            assert leaves == pytest.approx([model.leaf(held) for held in model.held], rel=1e-3)

    def _check_columns(self, columns: dict[str, np.ndarray], rows: list[Row]) -> None:
        assert columns.keys() == self.config.fields().keys()
        for name, (shape, dtype) in self.config.fields().items():
            wanted = np.array([row[name] for row in rows], dtype).reshape(-1, *shape)
            assert same(columns[name], wanted), f"{name}:\n{columns[name]}\nis not\n{wanted}"
