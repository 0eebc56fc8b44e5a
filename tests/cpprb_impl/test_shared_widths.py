"""Values of any number of bytes: rows that may be written concurrently are copied in the widest words that fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

NARROW = [1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 105]
WIDE = [4095, 4096, 4097, 8190, 8193, 8195, 12_292]  # a row with this many bytes is read in pieces


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("widths", [*itertools.permutations(NARROW, 2), *itertools.product(WIDE, WIDE)], ids=str)
def test_values_of_any_number_of_bytes_are_stored(kind, widths):
    """`make sanitize` detects misaligned words."""
    buffer = kind(5, {f"f{i}": {"dtype": np.uint8, "shape": width} for i, width in enumerate(widths)})
    rng = np.random.default_rng(0)
    rows = {f"f{i}": rng.integers(0, 256, (7, width), dtype=np.uint8) for i, width in enumerate(widths)}
    buffer.add(**{name: value[:3] for name, value in rows.items()})
    for row in range(3, 7):
        buffer.add(**{name: value[row] for name, value in rows.items()})
    stored = buffer.get_all_transitions()
    buffer.close()
    for name, value in rows.items():
        assert (stored[name] == value[[5, 6, 2, 3, 4]]).all()
