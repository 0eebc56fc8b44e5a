"""Indexes and priorities that `update_priorities` accepts: all that cpprb accepts, even those that it misreads."""

from __future__ import annotations

import numpy as np
import pytest

import cpprb_impl

cpprb = pytest.importorskip("cpprb")

WHOLE = "bBhHiIlLqQefdg"  # every integer and floating type of NumPy


class Number:
    def __array__(self, dtype=None, copy=None):
        return np.array(2.5, dtype)


SCALARS = {"int": 2, "float": 2.5, "float64": np.float64(2.5), "0-d": np.array(2.5, "f"), "__array__": Number()}


def filled(module, kind="PrioritizedReplayBuffer", **options):
    if "Prioritized" in kind:
        options = {"alpha": 1.0, "eps": 0.0, **options}
    buffer = getattr(module, kind)(128, {"x": {}}, **options)
    buffer.add(x=np.arange(128))
    buffer.sample(1)  # before the first sample, an MP buffer accepts no priorities
    return buffer


def weights(buffer):
    """Return the weights of the rows, which show their priorities since beta is 1."""
    batch = buffer.sample(2000, beta=1.0)
    return dict(zip(batch["indexes"].tolist(), batch["weights"].tolist(), strict=True))


@pytest.fixture(params=["PrioritizedReplayBuffer", "MPPrioritizedReplayBuffer"])
def ours(request):
    buffer = filled(cpprb_impl, request.param, seed=3)
    yield buffer
    buffer.close()


@pytest.mark.parametrize("dtype", WHOLE)
def test_indexes_of_any_type_are_accepted(dtype, ours):
    for buffer in (filled(cpprb), ours):
        buffer.update_priorities(np.arange(128, dtype=dtype)[100:], np.full(28, 4.0))
        of = weights(buffer)
        assert of[127] == of[100] == of[99] / 4


@pytest.mark.parametrize("dtype", ["q", ">i8", ">f4"])
def test_non_contiguous_indexes_are_accepted(dtype, ours):
    ours.update_priorities(np.arange(128).astype(dtype)[::2], np.full(64, 4.0))
    of = weights(ours)
    assert of[0] == of[126] == of[1] / 4


@pytest.mark.parametrize("index", [1.5, np.nan, np.inf, -np.inf])
def test_fractional_indexes_are_refused(index, ours):
    """cpprb truncates indexes, so that 1.5 is row 1. If there is no such row, it overwrites other memory."""
    for indexes in ([0, index], np.array([0, index], object)):
        with pytest.raises(ValueError, match=r"indexes\[1\] must be a whole number, got "):
            ours.update_priorities(indexes, [4.0, 4.0])
    assert ours.get_max_priority() == 1.0


@pytest.mark.parametrize("index", [128, -1, 2**63, 2**64, -(2**63) - 2048, 10**30, 2.0**63, -1e30])
def test_indexes_without_a_transition_are_refused(index, ours):
    """Even very large ones raise no OverflowError, and the message contains the same number."""
    for indexes in ([0, index], np.array([0, index]), np.array([0, index], object)):
        with pytest.raises(IndexError, match=rf"indexes\[1\] is {int(index)}, where no transition is stored"):
            ours.update_priorities(indexes, [4.0, 4.0])
    with pytest.raises(IndexError, match=f"indexes.0. is {2**64 - 28}, where"):
        ours.update_priorities(np.array([2**64 - 28], np.uint64), [4.0])
    assert ours.get_max_priority() == 1.0


MASK = [False, False, True, True]
MASKS = {
    "list": MASK,
    "array": np.array(MASK),
    "strided": np.repeat(MASK, 2)[::2],
    "masked array": np.ma.array(MASK),
    "objects": np.array(MASK, object),
    "objects of NumPy": np.array([*np.array(MASK)], object),
    "one": True,
    "one of NumPy": np.True_,
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("method", ["get", "update_priorities"])
def test_masks_are_refused_as_indexes(method, mask, ours):
    """cpprb reads masks as the numbers 0 and 1."""
    with pytest.raises(TypeError, match=r"(?s)indexes must be numbers, got .*: pass np\.flatnonzero\(mask\)"):
        getattr(ours, method)(mask, *[np.full(np.size(mask), 4.0)] * (method == "update_priorities"))
    assert ours.get_max_priority() == 1.0


def test_masks_are_refused_as_indexes_in_uniform_and_hindsight_buffers():
    for kind, options in (("ReplayBuffer", {}), ("MPReplayBuffer", {}), ("ReplayBuffer", {"n_envs": 2})):
        buffer = filled(cpprb_impl, kind, **options)
        with pytest.raises(TypeError, match="flatnonzero"):
            buffer.get(np.ones(128, bool))
    steps = {name: {} for name in ("obs", "act", "next_obs")}
    hindsight = cpprb_impl.HindsightReplayBuffer(8, steps, 4, len)
    with pytest.raises(TypeError, match="flatnonzero"):
        hindsight.update_priorities(np.ones(8, bool), np.ones(8))


@pytest.mark.parametrize("priority", SCALARS.values(), ids=SCALARS)
def test_a_scalar_is_the_priority_of_each_index(priority, ours):
    """cpprb assigns the scalar to the first index, and reads beyond it in memory for the other indexes."""
    ours.update_priorities(np.arange(100, 128), priority)
    of = weights(ours)
    assert ours.get_max_priority() == float(np.asarray(priority))
    assert of[100] == of[127] == pytest.approx(of[0] / ours.get_max_priority())


def test_a_scalar_is_accepted_for_one_index_and_for_none(ours):
    for buffer in (filled(cpprb), ours):
        buffer.update_priorities(np.int64(5), 3.0)
        assert weights(buffer)[5] == pytest.approx(1 / 3)
    ours.update_priorities([], 3.0)


def test_an_array_of_one_value_is_not_a_scalar(ours):
    """A learner that has lost the errors of its rows should receive an error."""
    with pytest.raises(ValueError, match="priorities must have one value per index, got 1 values for 2 indexes"):
        ours.update_priorities([0, 1], np.array([2.0]))


@pytest.mark.parametrize("priority", [-1.0, np.nan, np.array(np.inf)])
def test_a_bad_scalar_is_refused(priority, ours):
    with pytest.raises(ValueError, match="must be finite and not negative"):
        ours.update_priorities([0, 1], priority)
    assert len(set(weights(ours).values())) == 1


NO_NUMBERS = {
    ValueError: ["1", ["1"], b"1", np.array(["1"], object), np.ma.masked, np.ma.array([1], mask=[True])],
    TypeError: [1j, [1j], np.array([1], "m8[s]"), np.array([1], "M8[s]")],
}


@pytest.mark.parametrize(("error", "value"), [(error, each) for error, all_of in NO_NUMBERS.items() for each in all_of])
def test_values_that_are_not_numbers_are_refused(error, value, ours):
    """NumPy, and therefore cpprb, would convert all but complex numbers."""
    for call in (
        lambda: ours.add(x=1.0, priorities=value),
        lambda: ours.update_priorities([1], value),
    ):
        with pytest.raises(error, match="priorities must "):
            call()
    with pytest.raises(error, match="indexes must "):
        ours.update_priorities(value, [4.0])
    assert ours.get_max_priority() == 1.0 and ours.get_next_index() == 0


@pytest.mark.parametrize("options", [{}, {"Nstep": {"size": 2}}], ids=["objects", "n-step objects"])
def test_masked_priorities_are_refused_with_fields_of_objects(options):
    buffer = cpprb_impl.PrioritizedReplayBuffer(4, {"x": {"dtype": object}, "done": {}}, **options)
    with pytest.raises(ValueError, match="priorities must not be masked"):
        buffer.add(x=[1, 2], done=[0, 0], priorities=np.ma.array([1, 2], mask=[0, 1]))
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("kind", ["LaBERmean", "LaBERlazy", "LaBERmax"])
def test_masked_priorities_are_refused_by_laber(kind):
    with pytest.raises(ValueError, match="priorities must not be masked"):
        getattr(cpprb_impl, kind)(1, 2)(priorities=np.ma.array([1, 2], mask=[0, 1]))


@pytest.mark.parametrize("value", [2**70, np.float32(2), np.ma.array([2.0]), np.array([2.0], object), [True], 2, True])
def test_numbers_of_any_type_are_accepted(value, ours):
    ours.update_priorities([1], value)
    assert ours.get_max_priority() == np.asarray(value, np.float64)


class Agent:
    """An environment with one step per episode."""

    def reset(self):
        return 0.0

    def step(self, action):
        return 1.0, 0.0, True, {}


def test_training_with_one_error_for_all_rows_is_supported():
    """cpprb's own tests train this way. cpprb reads beyond the error, so only our buffer is run here."""
    fields = {name: {} for name in ("obs", "act", "rew", "next_obs", "done")}
    buffer = cpprb_impl.PrioritizedReplayBuffer(8, fields)
    cpprb_impl.train(buffer, Agent(), lambda *_: 1.0, lambda *_: 0.5, max_steps=20, batch_size=4)
    assert buffer.get_stored_size() == 8
