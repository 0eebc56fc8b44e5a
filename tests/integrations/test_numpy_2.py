"""NumPy 2, which is in PyTorch's venv, and NumPy 1.26 lead to the same conversions, errors and warnings."""

from __future__ import annotations

import numpy as np
import pytest

from cpprb_impl import ReplayBuffer
from tests.cpprb_impl.test_changed_values import *  # noqa: F403
from tests.cpprb_impl.test_shapes_of_rows import *  # noqa: F403


@pytest.fixture
def make():
    """Return one kind of buffer for the imported tests: all have the same ring."""
    return ReplayBuffer


def test_this_environment_has_numpy_2():
    assert np.lib.NumpyVersion(np.__version__) >= "2.0.0"
