"""Batches: into the caller's arrays, in memory that is used again, and into other libraries without a copy."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT, make_rows, numbers_of

FRAMES = {"obs": {"shape": (84, 84, 4), "dtype": np.uint8}, "act": {"dtype": np.int64}}


@pytest.fixture(params=[ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer])
def buffer(request):
    made = request.param(100, ENV_DICT)
    made.add(**make_rows(0, 100))
    yield made
    made.close()


def frames_buffer(rows: int = 50) -> ReplayBuffer:
    made = ReplayBuffer(rows, FRAMES)
    number = np.arange(rows)
    made.add(obs=np.broadcast_to(number[:, None, None, None], (rows, 84, 84, 4)), act=number)
    return made


def whole(batch: dict) -> bool:
    return bool((batch["obs"] == batch["act"][:, :, None, None]).all())


def test_into_the_callers_arrays(buffer) -> None:
    out = buffer.sample(32)
    before = {name: (id(column), column.ctypes.data) for name, column in out.items()}
    first = out["act"].copy()
    assert buffer.sample(32, out=out) is out
    assert {name: (id(column), column.ctypes.data) for name, column in out.items()} == before
    assert (out["act"] != first).any()
    numbers_of(out)
    out["more"] = np.zeros(3)  # ignored, as unknown keys are by add
    buffer.sample(32, out=out)


def test_weights_and_indexes_go_there_too() -> None:
    buffer = PrioritizedReplayBuffer(100, ENV_DICT)
    buffer.add(**make_rows(0, 100), priorities=np.arange(100) + 1.0)
    out = buffer.sample(16, 0.4)
    out["weights"][:] = -1
    buffer.sample(16, 0.4, out=out)
    assert (out["weights"] > 0).all()
    assert (out["indexes"] == numbers_of(out)).all()


def readonly(column: np.ndarray) -> np.ndarray:
    column.flags.writeable = False
    return column


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda out: {name: out[name] for name in out if name != "rew"}, KeyError),
        (lambda out: out | {"rew": out["rew"].tolist()}, TypeError),
        (lambda out: out | {"rew": out["rew"][:-1]}, ValueError),
        (lambda out: out | {"rew": out["rew"].astype(np.float64)}, ValueError),
        (lambda out: out | {"rew": out["rew"].astype(">f4")}, ValueError),
        (lambda out: out | {"rew": np.repeat(out["rew"], 2, axis=0)[::2]}, ValueError),
        (lambda out: out | {"rew": readonly(out["rew"])}, ValueError),
        (lambda out: out | {"rew": out["rew"][:, 0]}, ValueError),
    ],
)
def test_arrays_that_do_not_fit_are_named(buffer, wrong, error) -> None:
    out = buffer.sample(8)
    kept = out["obs"].copy()
    with pytest.raises(error, match="rew"):
        buffer.sample(8, out=wrong(out))
    assert (out["obs"] == kept).all()


def test_out_must_be_a_dict(buffer) -> None:
    with pytest.raises(TypeError, match="out must be a dict"):
        buffer.sample(8, out=[1])


def test_a_batch_that_is_held_is_never_written_again() -> None:
    buffer = frames_buffer()
    held = [buffer.sample(8) for _ in range(6)]
    copies = [{name: column.copy() for name, column in batch.items()} for batch in held]
    for _ in range(20):
        assert whole(buffer.sample(8))
    for batch, copy in zip(held, copies, strict=True):
        assert all((batch[name] == copy[name]).all() for name in batch)


def test_even_a_view_of_it_is_enough_to_hold_it() -> None:
    buffer = frames_buffer()
    view = buffer.sample(8)["obs"][3, :2]
    copy = view.copy()
    for _ in range(20):
        buffer.sample(8)
    assert (view == copy).all()


def test_memory_is_used_again_once_it_is_let_go() -> None:
    buffer = frames_buffer()
    seen = set()
    batch = buffer.sample(8)
    for _ in range(30):
        batch = buffer.sample(8)  # the one before is held meanwhile
        seen.add(batch["obs"].ctypes.data)
    assert len(seen) <= 3


def test_batches_outlive_the_buffer() -> None:
    buffer = frames_buffer()
    batch = buffer.sample(8)
    buffer.close()
    del buffer
    gc.collect()
    assert whole(batch)


def test_batches_of_changing_size() -> None:
    buffer = frames_buffer()
    for size in (8, 40, 3, 0, 100, 8, 1):
        batch = buffer.sample(size)
        assert batch["obs"].shape == (size, 84, 84, 4)
        assert whole(batch)


def test_a_batch_beyond_memory_is_an_error() -> None:
    buffer = frames_buffer()
    with pytest.raises((MemoryError, ValueError)):
        buffer.sample(1 << 60)
    assert whole(buffer.sample(8))


@pytest.mark.parametrize("rows", [4, 32])
def test_numpy_takes_a_batch_by_dlpack_without_a_copy(rows: int) -> None:
    batch = frames_buffer().sample(rows)
    for column in batch.values():
        assert np.from_dlpack(column).ctypes.data == column.ctypes.data


@pytest.mark.parametrize("rows", [4, 32])
def test_torch_takes_a_batch_without_a_copy(rows: int) -> None:
    torch = pytest.importorskip("torch")
    for batch in (frames_buffer().sample(rows), filled(PrioritizedReplayBuffer).sample(rows)):
        for name, column in batch.items():
            for tensor in (torch.from_numpy(column), torch.from_dlpack(column)):
                assert tensor.data_ptr() == column.ctypes.data, name


def test_jax_takes_a_large_batch_without_a_copy() -> None:
    """Small arrays it copies, as they are aligned less than it wants."""
    jnp = pytest.importorskip("jax.numpy")
    for rows in (4, 32, 33):
        frames = frames_buffer().sample(rows)["obs"]
        assert jnp.from_dlpack(frames).unsafe_buffer_pointer() == frames.ctypes.data


def test_large_arrays_are_aligned_for_it() -> None:
    for rows in (4, 5, 32, 33):
        assert frames_buffer().sample(rows)["obs"].ctypes.data % 64 == 0


def filled(kind: type) -> ReplayBuffer:
    buffer = kind(100, ENV_DICT)
    buffer.add(**make_rows(0, 100))
    return buffer
