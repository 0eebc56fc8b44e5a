"""Hooks for features written in Python run before add() and after every batch."""

from __future__ import annotations

import numpy as np
import pytest

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.layout.layout import Layout

LAYOUT = Layout(4, [("x", np.dtype(np.float32), (1,))], {}, prioritized=False)


class Twice:
    def _add_through(self, **rows):
        return self._add_rows(**{**rows, "x": 2 * rows["x"]})

    def _batch_through(self, batch, indexes=None):
        return {**batch, "seen": len(batch["x"])}


class TwiceRing(Twice, Ring):
    pass


class TwicePrioritizedRing(Twice, PrioritizedRing):
    pass


@pytest.mark.parametrize("kind", [TwiceRing, TwicePrioritizedRing])
def test_add_and_every_batch_call_the_python_hooks(kind) -> None:
    ring = kind(LAYOUT, add_through_python=True, batch_through_python=True)
    assert ring.add(x=np.float32(3)) == 0
    for batch in (ring.sample(2), ring.get(np.array([0, 0])), {**ring.get_all_transitions(), "seen": 2}):
        assert (batch["x"] == 6).all()
        assert batch["seen"] == 2


@pytest.mark.parametrize("kind", [TwiceRing, TwicePrioritizedRing])
def test_hooks_are_called_only_if_requested(kind) -> None:
    ring = kind(LAYOUT)
    ring.add(x=np.float32(3))
    assert (ring.sample(2)["x"] == 3).all()
    assert "seen" not in ring.sample(2)


def test_exceptions_of_hooks_reach_the_caller() -> None:
    ring = TwiceRing(LAYOUT, add_through_python=True)
    with pytest.raises(KeyError):
        ring.add(y=1)
    with pytest.raises(TypeError):
        ring.add(1)
