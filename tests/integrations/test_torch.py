"""Samples in tensors: by `out=`, and by `cpprb_impl.torch` with a device that copies as late as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cpprb_impl.torch
from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)
from cpprb_impl.torch import TensorSampler

ROWS, BATCH = 40, 8
FIELDS = {
    "obs": {"shape": (2, 3), "dtype": np.uint8},
    "act": {"shape": (), "dtype": np.int64},
    "rew": {"dtype": np.float32},
    "done": {"dtype": bool},
}
KINDS = [ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer, MPPrioritizedReplayBuffer]
kinds = pytest.mark.parametrize("kind", KINDS)


def filled(kind: type):
    buffer = kind(ROWS, FIELDS, seed=1)
    number = np.arange(ROWS)
    buffer.add(obs=np.repeat(number, 6).reshape(ROWS, 2, 3), act=number, rew=number, done=number % 2)
    return buffer


def tensors_like(batch) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.zeros_like(column)) for name, column in batch.items()}


def is_consistent(batch) -> bool:
    """Whether each row's fields belong together."""
    act = batch["act"]
    return bool(
        (batch["obs"] == act[:, None, None]).all()
        and (batch["rew"] == act[:, None]).all()
        and (batch["done"] == (act[:, None] % 2 == 1)).all()
        and ("indexes" not in batch or (batch["indexes"] == act).all())
    )


@kinds
def test_samples_are_written_into_tensors(kind):
    wanted, buffer = filled(kind).sample(BATCH), filled(kind)
    out = tensors_like(wanted)
    assert buffer.sample(BATCH, out=out) is out
    assert all((out[name].numpy() == wanted[name]).all() for name in wanted)
    assert is_consistent(out)


class NotItsMemory:
    """Returns a copy of its memory instead of a view, as tensors of some libraries do."""

    def numpy(self) -> np.ndarray:
        return np.zeros((BATCH, 1), np.float32)

    def data_ptr(self) -> int:
        return id(self)


@kinds
@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda rew: rew.double(), ValueError, r"out\['rew'\] must have dtype float32, got float64"),
        (lambda rew: rew[:-1], ValueError, r"out\['rew'\] must have shape \(8, 1\), got \(7, 1\)"),
        (lambda rew: rew.repeat(1, 2)[:, :1], ValueError, r"out\['rew'\] must be writeable and in C order"),
        (lambda rew: rew.clone().requires_grad_(), TypeError, r"out\['rew'\] must be an array, or a tensor in CPU mem"),
        (lambda rew: rew.to("meta"), TypeError, r"out\['rew'\] must be an array, or a tensor in CPU memory"),
        (lambda rew: rew.bfloat16(), TypeError, r"out\['rew'\] must be an array, or a tensor"),
        (lambda _: NotItsMemory(), TypeError, r"out\['rew'\] must be an array, or a tensor"),
        (lambda rew: rew.tolist(), TypeError, r"out\['rew'\] must be an array, or a tensor"),
    ],
)
def test_the_error_names_tensors_that_do_not_fit_and_nothing_is_written(kind, wrong, error, says):
    buffer = filled(kind)
    out = tensors_like(buffer.sample(BATCH))
    with pytest.raises(error, match=says):
        buffer.sample(BATCH, out=out | {"rew": wrong(out["rew"])})
    assert not any(tensor.any() for tensor in out.values())


def newest(buffer, out=None):
    """Add a row to a buffer of one row, and sample it, so that all samples have the same indexes."""
    buffer.add(x=0.0)
    return buffer.sample(1, out=out) if out else buffer.sample(1)


def tensors_of_one() -> dict[str, torch.Tensor]:
    kinds = {"x": torch.float32, "weights": torch.float32, "indexes": torch.int64}
    return {name: torch.zeros((1, 1) if name == "x" else 1, dtype=dtype) for name, dtype in kinds.items()}


@pytest.mark.parametrize(
    "form", [lambda it: it, lambda it: it.numpy(), lambda it: it[:], lambda it: it.view(-1, 1)],
    ids=["tensor", "array", "slice", "view"],
)  # fmt: skip
def test_updates_with_a_tensor_find_their_sample(form):
    """With a single row, all samples look alike: only the tensor's memory identifies the sample of an update."""
    buffer = MPPrioritizedReplayBuffer(1, {"x": {}}, alpha=1.0, eps=0.0)
    older, newer = tensors_of_one(), tensors_of_one()
    newest(buffer, older)
    newest(buffer, newer)
    buffer.update_priorities(form(older["indexes"]), 5.0)  # too late: the sampled row was overwritten
    assert buffer.get_max_priority() == 1.0
    buffer.update_priorities(form(newer["indexes"]), 3.0)
    assert buffer.get_max_priority() == 3.0
    buffer.close()


def test_a_refilled_tensor_belongs_to_the_newer_sample():
    buffer = MPPrioritizedReplayBuffer(1, {"x": {}}, alpha=1.0, eps=0.0)
    out = tensors_of_one()
    newest(buffer, out)
    newest(buffer, out)
    buffer.update_priorities(out["indexes"], 3.0)
    assert buffer.get_max_priority() == 3.0
    buffer.close()


@kinds
def test_samples_are_not_copied_on_the_cpu(kind):
    wanted, buffer = filled(kind), filled(kind)
    sampler = TensorSampler(buffer)
    held = []
    for size in (1, BATCH, 2 * BATCH):
        for _ in range(4):
            held.append(sampler.sample(size))
            expected = wanted.sample(size)
            assert held[-1].keys() == expected.keys()
            assert all((held[-1][name].numpy() == expected[name]).all() for name in expected)
    assert all(is_consistent(batch) for batch in held)


def no_reward(obs, _act, _goal) -> np.ndarray:
    return np.zeros((len(obs), 1))


def test_any_buffer_whose_sample_method_accepts_out_works():
    buffer = HindsightReplayBuffer(
        100, {"obs": {}, "act": {}, "next_obs": {}}, max_episode_len=5, reward_func=no_reward
    )
    buffer.add(obs=1.0, act=2.0, next_obs=3.0)
    buffer.on_episode_end(np.ones(1))
    assert (TensorSampler(buffer).sample(4)["act"] == 2).all()


class LateDevice:
    """A device that makes copies only when the program waits for them, or at the end."""

    def __init__(self, monkeypatch) -> None:
        self.waited, self.queue = 0, []
        monkeypatch.setattr(cpprb_impl.torch, "pinned", torch.empty_like)
        monkeypatch.setattr(cpprb_impl.torch, "start_copies", self.start_copies)

    def start_copies(self, tensors, device):
        assert device == torch.device("meta")
        copies = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        self.queue.append((tensors, copies))
        return copies, Event(self, len(self.queue))

    def copy(self, until: int) -> None:
        for tensors, copies in self.queue[:until]:
            for name, copy in copies.items():
                copy.copy_(tensors[name])
        self.queue[:until] = [({}, {})] * until


class Event:
    def __init__(self, device: LateDevice, number: int) -> None:
        self.device, self.number = device, number

    def synchronize(self) -> None:
        self.device.waited += 1
        self.device.copy(self.number)


@pytest.fixture
def late(monkeypatch) -> LateDevice:
    return LateDevice(monkeypatch)


@kinds
def test_a_device_receives_each_sample(late, kind):
    buffer = filled(kind)
    sampler = TensorSampler(buffer, "meta")
    batches = [sampler.sample(BATCH) for _ in range(7)]
    assert late.waited == 5  # since two samples can be in transfer
    late.copy(len(late.queue))
    assert all(is_consistent(batch) for batch in batches)
    assert len({tuple(batch["act"].tolist()) for batch in batches}) == 7


def test_without_waiting_a_device_receives_a_later_sample(late, monkeypatch):
    """The control for the test above."""
    monkeypatch.setattr(Event, "synchronize", lambda _: None)
    sampler = TensorSampler(filled(PrioritizedReplayBuffer), "meta")
    batches = [sampler.sample(BATCH) for _ in range(7)]
    late.copy(len(late.queue))
    assert not all(is_consistent(batch) for batch in batches)


def of_sequences(kind: type, **sequences: Any) -> Any:
    buffer = kind(ROWS, FIELDS, sequences={"size": 4, **sequences}, seed=1)
    number = np.arange(ROWS)
    buffer.add(obs=np.repeat(number, 6).reshape(ROWS, 2, 3), act=number, rew=number, done=number % 9 == 8)
    return buffer


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_device_receives_sequences(late, device, kind):
    options = {"ends": "pad", "burn_in": 1, "state": "rew"}
    expected, buffer = of_sequences(kind, **options), of_sequences(kind, **options)
    sampler = TensorSampler(buffer, device)
    for step in range(12):
        time_major = step % 3 == 0
        wanted = expected.sample_sequences(4, time_major=time_major)
        if device == "meta" and step in (0, 1):  # the first of each shape is drawn to find its shapes
            wanted = expected.sample_sequences(4, time_major=time_major)
        batch = sampler.sample_sequences(4, time_major=time_major)
        late.copy(len(late.queue))
        assert batch.keys() == wanted.keys()
        for name, column in wanted.items():
            np.testing.assert_array_equal(batch[name].numpy(), column)
    if kind is PrioritizedReplayBuffer:
        buffer.update_priorities(batch["indexes"], torch.full((4, 5), 50.0))
        assert buffer.get_max_priority() == 50.0


def test_samples_and_sequences_may_alternate(late):
    buffer = of_sequences(ReplayBuffer)
    sampler = TensorSampler(buffer, "meta")
    for _ in range(3):
        assert sampler.sample(BATCH)["act"].shape == (BATCH,)
        assert sampler.sample_sequences(BATCH)["act"].shape == (BATCH, 4)


def test_a_buffer_without_sequences_is_refused():
    with pytest.raises(TypeError, match="buffer must have a method sample_sequences, got Hindsight"):
        TensorSampler(
            HindsightReplayBuffer(100, {"obs": {}, "act": {}, "next_obs": {}}, 5, no_reward)
        ).sample_sequences(1)
    with pytest.raises(TypeError, match="to fill existing ones, call the buffer's sample_sequences"):
        TensorSampler(of_sequences(ReplayBuffer)).sample_sequences(1, out={})


def test_priorities_are_updated_with_the_indexes_of_an_earlier_sample(late):
    buffer = filled(PrioritizedReplayBuffer)
    sampler = TensorSampler(buffer, "meta")
    first = sampler.sample(BATCH)
    numbers = first["indexes"].clone()
    for _ in range(5):
        sampler.sample(BATCH)
    assert (first["indexes"] == numbers).all()
    buffer.update_priorities(first["indexes"], torch.full((BATCH,), 50.0))
    assert buffer.get_max_priority() == 50.0


def test_sizes_and_options_may_change(late):
    buffer = filled(PrioritizedReplayBuffer)
    sampler = TensorSampler(buffer, "meta")
    for size in (BATCH, 1, BATCH, ROWS):
        batch = sampler.sample(size, beta=1.0)
        late.copy(len(late.queue))
        assert is_consistent(batch) and len(batch["weights"]) == size
    with pytest.raises(ValueError, match="beta"):
        sampler.sample(BATCH, beta=-1.0)
    batch = sampler.sample(BATCH)
    late.copy(len(late.queue))
    assert is_consistent(batch)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_bad_input_is_refused(late, device):
    with pytest.raises(TypeError, match="buffer must have a method sample, got list"):
        TensorSampler([], device)
    with pytest.raises(ValueError, match="batch_size"):
        TensorSampler(filled(ReplayBuffer), device).sample(-1)
    with pytest.raises(ValueError, match="empty"):
        TensorSampler(ReplayBuffer(10, FIELDS), device).sample(1)
    objects = ReplayBuffer(10, {"x": {"dtype": object}})
    objects.add(x="a")
    with pytest.raises(TypeError, match="x has Python objects, which tensors cannot hold"):
        TensorSampler(objects, device).sample(1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@kinds
def test_a_gpu_receives_each_sample(kind):
    buffer = filled(kind)
    sampler = TensorSampler(buffer, "cuda")
    batches = [sampler.sample(BATCH) for _ in range(50)]
    for batch in batches:
        assert batch["obs"].is_cuda and ("indexes" not in batch or not batch["indexes"].is_cuda)
        assert is_consistent({name: column.cpu() for name, column in batch.items()})


def test_a_sampler_refuses_out():
    buffer = PrioritizedReplayBuffer(8, {"rew": {}})
    buffer.add(rew=1.0)
    with pytest.raises(TypeError, match="a TensorSampler makes its own tensors"):
        TensorSampler(buffer).sample(1, out={})


@kinds
def test_tensors_are_accepted_with_env_ids_and_autoreset(kind):
    fields = {"obs": {"shape": 2}, "done": {}}
    obs, over = torch.arange(8.0).reshape(4, 2), torch.tensor([True, False, True, False])
    some, resetting = kind(12, fields, n_envs=4), kind(12, fields, n_envs=4, autoreset="next_step")
    some.add(env_ids=over, obs=obs, done=torch.zeros(4))
    for done in (over, torch.zeros(4)):
        resetting.add(obs=obs, done=done)
    assert some.get_all_transitions()["obs"].tolist() == obs[over].tolist()
    assert resetting.get_all_transitions()["obs"].tolist() == [*obs.tolist(), *obs[~over].tolist()]
