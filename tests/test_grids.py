"""A grid of parameters covers each pair with quick tests, and all of its points with slow ones."""

from __future__ import annotations

from itertools import product

import pytest

from tests.grids import covering, pairs, pairwise


@pytest.mark.parametrize("lengths", [(3,), (2, 4), (2, 2, 2), (7, 15, 3), (3, 1, 2, 4), (2, 2, 3, 3, 4)], ids=str)
def test_each_pair_is_covered(lengths):
    points = set(product(*map(range, lengths)))
    chosen = covering(lengths)
    assert chosen <= points
    assert {pair for point in chosen for pair in pairs(point)} == {pair for point in points for pair in pairs(point)}


def test_few_points_are_quick():
    assert len(covering((3, 3, 3, 3))) <= 12  # of 81 points; the minimum is nine
    assert len(covering((7, 15, 3))) == 105


def test_the_other_points_are_slow():
    mark = pairwise(kind=[int, str], lock=["none", "buffer"], size=[1, 2]).mark
    names, cases = mark.args
    assert names == ("kind", "lock", "size")
    assert [case.values for case in cases] == list(product([int, str], ["none", "buffer"], [1, 2]))
    slow = [case.id for case in cases if case.marks]
    assert len(slow) == 4 and "int-none-1" not in slow
