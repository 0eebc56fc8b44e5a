"""A large fault of each kind is found with the draws of a usual check, and no size of it is found where it is none."""

from __future__ import annotations

import pytest

from tests.check.detection import EFFORTS, control_of, is_found
from tests.check.graded import FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_the_largest_size_of_a_fault_is_found(fault):
    assert is_found(control_of(fault, FAULTS[fault].sizes[-1]), EFFORTS["normal"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_size_that_is_no_fault_is_not_found(fault):
    assert not is_found(control_of(fault, FAULTS[fault].sound), EFFORTS["quick"])
