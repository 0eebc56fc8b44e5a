"""Importance weights with each option of `normalize`, in every class with priorities, agree with NumPy."""

from __future__ import annotations

import copy
import inspect
from contextlib import closing

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
    create_buffer,
)

FIELDS = {"id": {"dtype": np.int64}}
ALPHA, EPS, BETA = 0.7, 1e-6, 0.6
OPTIONS = {"alpha": ALPHA, "eps": EPS}
NORMALIZE = ("buffer", "batch", None)


def hindsight(size, fields, **options):
    """Return a prioritized hindsight buffer, with rows added to its ring directly."""
    names = {"state": "id", "action": "id", "next_state": "next_id", "reward_func": len}
    fields = {**fields, "next_id": {}}
    return HindsightReplayBuffer(size, fields, max_episode_len=9, **names, **options).rb


MEMBERS = {
    "PrioritizedReplayBuffer": PrioritizedReplayBuffer,
    "MPPrioritizedReplayBuffer": MPPrioritizedReplayBuffer,
    "HindsightReplayBuffer": hindsight,
    "create_buffer": lambda *args, **options: create_buffer(*args, prioritized=True, **options),
}


def weights(priorities, drawn, normalize):
    """Return (N P(i))^-beta of the drawn rows, as in Schaul et al., section 3.4."""
    leaves = (np.asarray(priorities) + EPS) ** ALPHA
    every = (len(leaves) * leaves / leaves.sum()) ** -BETA
    return every[drawn] / {"buffer": every.max(), "batch": every[drawn].max(initial=0), None: 1}[normalize]


def test_every_class_with_priorities_is_tested():
    named = {name for name in cpprb_impl.__all__ if hasattr(getattr(cpprb_impl, name), "update_priorities")}
    assert named == {name for name in MEMBERS if inspect.isclass(getattr(cpprb_impl, name))}


@pytest.mark.parametrize("stored", [1, 37, 64])
@pytest.mark.parametrize("normalize", NORMALIZE)
@pytest.mark.parametrize("name", MEMBERS)
def test_weights_are_normalised_as_requested(name, normalize, stored):
    with closing(MEMBERS[name](64, FIELDS, normalize=normalize, seed=3, **OPTIONS)) as buffer:
        priorities = np.random.default_rng(1).exponential(size=stored)
        priorities[0] = 0  # a single TD error of 0
        hold = {name: np.zeros(stored) for name in buffer.get_all_transitions() if name != "id"}
        buffer.add(**{**hold, "id": np.arange(stored)}, priorities=priorities)
        for rows in (0, 1, 16):
            batch = buffer.sample(rows, BETA)
            assert batch["weights"].dtype == np.float32
            expected = weights(priorities, batch["indexes"], normalize)
            np.testing.assert_allclose(batch["weights"], expected, rtol=2e-5)


@pytest.mark.parametrize("name", MEMBERS)
def test_the_default_is_that_of_cpprb(name):
    with closing(MEMBERS[name](64, FIELDS, seed=3, **OPTIONS)) as buffer:
        hold = {name: np.zeros(9) for name in buffer.get_all_transitions() if name != "id"}
        buffer.add(**{**hold, "id": np.arange(9)}, priorities=np.arange(9))
        batch = buffer.sample(4, BETA)
        np.testing.assert_allclose(batch["weights"], weights(np.arange(9), batch["indexes"], "buffer"), rtol=2e-5)


def test_a_single_error_of_0_reduces_only_the_weights_normalised_over_the_buffer():
    means = {}
    for normalize in NORMALIZE:
        buffer = PrioritizedReplayBuffer(2**12, FIELDS, normalize=normalize, seed=1, **OPTIONS)
        buffer.add(id=np.arange(2**12), priorities=np.r_[0, np.random.default_rng(1).exponential(size=2**12 - 1)])
        means[normalize] = np.mean([buffer.sample(32, 1.0)["weights"].mean() for _ in range(200)])
    assert means["buffer"] < 0.001 and means["batch"] > 0.1
    assert means[None] == pytest.approx(1, rel=0.05)  # the expected value, since beta is 1


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("bad", ["max", "", True, 1, ["batch"], "BATCH"])
def test_an_unknown_normalisation_is_refused(name, bad):
    with pytest.raises(ValueError, match="normalize must be 'buffer', 'batch' or None, got"):
        MEMBERS[name](64, FIELDS, normalize=bad)


def test_create_buffer_accepts_the_option_without_priorities():
    assert create_buffer(4, FIELDS, normalize="batch").get_buffer_size() == 4


def test_copies_and_attached_buffers_normalise_in_the_same_way():
    buffer = PrioritizedReplayBuffer(64, FIELDS, normalize="batch", seed=3, **OPTIONS)
    buffer.add(id=np.arange(20), priorities=np.arange(20))
    np.testing.assert_array_equal(copy.deepcopy(buffer).sample(8)["weights"], buffer.sample(8)["weights"])
    with closing(MPPrioritizedReplayBuffer(64, FIELDS, normalize=None, **OPTIONS)) as shared:
        shared.add(id=np.arange(20), priorities=np.arange(20))
        attached = MPPrioritizedReplayBuffer.attach(shared.segment)
        batch = attached.sample(8, BETA)
        np.testing.assert_allclose(batch["weights"], weights(np.arange(20), batch["indexes"], None), rtol=2e-5)
