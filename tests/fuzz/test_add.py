"""`add` with unusual values from a seeded generator: a short version of `make fuzz`."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cpprb_impl import ReplayBuffer

from . import add_case
from .choices import FromBytes


def test_add_stores_what_numpy_makes_of_the_values_or_changes_nothing():
    stored = refused = 0
    for seed in range(4000):
        try:
            case = add_case.run(random.Random(seed))
        except Exception as error:
            error.add_note(f"add_case.run(random.Random({seed}))")
            raise
        stored, refused = stored + case.stored, refused + case.refused
    assert stored > 1000 and refused > 1000, "almost all rows were refused, or almost all were stored"


class LeavesARow(ReplayBuffer):
    """As in cpprb, a call that fails may already have stored a row."""

    def add(self, **values):
        try:
            return super().add(**values)
        except TypeError:
            super().add(**{name: rows[:1] for name, rows in self.get_all_transitions().items()})
            raise


class KeepsOneRow(ReplayBuffer):
    def add(self, **values):
        first = super().add(**values)
        at = self._encode_sample(np.array([first]))
        self.clear()
        super().add(**at)
        return first


@pytest.mark.parametrize("broken", [LeavesARow, KeepsOneRow])
def test_the_oracle_detects_a_wrong_buffer(broken):
    with pytest.raises(AssertionError, match=r"changed|stored"):
        for seed in range(200):
            add_case.run(random.Random(seed), plain=broken)


def test_the_bytes_of_a_fuzzer_are_converted_to_cases():
    rng = random.Random(0)
    for size in [0, 1, 10, 100, 1000]:
        for _ in range(20):
            add_case.run(FromBytes(rng.randbytes(size)))


@pytest.mark.parametrize("value", [2**54 + 2**30 + 1, -(2**54) - 2**30 - 1, 2**53 + 1, 2**62 + 2**38 + 1])
def test_a_python_int_is_rounded_to_float32_as_in_numpy(value):
    buffer = ReplayBuffer(2, {"x": {}})
    buffer.add(x=value)
    buffer.add(x=[value])
    assert (buffer.get_all_transitions()["x"].ravel() == np.asarray(value, np.float32)).all()
