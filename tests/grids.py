"""Grids of parameters, of which the quick tests take only some points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Point = tuple[int, ...]  # for each axis, the index of a value


def pairs(point: Point) -> set[tuple[tuple[int, int], ...]]:
    """Return the pairs of values, each value as (axis, index)."""
    return set(combinations(enumerate(point), 2))


def covering(lengths: Sequence[int]) -> set[Point]:
    """Return few points that contain each value, and each pair of values of two axes."""
    points = list(product(*map(range, lengths)))
    if len(lengths) < 3:
        return set(points)
    of_each = {point: pairs(point) for point in points}
    missing, chosen = set().union(*of_each.values()), set()
    while missing:
        best = max(points, key=lambda point: len(of_each[point] & missing))
        missing -= of_each[best]
        chosen.add(best)
    return chosen


def label(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


def pairwise(*, indirect: Collection[str] = (), **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test over the product of `axes`, each the values of an argument.

    Quick tests use points that contain each pair of values; all other points are marked slow. A quick test therefore
    finds any fault that depends on at most two arguments. `indirect` names the arguments that are fixtures.
    """
    values = [list(axis) for axis in axes.values()]
    quick = covering([len(axis) for axis in values])
    points = product(*(range(len(axis)) for axis in values))
    return pytest.mark.parametrize(
        tuple(axes),
        [
            pytest.param(
                *(axis[at] for axis, at in zip(values, point, strict=True)),
                id="-".join(label(axis[at]) for axis, at in zip(values, point, strict=True)),
                marks=() if point in quick else pytest.mark.slow,
            )
            for point in points
        ],
        indirect=list(indirect),
    )
