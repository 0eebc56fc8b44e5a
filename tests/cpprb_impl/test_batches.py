"""Batches are written into the caller's arrays or recycled arrays, and other libraries can use them without a copy."""

from __future__ import annotations

import gc
import re
import weakref
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT, make_rows, numbers_of

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
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


def test_a_batch_is_written_into_the_arrays_of_out(buffer) -> None:
    out = buffer.sample(32)
    before = {name: (id(column), column.ctypes.data) for name, column in out.items()}
    first = out["act"].copy()
    assert buffer.sample(32, out=out) is out
    assert {name: (id(column), column.ctypes.data) for name, column in out.items()} == before
    assert (out["act"] != first).any()
    numbers_of(out)
    out["more"] = np.zeros(3)  # ignored, as add ignores unknown keys
    buffer.sample(32, out=out)


def test_weights_and_indexes_are_written_into_out() -> None:
    buffer = PrioritizedReplayBuffer(100, ENV_DICT)
    buffer.add(**make_rows(0, 100), priorities=np.arange(100) + 1.0)
    out = buffer.sample(16, 0.4)
    out["weights"][:] = -1
    buffer.sample(16, 0.4, out=out)
    assert (out["weights"] > 0).all()
    assert (out["indexes"] == numbers_of(out)).all()


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="this Linux was built without huge pages")
def test_columns_of_4_mib_request_huge_pages() -> None:
    buffer = frames_buffer()
    column = buffer.sample(256)["obs"]
    assert column.nbytes >= 4 << 20
    assert asks_for_huge_pages(column.ctypes.data + column.nbytes // 2)


def asks_for_huge_pages(address: int) -> bool:
    """Return whether the mapping at this address has MADV_HUGEPAGE."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError("no mapping at this address")


def test_rows_of_images_begin_at_a_cache_line() -> None:
    assert bytes_per_row(FRAMES) == 28_224 + 64  # the action, plus 56 unused bytes
    assert bytes_per_row({"obs": {"shape": 4096, "dtype": np.uint8}, "act": {"dtype": np.int64}}) == 4096 + 8


def bytes_per_row(fields: dict) -> float:
    return (ReplayBuffer(1024, fields).nbytes - ReplayBuffer(512, fields).nbytes) / 512


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
def test_the_error_names_arrays_of_out_that_do_not_fit(buffer, wrong, error) -> None:
    out = buffer.sample(8)
    kept = out["obs"].copy()
    with pytest.raises(error, match="rew"):
        buffer.sample(8, out=wrong(out))
    assert (out["obs"] == kept).all()


def test_out_must_be_a_dict(buffer) -> None:
    with pytest.raises(TypeError, match="out must be a dict"):
        buffer.sample(8, out=[1])


KINDS = [ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer]


@pytest.mark.parametrize("rows", [8, 3000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_use_is_never_overwritten(kind: type, rows: int) -> None:
    buffer = filled(kind)
    held = [buffer.sample(rows) for _ in range(6)]
    copies = [{name: column.copy() for name, column in batch.items()} for batch in held]
    for _ in range(20):
        numbers_of(buffer.sample(rows))
    for batch, copy in zip(held, copies, strict=True):
        assert all((batch[name] == copy[name]).all() for name in batch)
    buffer.close()


#: ways to reference a part of a batch, without the batch itself
HOLDING = {
    "an array": lambda batch: batch["act"],
    "an array taken out": lambda batch: batch.pop("act"),
    "a view": lambda batch: batch["act"][3:, :],
    "a view of a view": lambda batch: batch["act"].ravel()[:5].T,
    "a replaced array": lambda batch: (batch["act"], batch.update(act=None))[0],
    "a swapped array": lambda batch: (batch["act"], batch.update(act=batch["act"].copy()))[0],
    "another dict": lambda batch: np.asarray(dict(batch)["act"]),
    "a memoryview": lambda batch: memoryview(batch["act"]),
    "DLPack": lambda batch: np.from_dlpack(batch["act"]),
    "an iterator": lambda batch: (iter(batch["act"].flat), batch["act"])[1],
}


@pytest.mark.parametrize("rows", [8, 3000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hold", HOLDING.values(), ids=HOLDING.keys())
def test_a_reference_to_a_part_keeps_a_batch_from_being_overwritten(kind: type, hold, rows: int) -> None:
    buffer = filled(kind)
    buffer.sample(rows)
    for _ in range(4):
        held = hold(buffer.sample(rows))
        before = np.array(held)
        for _ in range(6):
            numbers_of(buffer.sample(rows))
        assert (np.array(held) == before).all()
    buffer.close()


KEPT: list[np.ndarray] = []

#: changes that a caller may make to a batch before releasing it
SPOILING = {
    "a new key": lambda batch: batch.update(more=1),
    "a key less": lambda batch: batch.pop("rew") is None,
    "another value": lambda batch: batch.update(rew=np.zeros(3)),
    "another array, held": lambda batch: KEPT.append(np.zeros_like(batch["rew"])) or batch.update(rew=KEPT[-1]),
    "another order": lambda batch: batch.update(obs=batch.pop("obs")),
    "another shape": lambda batch: setattr(batch["obs"], "shape", (-1,)),
    "another dtype": lambda batch: setattr(batch["obs"], "dtype", np.int32),
    "read only": lambda batch: batch["obs"].setflags(write=False),
    "other strides": lambda batch: setattr(batch["obs"], "shape", batch["obs"].shape[::-1]),
    "other names": lambda batch: [batch.update({f"my_{name}": batch.pop(name)}) for name in list(batch)],
    "another dtype of the same size": lambda batch: setattr(batch.get("indexes", batch["act"]), "dtype", np.float64),
    "nothing left": lambda batch: batch.clear(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", SPOILING.values(), ids=SPOILING.keys())
def test_changes_to_a_released_batch_do_not_reappear(kind: type, spoil) -> None:
    buffer = filled(kind)
    kinds = {name: (column.shape, column.dtype, column.flags.writeable) for name, column in buffer.sample(8).items()}
    for _ in range(6):
        batch = buffer.sample(8)
        assert {name: (c.shape, c.dtype, c.flags.writeable) for name, c in batch.items()} == kinds
        numbers_of(batch)
        spoil(batch)
        del batch
    buffer.close()


@pytest.mark.parametrize("rows", [8, 3000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_weak_reference_keeps_no_batch_and_never_returns_another_one(kind: type, rows: int) -> None:
    buffer = filled(kind)
    batch = buffer.sample(rows)
    before = batch["act"].copy()
    weak = weakref.ref(batch["act"])
    del batch
    for _ in range(4):
        buffer.sample(rows)
        assert weak() is None or (weak() == before).all()
    buffer.close()


def test_a_released_batch_is_recycled() -> None:
    """The control of the tests above, which would be pointless if no batch were recycled."""
    for buffer in (filled(ReplayBuffer), filled(PrioritizedReplayBuffer), frames_buffer()):
        seen = set()
        batch = buffer.sample(8)
        for _ in range(30):
            batch = buffer.sample(8)  # the previous batch is still referenced
            seen.add(batch["act"].ctypes.data)
        assert len(seen) == 2


@pytest.mark.parametrize("part", [lambda batch: batch, lambda batch: batch["act"]], ids=["batch", "array"])
def test_batches_of_a_queue_of_eight_are_recycled(part) -> None:
    for buffer in (filled(ReplayBuffer), filled(PrioritizedReplayBuffer), frames_buffer()):
        queue, seen = deque(maxlen=8), set()
        for _ in range(60):
            batch = buffer.sample(8)
            seen.add(batch["act"].ctypes.data)
            queue.append(part(batch))
            del batch
        assert len(seen) == 9


def test_few_released_batches_are_kept() -> None:
    buffer = frames_buffer()
    queue = [buffer.sample(8) for _ in range(8)]
    gone = [weakref.ref(batch["act"]) for batch in queue]
    queue.clear()
    del queue
    for size in range(9, 20):  # none of the released batches fits
        gone.append(weakref.ref(buffer.sample(size)["act"]))
        assert sum(weak() is not None for weak in gone) <= 2


def test_a_buffer_referenced_by_its_own_batch_is_garbage_collected() -> None:
    buffer = filled(ReplayBuffer)
    gone = weakref.ref(buffer)
    buffer.sample(8)["me"] = buffer
    del buffer
    gc.collect()
    assert gone() is None


def test_batches_outlive_the_buffer() -> None:
    buffer = frames_buffer()
    batch = buffer.sample(8)
    buffer.close()
    del buffer
    gc.collect()
    assert whole(batch)


def test_batches_of_changing_size_are_complete() -> None:
    buffer = frames_buffer()
    for size in (8, 40, 3, 0, 100, 8, 1):
        batch = buffer.sample(size)
        assert batch["obs"].shape == (size, 84, 84, 4)
        assert whole(batch)


def test_a_batch_too_large_for_memory_raises_an_error_with_its_number_of_rows() -> None:
    buffer = frames_buffer()
    for rows in (10**12, 1 << 60, (1 << 63) - 1):
        with pytest.raises(MemoryError, match=f"a batch of {rows} rows does not fit into memory"):
            buffer.sample(rows)
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
    """JAX copies small arrays, since their alignment is smaller than it requires."""
    jnp = pytest.importorskip("jax.numpy")
    for rows in (4, 32, 33):
        frames = frames_buffer().sample(rows)["obs"]
        assert jnp.from_dlpack(frames).unsafe_buffer_pointer() == frames.ctypes.data


def test_large_arrays_are_aligned_as_jax_requires() -> None:
    for rows in (4, 5, 32, 33):
        assert frames_buffer().sample(rows)["obs"].ctypes.data % 64 == 0


def filled(kind: type) -> ReplayBuffer:
    buffer = kind(100, ENV_DICT)
    buffer.add(**make_rows(0, 100))
    return buffer
