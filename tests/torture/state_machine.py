"""Random steps of three processes, on one shared buffer and on its model in plain Python."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from tests.cpprb_impl.model import Held, Model

from . import certified
from .certified import NARROW
from .worker import Worker

WORKERS = 2  # besides this process, which made the buffer
USERS = st.integers(0, WORKERS)
PRIORITIES = st.sampled_from([0.0, *(2.0**k for k in range(-3, 8))])


class SharedMachine(RuleBasedStateMachine):
    """The buffer, as each process sees it, and the model."""

    lock = "none"
    kinds = (MPReplayBuffer, MPPrioritizedReplayBuffer)

    @initialize(capacity=st.sampled_from([1, 3, 8, 30, 200]), prioritized=st.booleans())
    def begin(self, capacity: int, prioritized: bool) -> None:
        self.prioritized = prioritized
        options = {"alpha": 0.5, "eps": 0.0} if prioritized else {}
        self.buffer = self.kinds[prioritized](capacity, certified.env_dict(NARROW), lock=self.lock, **options)
        self.model = Model(capacity, None, (0.5, 0.0) if prioritized else None, check_for_update=True)
        self.added = 0
        self.users: list[Any] = [self.buffer, *(Worker(self.buffer) for _ in range(WORKERS))]
        # The last sample of each user: the indexes, and the transitions that were in those slots.
        self.drawn: list[tuple[np.ndarray, list[Held]] | None] = [None] * len(self.users)

    def teardown(self) -> None:
        if hasattr(self, "users"):
            for worker in self.users[1:]:
                worker.kill()
            self.buffer.close()

    # Adding.

    def _rows(self, count: int, data: st.DataObject) -> tuple[dict[str, np.ndarray], list[float] | None]:
        ids = certified.ids(1, self.added + 1, count)
        self.added += count
        rows, priorities = certified.rows(ids, NARROW), None
        if self.prioritized:
            few = data.draw(st.lists(PRIORITIES, min_size=1, max_size=6))
            priorities = (few * count)[:count]
            rows["priorities"] = np.array(priorities)
        return rows, priorities

    def _into_model(self, rows: dict[str, np.ndarray], priorities: list[float] | None) -> int:
        return self.model.add([{"id": row_id} for row_id in rows["id"].tolist()], priorities)

    @rule(user=USERS, count=st.one_of(st.just(1), st.integers(1, 9), st.integers(20, 70)), data=st.data())
    def add(self, user: int, count: int, data: st.DataObject) -> None:
        rows, priorities = self._rows(count, data)
        assert self.users[user].add(**rows) == self._into_model(rows, priorities)

    @rule(user=st.integers(1, WORKERS), count=st.integers(1, 9), data=st.data())
    def add_in_a_fork(self, user: int, count: int, data: st.DataObject) -> None:
        rows, priorities = self._rows(count, data)
        assert self.users[user].add_in_a_fork(**rows) == 0
        self._into_model(rows, priorities)

    @rule(user=USERS)
    def clear(self, user: int) -> None:
        self.users[user].clear()
        self.model.clear()

    # Learning.

    @rule(user=USERS, size=st.integers(0, 40))
    def sample(self, user: int, size: int) -> None:
        options = {"beta": 1.0} if self.prioritized else {}
        by_slot = self.model.by_slot()
        if not any(not self.prioritized or held.priority > 0 for held in by_slot.values()):
            with pytest.raises(ValueError, match="cannot sample"):
                self.users[user].sample(size, **options)
            return
        batch = self.users[user].sample(size, **options)
        assert not certified.torn(batch).any()
        drawn = batch["id"].ravel().tolist()
        if self.prioritized:
            indexes = batch["indexes"].ravel()
            held = [by_slot[index] for index in indexes.tolist()]
            assert drawn == [each.row["id"] for each in held] and all(each.priority > 0 for each in held)
            assert batch["weights"].tolist() == pytest.approx(self.model.weights(indexes.tolist(), 1.0), rel=1e-3)
            self.drawn[user] = indexes, held
        else:
            assert set(drawn) <= {each.row["id"] for each in by_slot.values()}

    @precondition(lambda self: any(self.drawn))
    @rule(data=st.data())
    def update_priorities(self, data: st.DataObject) -> None:
        """Update a user's last sample, however old: if a transition was overwritten, nothing may change."""
        user = data.draw(st.sampled_from([user for user, drawn in enumerate(self.drawn) if drawn]))
        indexes, held = self.drawn[user]
        self.drawn[user] = None
        few = data.draw(st.lists(PRIORITIES, min_size=1, max_size=6))
        priorities = (few * len(indexes))[: len(indexes)]
        self.users[user].update_priorities(indexes, np.array(priorities))
        for each, priority in zip(held, priorities, strict=True):
            each.priority = priority  # has no effect if the transition is no longer in the ring

    @precondition(lambda self: self.prioritized)
    @rule(user=USERS, explorer=USERS, other=USERS, count=st.integers(1, 9), data=st.data())
    def train(self, user: int, explorer: int, other: int, count: int, data: st.DataObject) -> None:
        """The usual cycle, with new transitions between sampling and update; then another user samples."""
        self.sample(user, 8)
        self.add(explorer, count, data)
        if any(self.drawn):
            self.update_priorities(data)
        self.sample(other, 8)

    # Closing and attaching.

    @rule(giver=USERS, user=st.integers(1, WORKERS))
    def attach(self, giver: int, user: int) -> None:
        self.users[user].attach(pickle.dumps(self.buffer) if giver == 0 else self.users[giver].dumps())
        self.drawn[user] = None

    @rule(user=st.integers(1, WORKERS))
    def close(self, user: int) -> None:
        """Close the buffer of one user; the others continue, and this one can attach again."""
        self.users[user].close()
        with pytest.raises(ValueError, match="closed"):
            self.users[user].get_stored_size()
        self.users[user].attach(pickle.dumps(self.buffer))
        self.drawn[user] = None

    @rule(user=st.integers(1, WORKERS))
    def kill(self, user: int) -> None:
        self.users[user].kill()
        self.users[user] = Worker(self.buffer)
        self.drawn[user] = None

    # After each step.

    @invariant()
    def every_process_sees_the_model(self) -> None:
        wanted = [held.row["id"] for held in self.model.by_slot().values()]
        for user in self.users:
            everything = user.get_all_transitions()
            assert not certified.torn(everything).any()
            assert everything["id"].ravel().tolist() == wanted
            assert user.get_stored_size() == len(wanted)
            assert user.get_next_index() == self.model.next_index
