"""Every peer returns what was added, overwrites the oldest rows, and draws by priority.

A peer that is not available on this platform (`Unavailable`) is skipped with its reason. A peer that should be
available but cannot be imported fails.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.base import Columns, Field, Spec, Step, Unavailable
from adapters.behaviours import GivenPriority, References
from adapters.checks import AddedRows, as_steps, check_overwriting, check_priorities, draw, keyed_columns
from adapters.registry import adapter_class

from .conftest import FIELDS, NUMBERS, make

CARTPOLE = FIELDS["CartPole-v1"]

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("fields", [*FIELDS.values(), NUMBERS], ids=[*FIELDS, "Taxi-v3"])
def test_rows_are_returned_unchanged(peer: str, fields: dict[str, Field], prioritized: bool) -> None:
    """Rows are returned bit for bit for every form that `add` accepts."""
    spec = Spec(capacity=256, fields=fields, prioritized=prioritized)
    columns = keyed_columns(spec.fields, 42)
    part = [{name: column[i : i + 6] for name, column in columns.items()} for i in range(0, 42, 6)]
    adapter = make(peer, spec)
    try:
        adapter.add(as_steps(part[0]))
        adapter.add_dicts([step._asdict() for step in as_steps(part[1])])
        adapter.add_batch(part[2])
        adapter.add_batches(as_batches(part[3], 3))
        adapter.add_lists([Step(*(column.tolist() for column in batch)) for batch in as_batches(part[4], 3)])
        if prioritized:
            adapter.add_with_priorities(as_steps(part[5]), np.linspace(0.5, 1.5, 6).tolist())
            adapter.add_batch(part[6], np.linspace(0.5, 1.5, 6))
        else:
            adapter.add(as_steps(part[5]) + as_steps(part[6]))
        check_overwriting(adapter, spec, columns, batches=36)
    finally:
        adapter.close()


def as_batches(columns: Columns, rows: int) -> list[Step]:
    """Return the columns as steps of `rows` rows each."""
    starts = range(0, len(columns["done"]), rows)
    return [Step(*(columns[name][at : at + rows] for name in Step._fields)) for at in starts]


def test_a_priority_passed_to_add_belongs_to_its_step(prioritized_peer: str) -> None:
    """If the library accepts no priority in `add`, the row is still stored."""
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True, alpha=1.0)
    columns = keyed_columns(CARTPOLE, 64)
    adapter = make(prioritized_peer, spec)
    try:
        adapter.add_with_priorities(as_steps(columns), [1e-3] * 32 + [50.0] * 32)
        number = AddedRows(columns, CARTPOLE).check(adapter.sample(16), 16)
    finally:
        adapter.close()
    takes_one = adapter.contract.given_priority is GivenPriority.TAKEN
    assert (number >= 32).mean() > 0.8 or not takes_one


def of_episodes(columns: Columns, frames: int) -> Columns:
    """Return the rows as episodes: unless `done`, next_obs is the next obs; stacks advance by one frame."""
    rows, shape = len(columns["done"]), columns["obs"].shape[1:-1]
    seen = (np.arange(2 * rows)[:, None] * 7 + np.arange(np.prod(shape))).astype(np.uint8).reshape(-1, *shape)
    ends, position, start, at, first = set(range(10, rows, 23)) | {rows - 1}, 0, 0, [], []
    for row in range(rows):
        at.append(position)
        first.append(start)
        position += 1
        if row in ends:
            position = start = position + 1
    at, first = np.array(at), np.array(first)
    shown = [
        np.stack([seen[np.maximum(now - back, first)] for back in range(frames - 1, -1, -1)], axis=-1)
        for now in (at, at + 1)
    ]
    done = np.isin(np.arange(rows), list(ends))
    return columns | {"obs": shown[0], "next_obs": shown[1], "done": done}


@pytest.mark.parametrize("in_batches", [False, True], ids=["add", "add_batch"])
@pytest.mark.parametrize(("next_of", "stack_compress"), [(True, False), (False, True), (True, True)])
def test_compressed_rows_are_returned_unchanged(
    compressing_peer: str, next_of: bool, stack_compress: bool, in_batches: bool
) -> None:
    spec = Spec(100, FIELDS["ALE/Seaquest-v5"], next_of=next_of, stack_compress=stack_compress)
    columns = of_episodes(keyed_columns(spec.fields, 240), 4)
    try:
        adapter = adapter_class(compressing_peer).make(spec)
    except (NotImplementedError, Unavailable) as reason:
        pytest.skip(str(reason))
    try:
        if in_batches:
            for batch in as_batches(columns, 30):
                adapter.add_batch(batch._asdict())
        else:
            adapter.add(as_steps(columns))
        check_overwriting(adapter, spec, columns)
    finally:
        adapter.close()


def test_an_operation_that_a_peer_lacks_is_refused_and_named_in_the_error() -> None:
    spec = Spec(8, CARTPOLE, next_of=True)
    with pytest.raises(NotImplementedError, match="baselines-style has no compression of next_obs or frames"):
        adapter_class("baselines-style").make(spec)


@pytest.mark.parametrize("single", [True, False], ids=["add", "add_batch"])
def test_the_oldest_rows_are_overwritten(peer: str, single: bool, prioritized: bool) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=prioritized)
    columns = keyed_columns(CARTPOLE, 150)  # a multiple of neither the capacity nor the batch size
    adapter = make(peer, spec)
    try:
        for first in range(0, 150, 25):
            part = {name: column[first : first + 25] for name, column in columns.items()}
            if single:
                adapter.add(as_steps(part))
            else:
                adapter.add_batch(part)
        check_overwriting(adapter, spec, columns)
    finally:
        adapter.close()


@pytest.mark.parametrize("batch_size", [1, 32])
def test_a_batch_has_the_shapes_and_types_of_the_workload(peer: str, prioritized: bool, batch_size: int) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=prioritized)
    columns = keyed_columns(CARTPOLE, 64)
    adapter = make(peer, spec)
    try:
        adapter.add_batch(columns)
        batch = draw(adapter, spec, batch_size)
    finally:
        adapter.close()
    AddedRows(columns, CARTPOLE).check(batch, batch_size)  # checks shape and dtype first
    more = {"weights", "indexes"} if prioritized else set()
    assert set(batch) == {*CARTPOLE, *more}
    assert all(np.shape(batch[name]) == (batch_size,) for name in more)


def part(columns: Columns, *bounds: int) -> Columns:
    return {name: column[slice(*bounds)] for name, column in columns.items()}


def test_a_learner_step_sets_priorities_that_affect_draws(prioritized_peer: str) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True, alpha=1.0)
    columns = keyed_columns(CARTPOLE, 84)
    known = AddedRows(columns, CARTPOLE)
    adapter = make(prioritized_peer, spec)
    try:
        adapter.add_batch(part(columns, 64), np.ones(64))
        chosen: set[int] = set()
        for first in (64, 68):  # a step with new shapes, and a second one like it
            batch = adapter.learner_step(as_steps(part(columns, first, first + 4)), 16, np.full(16, 1e3))
            chosen |= set(known.check(batch, 16).tolist())
        for _ in range(adapter.contract.batches_ahead):
            draw(adapter, spec, 16)
        overwritten = 0 if adapter.contract.batches_ahead else 4
        assert len(adapter) == 64 and chosen <= set(range(overwritten, 72))
        again = known.check(adapter.sample(8), 8)
    finally:
        adapter.close()
    likely = chosen | set(range(64, 72))  # new rows may have the largest priority
    assert adapter.contract.batches_ahead or sum(number in likely for number in again) >= 4


def test_a_learner_step_of_a_uniform_buffer_adds_and_samples(peer: str) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE)
    columns = keyed_columns(CARTPOLE, 80)
    known = AddedRows(columns, CARTPOLE)
    adapter = make(peer, spec)
    try:
        adapter.add_batch(part(columns, 64))
        for first in range(64, 80, 4):
            known.check(adapter.learner_step_uniform(as_steps(part(columns, first, first + 4)), 16), 16)
        check_overwriting(adapter, spec, columns)
    finally:
        adapter.close()


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_draws_weights_and_updates_follow_the_priorities(prioritized_peer: str, alpha: float) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True, alpha=alpha, beta=0.5, seed=7)
    adapter = make(prioritized_peer, spec)
    try:
        check_priorities(adapter, spec)
    finally:
        adapter.close()


def test_a_peer_declares_whether_it_keeps_references(peer: str) -> None:
    """A peer declared to copy on add must not see changes that the caller makes to the array afterwards."""
    spec = Spec(capacity=64, fields=CARTPOLE)
    columns = keyed_columns(CARTPOLE, 64)
    adapter = make(peer, spec)
    try:
        steps = as_steps(columns)
        adapter.add(steps)
        for step in steps:
            step.obs[:] = -1.0
        changed = bool((adapter.sample(32)["obs"] == -1.0).all())
    finally:
        adapter.close()
    assert changed == (adapter.contract.references is References.KEPT)


def test_a_prioritized_peer_accepts_a_capacity_that_is_not_a_power_of_two(prioritized_peer: str) -> None:
    spec = Spec(capacity=50, fields=CARTPOLE, prioritized=True)
    adapter = make(prioritized_peer, spec)
    try:
        check_priorities(adapter, replace(spec, seed=3), rows=50)
    finally:
        adapter.close()
