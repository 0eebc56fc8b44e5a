"""Rows with any fields are returned bit for bit by every peer whose contract allows them."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.base import Adapter, Field, Spec, Unavailable
from adapters.checks import AddedRows, as_dicts, check_overwriting, check_priorities, keyed_columns
from adapters.registry import adapter_class

from .conftest import FIELDS, make

ROWS = {
    "dictionary": {
        "obs.image": Field((16, 16, 3), "uint8"),
        "obs.state": Field((4,), "float32"),
        "act": Field((2,), "float32"),
        "rew": Field((), "float32"),
        "next_obs.image": Field((16, 16, 3), "uint8"),
        "next_obs.state": Field((4,), "float32"),
        "done": Field((), "bool"),
    },
    "sequence": {
        "obs": Field((80, 4), "float32"),
        "act": Field((80,), "int32"),
        "rew": Field((80,), "float32"),
        "done": Field((80,), "bool"),
        "mask": Field((80,), "bool"),
    },
    "odd": {
        "position": Field((3,), "float32"),
        "counts": Field((5,), "int16"),
        "flags": Field((2, 3), "bool"),
        "kind": Field((), "int32"),
        "level": Field((), "uint8"),
    },
}

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(params=ROWS.values(), ids=ROWS)
def fields(request: pytest.FixtureRequest) -> dict[str, Field]:
    return request.param


def batches(columns: dict[str, np.ndarray], rows: int) -> list[dict[str, np.ndarray]]:
    count = len(next(iter(columns.values())))
    return [{name: column[at : at + rows] for name, column in columns.items()} for at in range(0, count, rows)]


def made(peer: str, spec: Spec) -> Adapter:
    """Make the adapter. Skip the test if its constructor refuses the fields, as the report then says."""
    try:
        return make(peer, spec)
    except NotImplementedError as reason:
        pytest.skip(str(reason))


def test_rows_of_any_fields_are_returned_unchanged(flexible_peer: str, fields: dict[str, Field]) -> None:
    spec = Spec(capacity=64, fields=fields)
    columns = keyed_columns(fields, 90)
    first, second, third = batches(columns, 30)
    adapter = made(flexible_peer, spec)
    try:
        adapter.add_dicts(as_dicts(first))
        adapter.add_columns(batches(second, 10))
        adapter.add_batch(third)
        check_overwriting(adapter, spec, columns, batches=120)
    finally:
        adapter.close()


def test_rows_of_any_fields_are_drawn_by_priority(flexible_prioritized_peer: str, fields: dict[str, Field]) -> None:
    spec = Spec(capacity=64, fields=fields, prioritized=True)
    adapter = made(flexible_prioritized_peer, spec)
    try:
        check_priorities(adapter, spec, rows=32, batches=100)
    finally:
        adapter.close()


def test_a_peer_with_fixed_fields_refuses_other_fields(fixed_peer: str, fields: dict[str, Field]) -> None:
    try:
        adapter_class(fixed_peer).version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with pytest.raises(NotImplementedError, match="obs, act, rew, next_obs, done, and no other fields"):
        adapter_class(fixed_peer).make(Spec(capacity=64, fields=fields))


@pytest.mark.parametrize("name", ROWS)
def test_keyed_rows_of_any_fields_are_all_different(name: str) -> None:
    columns = keyed_columns(ROWS[name], 200)
    assert {key: (column.shape[1:], column.dtype.name) for key, column in columns.items()} == {
        key: (field.shape, field.dtype) for key, field in ROWS[name].items()
    }
    numbers = AddedRows(columns, ROWS[name]).check(columns)  # the number of the first equal row
    assert numbers.tolist() == list(range(200))


def test_converting_steps_to_dicts_changes_no_value() -> None:
    columns = keyed_columns(FIELDS["Pendulum-v1"], 5)
    known = AddedRows(columns, FIELDS["Pendulum-v1"])
    again = {name: np.stack([step[name] for step in as_dicts(columns)]) for name in columns}
    assert known.check(again).tolist() == [0, 1, 2, 3, 4]
