"""Rows of other fields than a step's come back bit for bit from every peer that says it can hold them."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.base import Field, Spec, Unavailable
from adapters.checks import AddedRows, as_dicts, check_overwriting, check_priorities, keyed_columns
from adapters.registry import adapter_class, every

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
        "kind": Field((), "uint8"),
    },
}

pytestmark = pytest.mark.usefixtures("nothing_left")


#: Peers of this environment.
HERE = [name for name in every() if adapter_class(name).environment is None]
FIXED = [name for name in HERE if not adapter_class(name).any_fields]


@pytest.fixture(params=[name for name in HERE if name not in FIXED])
def peer(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=ROWS.values(), ids=ROWS)
def fields(request: pytest.FixtureRequest) -> dict[str, Field]:
    return request.param


def batches(columns: dict[str, np.ndarray], rows: int) -> list[dict[str, np.ndarray]]:
    count = len(next(iter(columns.values())))
    return [{name: column[at : at + rows] for name, column in columns.items()} for at in range(0, count, rows)]


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
def test_rows_of_any_fields_come_back_whole(peer: str, fields: dict[str, Field], prioritized: bool) -> None:
    spec = Spec(capacity=64, fields=fields, prioritized=prioritized)
    columns = keyed_columns(fields, 90)
    first, second, third = batches(columns, 30)
    adapter = make(peer, spec)
    try:
        adapter.add_dicts(as_dicts(first))
        adapter.add_columns(batches(second, 10))
        adapter.add_batch(third, np.linspace(0.5, 1.5, 30) if prioritized else None)
        check_overwriting(adapter, spec, columns, batches=120)
    finally:
        adapter.close()


def test_rows_of_any_fields_are_drawn_by_priority(peer: str, fields: dict[str, Field]) -> None:
    spec = Spec(capacity=64, fields=fields, prioritized=True)
    adapter = make(peer, spec)
    try:
        check_priorities(adapter, spec, rows=32, batches=100)
    finally:
        adapter.close()


@pytest.mark.parametrize("peer", FIXED)
def test_fixed_fields_are_a_reason_and_no_error(peer: str, fields: dict[str, Field]) -> None:
    try:
        adapter_class(peer).version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with pytest.raises(NotImplementedError, match="obs, act, rew, next_obs, done, and no other fields"):
        adapter_class(peer).make(Spec(capacity=64, fields=fields))


@pytest.mark.parametrize("name", ROWS)
def test_keyed_rows_of_any_fields_differ(name: str) -> None:
    columns = keyed_columns(ROWS[name], 200)
    assert {key: (column.shape[1:], column.dtype.name) for key, column in columns.items()} == {
        key: (field.shape, field.dtype) for key, field in ROWS[name].items()
    }
    numbers = AddedRows(columns, ROWS[name]).check(columns)  # the first that is the same
    assert numbers.tolist() == list(range(200))


def test_the_rows_of_a_step_are_unchanged_as_dicts() -> None:
    columns = keyed_columns(FIELDS["Pendulum-v1"], 5)
    known = AddedRows(columns, FIELDS["Pendulum-v1"])
    again = {name: np.stack([step[name] for step in as_dicts(columns)]) for name in columns}
    assert known.check(again).tolist() == [0, 1, 2, 3, 4]
