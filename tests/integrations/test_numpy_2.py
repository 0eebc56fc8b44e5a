"""Values are changed, refused and warned of under NumPy 2, which PyTorch's venv has, as under NumPy 1.26."""

from __future__ import annotations

import numpy as np
import pytest

from cpprb_impl import ReplayBuffer
from tests.cpprb_impl.test_changed_values import *  # noqa: F403
from tests.cpprb_impl.test_shapes_of_rows import *  # noqa: F403


@pytest.fixture
def make():
    """One kind of buffer for the imported tests: all have the same ring."""
    return ReplayBuffer


def test_this_environment_has_numpy_2():
    assert np.lib.NumpyVersion(np.__version__) >= "2.0.0"
