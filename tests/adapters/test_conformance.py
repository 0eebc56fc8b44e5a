"""Every peer gives back what it was given, forgets the oldest, and draws by priority.

A peer that can't be had on this platform (`Unavailable`) is skipped with its reason; one that should
be here and can't be imported fails.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.base import Spec
from adapters.checks import AddedRows, as_steps, check_overwriting, check_priorities, draw, keyed_columns
from adapters.registry import PEERS

from .conftest import FIELDS, make

CARTPOLE = FIELDS["CartPole-v1"]

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(params=list(PEERS))
def peer(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("workload", list(FIELDS))
def test_rows_come_back_whole(peer: str, workload: str, prioritized: bool) -> None:
    """Added one by one, in a batch and, where prioritized, in a batch with priorities: bit for bit the same rows."""
    spec = Spec(capacity=256, fields=FIELDS[workload], prioritized=prioritized)
    columns = keyed_columns(spec.fields, 120)
    part = [{name: column[i : i + 40] for name, column in columns.items()} for i in (0, 40, 80)]
    adapter = make(peer, spec)
    try:
        adapter.add(as_steps(part[0]))
        adapter.add_batch(part[1])
        adapter.add_batch(part[2], np.linspace(0.5, 1.5, 40) if prioritized else None)
        check_overwriting(adapter, spec, columns)
    finally:
        adapter.close()


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("single", [True, False], ids=["add", "add_batch"])
def test_the_oldest_rows_are_overwritten(peer: str, single: bool, prioritized: bool) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=prioritized)
    columns = keyed_columns(CARTPOLE, 150)  # neither a multiple of the capacity nor of the batch
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
def test_a_batch_has_the_workloads_shapes_and_kinds(peer: str, batch_size: int) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True)
    columns = keyed_columns(CARTPOLE, 64)
    adapter = make(peer, spec)
    try:
        adapter.add_batch(columns)
        batch = draw(adapter, spec, batch_size)
    finally:
        adapter.close()
    AddedRows(columns, CARTPOLE).check(batch, batch_size)  # looks at shape and dtype first
    assert set(batch) == {*CARTPOLE, "weights", "indexes"}
    assert np.shape(batch["weights"]) == np.shape(batch["indexes"]) == (batch_size,)


@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_draws_weights_and_updates_follow_the_priorities(peer: str, alpha: float) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True, alpha=alpha, beta=0.5, seed=7)
    adapter = make(peer, spec)
    try:
        check_priorities(adapter, spec)
    finally:
        adapter.close()


def test_references_are_declared(peer: str) -> None:
    """A peer said to copy on add does not see the caller change the array afterwards."""
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
    assert changed == adapter.features.copies_on_add.startswith("no")


def test_a_priority_peer_takes_capacity_that_is_no_power_of_two(peer: str) -> None:
    spec = Spec(capacity=50, fields=CARTPOLE, prioritized=True)
    adapter = make(peer, spec)
    try:
        check_priorities(adapter, replace(spec, seed=3), rows=50)
    finally:
        adapter.close()
