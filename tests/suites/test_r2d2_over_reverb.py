"""R2D2's sequences over Reverb are those of the shared buffer."""

from contextlib import closing

import numpy as np
import pytest

from adapters.base import Field
from cpprb_impl import MPPrioritizedReplayBuffer

pytest.importorskip("reverb", reason="Reverb has no wheel for this Python")
from suites.r2d2.over_reverb import ReverbReplay

LENGTH, PERIOD, BURN_IN, ENVS = 12, 4, 4, 3
FIELDS = {"obs": Field((2,), "float32"), "done": Field((), "bool"), "state": Field((3,), "float32")}


def named(batch):
    """Return the drawn sequences, each as the values of its fields."""
    names = ("obs", "done", "mask", "is_first", "state")
    rows = [np.asarray(batch[name], np.float32).reshape(len(batch["obs"]), -1) for name in names]
    return {tuple(row) for row in np.concatenate(rows, axis=1).tolist()}


def test_an_explorer_over_reverb_writes_the_sequences_of_the_shared_buffer():
    random = np.random.default_rng(0)
    sequences = {"size": LENGTH - BURN_IN, "burn_in": BURN_IN, "period": PERIOD, "ends": "pad", "state": "state"}
    shared = MPPrioritizedReplayBuffer(
        1_000,
        {name: {"shape": field.shape, "dtype": field.dtype} for name, field in FIELDS.items()},
        n_envs=ENVS,
        sequences=sequences,
    )
    with closing(shared), closing(ReverbReplay(1_000, FIELDS, "state", LENGTH, PERIOD)) as replay:
        replay.begin(alpha=0.5, beta=0.5)
        left = random.integers(BURN_IN + 1, 30, ENVS)
        for step in range(120):
            left -= 1
            values = {
                "obs": np.full((ENVS, 2), step + 1) + np.arange(ENVS)[:, None] / 10,
                "done": left == 0,
                "state": random.random((ENVS, 3), np.float32),
            }
            left = np.where(left == 0, random.integers(BURN_IN + 1, 30, ENVS), left)
            shared.add(**values)
            replay.add(**values)
        for writer in replay.writers:
            writer.flush()
        expected = named(shared.sample_sequences(5_000))
        drawn = set()
        for _ in range(100):
            batch = replay.sample(32)
            drawn |= named(batch)
        assert drawn == expected and len(expected) > 50
        assert len({row[-1] for row in drawn}) > 10  # first states
        replay.update_priorities(batch["indexes"], np.ones(32))
