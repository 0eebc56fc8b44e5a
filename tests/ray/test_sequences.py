"""Sequences of steps from the buffer on the hosts of a Ray cluster, here with one host."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from tests.cpprb_impl.test_shared_sequences import STEPS, check_windows, steps

from .test_buffer import kill_supervisor, wait_until

ray = pytest.importorskip("ray")

from cpprb_impl.hosts import kept  # noqa: E402 (only if Ray is installed)
from cpprb_impl.hosts.explorer import RemoteExplorer  # noqa: E402 (the same)
from cpprb_impl.ray import PrioritizedReplayBuffer  # noqa: E402 (the same)

ENVS, SIZE, EPISODE = 2, 4, 7
OF_EPISODE = EPISODE - SIZE + 1  # sequences
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def of_sequences(cluster) -> Iterator[PrioritizedReplayBuffer]:
    sequences = {"size": SIZE}
    with closing(PrioritizedReplayBuffer(10_000, STEPS, alpha=1, eps=0, n_envs=ENVS, sequences=sequences)) as made:
        yield made


@pytest.fixture
def buffer(of_sequences) -> Iterator[PrioritizedReplayBuffer]:
    with closing(pickle.loads(pickle.dumps(of_sequences))) as first:
        first._explorer._buffer.clear()
    with closing(pickle.loads(pickle.dumps(of_sequences))) as empty:
        yield empty


@ray.remote(num_cpus=0)
def explore(buffer, explorer: int, count: int) -> None:
    for at in range(0, count, 3):
        buffer.add(**steps(explorer, at, 3, ENVS))
    buffer.flush()


@pytest.mark.parametrize("is_remote", [False, True])
def test_explorers_in_tasks_and_here_add_sequences(is_remote, buffer, monkeypatch):
    if is_remote:
        monkeypatch.setattr(PrioritizedReplayBuffer, "_local_explorer", lambda _self: None)
    ray.get([explore.remote(buffer, number, 30 * EPISODE) for number in range(3)])
    for at in range(0, 30 * EPISODE, 3):
        buffer.add(**steps(3, at, 3, ENVS))
    buffer.flush()
    assert isinstance(buffer._explorer_, RemoteExplorer) is is_remote
    assert buffer.get_valid_sequences() == 4 * ENVS * 30 * OF_EPISODE
    assert buffer.get_stored_size() == 4 * ENVS * 30 * EPISODE
    batch = buffer.sample_sequences(2000, beta=0.5)
    check_windows(batch)
    assert {*batch["explorer"].ravel()} == {0, 1, 2, 3} and (batch["weights"] == 1).all()


def test_time_can_be_the_first_axis(buffer):
    buffer.add(**steps(0, 0, 50, ENVS))
    batch = buffer.sample_sequences(32, time_major=True)
    assert batch["step"].shape == (SIZE, 32, 1) and batch["is_first"].shape == (SIZE, 32)
    assert batch["weights"].shape == batch["indexes"].shape == (32,)
    assert all(array.flags.c_contiguous for array in batch.values())
    check_windows({name: array.swapaxes(0, 1) for name, array in batch.items() if array.ndim > 1})


def test_weights_follow_priorities_and_errors_of_steps(buffer):
    buffer.add(**steps(0, 0, EPISODE, ENVS))
    batch = buffer.sample_sequences(64)
    last = batch["step"][:, -1, 0]
    buffer.update_priorities(batch["indexes"], np.repeat(last[:, None] + 1.0, SIZE, axis=1))
    buffer.get_valid_sequences()  # is answered after the update
    for _ in range(5):  # some batches were requested before
        batch = buffer.sample_sequences(64, beta=1)
    np.testing.assert_allclose(batch["weights"], SIZE / (batch["step"][:, -1, 0] + 1.0), rtol=1e-6)
    buffer.update_priorities(batch["indexes"], np.full(64, 3.0))
    with pytest.raises(ValueError, match=r"priorities must be of shape \(64,\), or errors of shape \(64, 4\)"):
        buffer.update_priorities(batch["indexes"], np.ones((64, 3)))


def test_calls_that_need_rows_or_sequences_are_refused_without_them(buffer):
    with pytest.raises(ValueError, match="an episode of 4 consecutive steps must be stored, got 0, so 4 are missing"):
        buffer.sample_sequences(1)
    with pytest.raises(TypeError, match=r"sample\(\) is not supported by a prioritized buffer with sequences"):
        buffer.sample(1)
    with pytest.raises(TypeError, match="out"):
        buffer.sample_sequences(1, out={})
    with closing(PrioritizedReplayBuffer(10, STEPS)) as plain:
        plain.add(**steps(0, 0, 5))
        for name, given in (("sample_sequences", [1]), ("get_valid_sequences", [])):
            with pytest.raises(ValueError, match=rf"{name}\(\) requires a buffer that was created with the option"):
                getattr(plain, name)(*given)
        plain.sample(1)


def test_sequences_are_saved_and_loaded_with_their_priorities(buffer, of_sequences, tmp_path):
    ray.get([explore.remote(buffer, number, 10 * EPISODE) for number in range(2)])
    buffer.add(**steps(2, 0, EPISODE, ENVS), priorities=np.full(EPISODE * ENVS, 1000.0))
    buffer.flush()
    expected = (2 * 10 + 1) * ENVS * OF_EPISODE
    assert buffer.get_valid_sequences() == expected
    buffer.save_transitions(tmp_path / "saved")
    with closing(pickle.loads(pickle.dumps(of_sequences))) as emptied:
        emptied._explorer._buffer.clear()
    buffer.load_transitions(tmp_path / "saved")
    assert buffer.get_valid_sequences() == expected
    for _ in range(5):  # some batches were requested before
        batch = buffer.sample_sequences(500)
    check_windows(batch)
    assert (batch["explorer"] == 2).mean() > 0.9
    buffer.load_transitions(tmp_path / "saved")
    assert buffer.get_valid_sequences() == 2 * expected
    check_windows(buffer.sample_sequences(500))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sequences": {}}, KeyError, "sequences needs 'size'"),
        ({"sequences": 3}, TypeError, "sequences must be a dict with 'size', got 3"),
        ({"sequences": {"size": 6}, "n_envs": 2}, ValueError, r"size \+ burn_in must be at most 5"),
        ({"sequences": {"size": 3}, "Nstep": {"size": 2}}, ValueError, "sequences must be None with Ns"),
        ({"sequences": {"size": 3, "state": "h"}}, KeyError, "sequences: state must name fields"),
    ],
)
def test_the_error_for_a_bad_option_names_it(options, error, message):
    with pytest.raises(error, match=message):
        PrioritizedReplayBuffer(10, STEPS, **options)


def test_a_run_ends_where_a_shard_was_replaced(monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.explorer.RETURN_SECONDS", 0.1)
    with closing(PrioritizedReplayBuffer(1000, STEPS, sequences={"size": SIZE})) as buffer:
        buffer.add(**steps(0, 0, 10))
        (address,) = buffer._known()()
        kept.remove(address.segment)
        kill_supervisor(buffer)
        wait_until(lambda: [each.number for each in buffer._known()()] not in ([], [address.number]))
        buffer.add(**steps(0, 10, 18))
        batch = buffer.sample_sequences(200)
        check_windows(batch)  # the first step there is not the first of an episode
        assert batch["step"].min() == 10 and buffer.get_valid_sequences() == 1 + 2 * OF_EPISODE
