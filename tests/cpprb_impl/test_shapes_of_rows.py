"""A value whose axes are in a different order than those of its field is refused rather than reinterpreted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cpprb_impl import HindsightReplayBuffer, ReplayBuffer, ReverseReplayBuffer, SelectiveReplayBuffer

ROWS = [(2, 3), (3, 2), (1, 4), (4, 1), (2, 2), (3, 4, 4), (4, 4, 3), (1, 3, 3), (2, 3, 2, 2)]


def shapes_of(numbers: int, axes: int) -> list[tuple[int, ...]]:
    """Return every shape with this many axes and numbers."""
    lengths = [n for n in range(1, numbers + 1) if numbers % n == 0]
    return [shape for shape in itertools.product(lengths, repeat=axes) if math.prod(shape) == numbers]


def stored(buffer, value) -> np.ndarray | None:
    """Return what a buffer contains after `add`, or None if it refuses the value."""
    try:
        buffer.add(x=value)
    except ValueError as error:
        assert str(error) == f"x: shape {value.shape} does not hold rows of shape {buffer_shape(buffer)}"
        assert buffer.get_stored_size() == buffer.get_current_episode_len() == 0
        return None
    rows = buffer.get_all_transitions()["x"]
    buffer.clear()
    return rows


def buffer_shape(buffer) -> tuple[int, ...]:
    return buffer.get_all_transitions()["x"].shape[1:]


def is_batch_of(shape: tuple[int, ...], row: tuple[int, ...], rows: int) -> bool:
    """Return whether a batch has the axes of its rows in order, with some possibly merged, such as (rows, numbers)."""
    if len(shape) > len(row) or shape[0] != rows:
        return False
    ends = set(itertools.accumulate(row, initial=1, func=int.__mul__))
    return set(itertools.accumulate(shape[1:], func=int.__mul__)) <= ends


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_shape_with_as_many_axes_has_them_in_order_or_is_refused(make, row):
    buffer = make(8, {"x": {"shape": row}})
    for rows, more in itertools.product((1, 2, 3), (0, 1)):
        numbers = np.arange(rows * math.prod(row), dtype=np.float32)
        for shape in shapes_of(numbers.size, len(row) + more):
            given = stored(buffer, numbers.reshape(shape))
            fits = shape in (row, (rows, *row)) or is_batch_of(shape, row, rows)
            assert (given is not None) == fits, f"{shape} for rows of {row}"
            assert given is None or np.array_equal(given, numbers.reshape(rows, *row))


@pytest.mark.parametrize("row", [(84, 84, 3), (1, 84, 84, 3)], ids=str)
def test_an_image_with_fewer_axes_must_have_them_in_order(row):
    buffer = ReplayBuffer(4, {"x": {"shape": (1, 1, 3, 84, 84), "dtype": np.uint8}})
    image = np.zeros((3, 84, 84), np.uint8)
    assert stored(buffer, image).shape == (1, 1, 1, 3, 84, 84)
    assert stored(buffer, image.reshape(row)) is None


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_flat_data_is_split_into_rows(make, row):
    buffer = make(8, {"x": {"shape": row}})
    size = math.prod(row)
    for rows in (1, 2, 3):
        numbers = np.arange(rows * size, dtype=np.float32)
        for shape in ((rows * size,), (rows, size), (rows, row[0], *row[1:]), (1, rows, *row)):
            assert np.array_equal(stored(buffer, numbers.reshape(shape)), numbers.reshape(rows, *row))


@pytest.mark.parametrize("shape", [(), 1, (1, 1)])
def test_single_numbers_may_be_a_column(make, shape):
    buffer = make(8, {"x": {"shape": shape}})
    for column in ((3,), (3, 1), (1, 3), (3, 1, 1)):
        assert len(stored(buffer, np.arange(3, dtype=np.float32).reshape(column))) == 3


def test_rows_of_a_one_axis_field_may_be_passed_with_several_axes(make):
    buffer = make(8, {"x": {"shape": 12}})
    for shape in ((4, 3), (12, 1), (1, 12), (2, 4, 3), (2, 12), (24,)):
        assert stored(buffer, np.zeros(shape)).shape[1:] == (12,)


OTHERS = {
    "list": lambda field: ReplayBuffer(8, {"x": field}),
    "beside objects": lambda field: ReplayBuffer(8, {"x": field, "o": {"dtype": object}}),
    "objects": lambda field: ReplayBuffer(8, {"x": field | {"dtype": object}}),
    "n-step": lambda field: ReplayBuffer(8, {"x": field, "done": {}}, Nstep={"size": 2}),
    "frames": lambda field: ReplayBuffer(8, {"x": field}, next_of="x", stack_compress="x"),
    "environments": lambda field: ReplayBuffer(8, {"x": field}, n_envs=2),
    "reverse": lambda field: ReverseReplayBuffer(8, {"x": field}),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("rows", [1, 2])
def test_every_kind_of_buffer_refuses_a_different_order_of_axes(kind, rows):
    buffer = OTHERS[kind]({"shape": (2, 3), "dtype": np.float64})
    columns = {"x": np.zeros((rows, 3, 2)), "next_x": np.zeros((rows, 2, 3)), "done": np.zeros(rows)}
    value = columns["x"].tolist() if kind == "list" else columns["x"]
    others = {"o": [None] * rows, "done": columns["done"], "next_x": columns["next_x"]}
    needed = {"beside objects": ["o"], "n-step": ["done"], "frames": ["next_x"]}.get(kind, [])
    with pytest.raises(ValueError, match=r"x: shape \(\d, 3, 2\) does not hold rows of shape \(2, 3\)"):
        buffer.add(x=value, **{name: others[name] for name in needed})
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("rows", [1, 60])
def test_a_selective_buffer_refuses_a_different_order_of_axes(rows):
    """It does so even if only the first rows fit into the buffer."""
    buffer = SelectiveReplayBuffer(4, obs_shape=(2, 3))
    one = np.zeros(rows)
    with pytest.raises(ValueError, match="next_obs: shape"):
        buffer.add(np.zeros((rows, 2, 3)), one, one, np.zeros((rows, 3, 2)), one)
    assert buffer.get_stored_size() == 0
    buffer.add(np.zeros((rows, 2, 3)), one, one, np.ones((rows, 2, 3)), one)
    assert buffer.get_stored_size() == min(rows, 40)


def test_hindsight_refuses_a_different_order_of_axes():
    field = {"shape": (2, 3)}
    buffer = HindsightReplayBuffer(8, {"obs": field, "act": {}, "next_obs": field}, 4, reward_func=lambda *_: 0.0)
    goal = np.zeros((2, 3))
    with pytest.raises(ValueError, match="obs: shape"):
        buffer.add(obs=np.zeros((3, 2)), act=0.0, next_obs=goal)
    assert buffer.get_stored_size() == 0
