"""Our buffers of TensorDicts, compared with TorchRL's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, TensorDict
from torchrl.data import LazyTensorStorage
from torchrl.data import TensorDictPrioritizedReplayBuffer as TheirPrioritized
from torchrl.data import TensorDictReplayBuffer as Theirs

from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer


def steps(n, seed=0, shape=(3,), pixels=False):
    """Return n consecutive steps of one environment, as a collector does, with their numbers as "reward"."""
    random = torch.Generator().manual_seed(seed)
    if pixels:
        frames = torch.randint(0, 255, (n + 4, 84, 84), generator=random, dtype=torch.uint8)
        seen = torch.stack([frames[i : i + 4] for i in range(n + 1)])
    else:
        seen = torch.randn(n + 1, *shape, generator=random)
    flags = {name: torch.rand(n, 1, generator=random) < 0.2 for name in ("done", "terminated")}
    return TensorDict(
        {
            "observation": seen[:-1],
            "action": torch.randint(0, 4, (n,), generator=random),
            "done": torch.zeros(n, 1, dtype=torch.bool),
            "agents": {"a": {"state": torch.randn(n, 2, generator=random, dtype=torch.float64)}},
            "next": {"observation": seen[1:], "reward": torch.arange(n, dtype=torch.float32).reshape(n, 1), **flags},
        },
        batch_size=[n],
    )


def assert_equal(one, other):
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in other.keys(True, True):
        assert one[key].dtype == other[key].dtype
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=0)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("pixels", [False, True])
@pytest.mark.parametrize("chunks", [[1], [30], [30, 7, 1, 22]])
def test_samples_are_rows_that_were_added(chunks, pixels, optimize):
    buffer = TensorDictReplayBuffer(40, optimize_memory_usage=optimize)
    added = steps(sum(chunks), pixels=pixels)
    for chunk in added.split(chunks):
        indexes = buffer.extend(chunk)
        assert indexes.tolist() == [int(i) % 40 for i in chunk["next", "reward"].ravel()]
    assert len(buffer) == min(len(added), 40)
    batch = buffer.sample(500)
    drawn = batch["next", "reward"].ravel().long()
    assert set(drawn.tolist()) == set(range(len(added) - len(buffer), len(added)))
    assert batch.batch_size == (500,)
    assert_equal(batch, added[drawn])


def test_single_rows_can_be_added():
    buffer = TensorDictReplayBuffer(4, batch_size=8)
    added = steps(6)
    assert [buffer.add(row) for row in added] == [0, 1, 2, 3, 0, 1]
    batch = buffer.sample()
    assert_equal(batch, added[batch["next", "reward"].ravel().long()])


def test_frames_are_stored_once():
    def bytes_per_row(**options):
        buffer = TensorDictReplayBuffer(300, **options)
        buffer.extend(steps(300, pixels=True))
        return buffer.buffer.nbytes / 300

    assert bytes_per_row() > 2 * 4 * 84 * 84
    assert 84 * 84 < bytes_per_row(optimize_memory_usage=True) < 84 * 84 * 1.1


def test_compressed_frames_are_the_same_and_take_less_memory():
    def filled(compress):
        buffer = TensorDictReplayBuffer(300, optimize_memory_usage=True, compress=compress, seed=0)
        rows = steps(300, pixels=True)
        rows["observation"][:], rows["next", "observation"][:] = 0, 1
        buffer.extend(rows)
        return buffer

    plain, compressed = filled(None), filled("lz4")
    assert compressed.buffer.nbytes < plain.buffer.nbytes / 2
    assert_equal(compressed.sample(20), plain.sample(20))
    with pytest.raises(ValueError, match="compress"):
        TensorDictReplayBuffer(300, compress="lz4").extend(steps(3))


def prioritized(size=40, **options):
    return TensorDictPrioritizedReplayBuffer(size, alpha=0.7, beta=0.5, **options)


def test_draws_and_weights_agree_with_torchrl():
    """Compares the distribution of draws, and the weight of each row."""
    ours, theirs = prioritized(seed=0), TheirPrioritized(alpha=0.7, beta=0.5, storage=LazyTensorStorage(40))
    np.random.seed(0)
    errors = torch.rand(40) + 0.01
    weights, counts = [], []
    for buffer in (ours, theirs):
        buffer.extend(steps(30))
        buffer.update_priority(torch.arange(30), errors[:30])
        buffer.extend(steps(10, seed=1))  # these get the largest priority so far
        buffer.update_priority(torch.arange(35, 40), errors[35:])
        batch = buffer.sample(40_000)
        index = batch["index"]
        weights.append(dict(zip(index.tolist(), batch["priority_weight"].tolist(), strict=True)))
        counts.append(torch.bincount(index, minlength=40))
    assert weights[0] == pytest.approx(weights[1], rel=1e-4)
    assert ((counts[0] - counts[1]).abs() < 5 * (counts[0] + counts[1]).sqrt() + 1).all()


@pytest.mark.parametrize("normalize", ["buffer", "batch", None])
def test_weights_are_normalised_as_requested(normalize):
    buffer = TensorDictPrioritizedReplayBuffer(30, alpha=1.0, beta=0.5, eps=0.0, normalize=normalize)
    buffer.extend(steps(30))
    errors = torch.cat([torch.tensor([1e-6]), torch.arange(1.0, 30)])
    buffer.update_priority(torch.arange(30), errors)
    batch = buffer.sample(16)
    drawn = errors[batch["index"]]
    unit = {"buffer": errors.min(), "batch": drawn.min(), None: errors.mean()}[normalize]
    torch.testing.assert_close(batch["priority_weight"], (drawn / unit) ** -0.5, rtol=1e-4, atol=0)


def test_priorities_are_read_from_tensordicts():
    buffer = TensorDictPrioritizedReplayBuffer(10, alpha=1.0, beta=0.5, eps=0.0, priority_key="error")
    rows = steps(4)
    rows["error"] = torch.tensor([[0.0], [0.0], [1.0], [3.0]])
    buffer.extend(rows)
    batch = buffer.sample(2000)
    assert "error" not in batch
    assert set(batch["index"].tolist()) == {2, 3}
    assert (batch["index"] == 3).sum() == pytest.approx(1500, abs=100)
    batch["error"] = (batch["index"] == 2).float()
    buffer.update_tensordict_priority(batch)
    assert set(buffer.sample(100)["index"].tolist()) == {2}


def test_a_sample_can_be_added_again():
    buffer = prioritized()
    added = steps(10)
    buffer.extend(added)
    buffer.extend(buffer.sample(10))
    other = TensorDictReplayBuffer(40)
    other.extend(buffer.sample(10))
    batch = other.sample(100)
    assert_equal(batch, added[batch["next", "reward"].ravel().long()])  # now without "index" and "priority_weight"


def test_beta_may_be_changed():
    buffer = prioritized(seed=1)
    buffer.extend(steps(10))
    buffer.update_priority(torch.arange(10), torch.arange(10.0) + 1)
    buffer.beta = 0.0
    assert (buffer.sample(50)["priority_weight"] == 1).all()


def test_seeds_are_drawn_from_the_generator_of_pytorch():
    def drawn(seed):
        torch.manual_seed(seed)
        buffers = [TensorDictReplayBuffer(100) for _ in range(2)]
        for buffer in buffers:
            buffer.extend(steps(50))
        return [buffer.sample(50)["next", "reward"].ravel().tolist() for buffer in buffers]

    assert drawn(1) == drawn(1) != drawn(2)
    first, second = drawn(1)
    assert first != second


@pytest.mark.parametrize(
    ("first", "then"),
    [((3, 4), (2, 3, 4)), ((3,), (2, 3)), ((3, 4, 5, 5), (2, 5, 5, 4)), ((3, 4), (2, 2, 2))],
    ids=str,
)
def test_rows_with_a_different_shape_are_refused(first, then):
    buffer = TensorDictReplayBuffer(20)
    buffer.extend(TensorDict({"a": torch.ones(first)}, first[:1]))
    with pytest.raises(ValueError, match="a must have the shape"):
        buffer.extend(TensorDict({"a": torch.ones(then)}, then[:1]))
    assert len(buffer) == 3


def test_only_the_first_next_field_is_shared():
    data = TensorDict(
        {"a": torch.full((2, 3), 5.0), "next": {"a": torch.zeros(2, 3), "next": {"a": torch.ones(2, 3)}}}, [2]
    )
    buffer = TensorDictReplayBuffer(5, optimize_memory_usage=True)
    buffer.extend(data)
    assert (buffer.sample(8)["next", "next", "a"] == 1).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_continues_like_the_buffer(copied):
    buffer = prioritized(optimize_memory_usage=True)
    buffer.extend(steps(30))
    other = copied(buffer)
    assert_equal(other.sample(20), buffer.sample(20))
    for each in (buffer, other):
        each.extend(steps(30, seed=3))
    assert_equal(other.sample(20), buffer.sample(20))


def test_a_batch_is_not_a_view_of_the_buffer():
    buffer = TensorDictReplayBuffer(10)
    buffer.extend(steps(10))
    batch = buffer.sample(5)
    kept = batch.clone()
    buffer.extend(steps(10, seed=1))
    buffer.sample(5)
    assert_equal(batch, kept)


ROWS = {
    "int": 5,
    "negative": -1,
    "slice": slice(3, 20, 4),
    "list": [7, 2, 2],
    "tensor": torch.tensor([[1, 2, 3], [4, 5, 6]]),
    "mask": torch.arange(40) % 3 == 1,
}


@pytest.mark.parametrize("index", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("make", [lambda: TensorDictReplayBuffer(40, optimize_memory_usage=True), prioritized])
def test_rows_by_index_agree_with_torchrl(make, index):
    theirs = Theirs(storage=LazyTensorStorage(40))
    ours = make()
    data = steps(57)
    for buffer in (theirs, ours):
        buffer.extend(data[:30].clone())
        buffer.extend(data[30:].clone())
    found = ours[index]
    assert_equal(found, theirs[index].select(*found.keys(include_nested=True, leaves_only=True)))


@pytest.mark.parametrize("index", [7, -8, [0, 7]])
def test_rows_that_are_not_stored_are_refused(index):
    buffer = TensorDictReplayBuffer(40)
    buffer.extend(steps(7))
    with pytest.raises(IndexError):
        buffer[index]


@pytest.mark.parametrize("make", [lambda: TensorDictReplayBuffer(40), prioritized])
def test_an_emptied_buffer_can_be_refilled(make):
    buffer = make()
    buffer.empty()
    buffer.extend(steps(30))
    buffer.empty()
    assert len(buffer) == 0
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(4)
    data = steps(3, seed=1)
    assert buffer.extend(data).tolist() == [0, 1, 2]
    assert_equal(buffer[:], data.select(*buffer[:].keys(include_nested=True, leaves_only=True)))


def change(key, value):
    rows = steps(3)
    rows[key] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (steps(3, shape=(4,)), ValueError, r"observation must have the shape \(3, 3\), got \(3, 4\)"),
        (steps(3).exclude("action"), KeyError, "action"),
        (steps(4).reshape(2, 2), ValueError, r"data must have one batch dimension, got batch_size=\(2, 2\)"),
        (steps(3)[0], ValueError, r"data must have one batch dimension, got batch_size=\(\)"),
    ],
)
def test_wrong_rows_are_refused_and_not_stored(rows, error, message):
    buffer = TensorDictReplayBuffer(10)
    buffer.extend(steps(5))
    with pytest.raises(error, match=message):
        buffer.extend(rows)
    assert len(buffer) == 5


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            change("x", torch.zeros(3, dtype=torch.bfloat16)),
            TypeError,
            "x must have a dtype that NumPy has, got torch.b",
        ),
        (change("x", NonTensorData("text", batch_size=[3])), TypeError, "x must be a tensor, got str"),
        (change("agents/a/state", torch.zeros(3)), ValueError, "keys must differ when they are joined by slashes"),
    ],
)
def test_after_a_wrong_first_tensordict_a_different_one_may_be_added(rows, error, message):
    buffer = TensorDictReplayBuffer(10)
    with pytest.raises(error, match=message):
        buffer.extend(rows)
    with pytest.raises(RuntimeError, match="the buffer must contain a row"):
        buffer.sample(3)
    buffer.extend(steps(5))
    assert len(buffer) == 5


def test_wrong_priorities_are_refused():
    buffer = prioritized()
    buffer.extend(steps(5))
    batch = buffer.sample(3)
    with pytest.raises(KeyError, match="td_error"):
        buffer.update_tensordict_priority(batch)
    batch["td_error"] = torch.tensor([1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match=r"priorities\[1\] must be finite and not negative, got -1"):
        buffer.update_tensordict_priority(batch)
    with pytest.raises(ValueError, match="priorities must have one value per index, got 2 values for 3 indexes"):
        buffer.update_priority(batch["index"], torch.ones(2))


@pytest.mark.parametrize("name", ["optimize_memory_usage", "check_for_update"])
def test_a_string_is_refused_as_a_flag(name):
    with pytest.raises(TypeError, match=f"{name} must be a bool, got 'no'"):
        prioritized(**{name: "no"})


@pytest.mark.parametrize("make", [torch.tensor, np.array], ids=["tensor", "array"])
def test_masks_are_refused_as_indexes_and_hide_no_priorities(make):
    buffer = prioritized()
    buffer.extend(steps(4))
    with pytest.raises(TypeError, match=r"indexes must be numbers, got .*: pass np\.flatnonzero\(mask\)"):
        buffer.update_priority(make([False, True, False, True]), torch.ones(4))
    with pytest.raises(ValueError, match="priority must not be masked"):
        buffer.update_priority(torch.arange(2), np.ma.array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TensorDictReplayBuffer(0), ValueError, "max_size must be at least 1"),
        (lambda: TensorDictReplayBuffer(4, batch_size=0), ValueError, "batch_size must be at least 1"),
        (lambda: TensorDictReplayBuffer(4, seed=-1), ValueError, "seed must be from 0"),
        (lambda: TensorDictPrioritizedReplayBuffer(4, alpha=-1, beta=0.4), ValueError, "alpha must be finite and not"),
        (lambda: TensorDictPrioritizedReplayBuffer(4, alpha=0.6, beta=0.4, eps="x"), TypeError, "eps must be a number"),
        (
            lambda: TensorDictPrioritizedReplayBuffer(4, alpha=0.6, beta=0.4, normalize="x"),
            ValueError,
            "normalize must be 'buffer', 'batch' or None, got 'x'",
        ),
        (lambda: TensorDictReplayBuffer(4).sample(), TypeError, "batch_size must be an argument of sample"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_check_for_update_protects_rows_that_replaced_sampled_ones():
    buffer = TensorDictPrioritizedReplayBuffer(20, alpha=1.0, beta=1.0, check_for_update=True)
    buffer.extend(steps(20))
    index = buffer.sample(4)["index"]
    buffer.extend(steps(20))
    buffer.sample(4)
    buffer.update_priority(index, torch.full((4,), 1e3))
    assert (buffer.sample(100)["priority_weight"] == 1).all()
