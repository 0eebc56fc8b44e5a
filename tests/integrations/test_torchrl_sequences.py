"""Sequences of steps from our buffers of TensorDicts, as TorchRL's recurrent modules take them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler
from torchrl.data import TensorDictReplayBuffer as Theirs
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.envs.transforms import BurnInTransform
from torchrl.modules import LSTMModule, QValueModule, set_recurrent_mode

from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

from .test_torchrl import assert_equal

NUMBER = "number"  # of a step, over all environments
STATES = ["recurrent_state_h", "recurrent_state_c"]
WINDOWS = {"size": 5}


class Streams:
    """Environments whose episodes have random lengths."""

    def __init__(self, n_envs: int = 1, seed: int = 0, ends: float = 0.1) -> None:
        self.random, self.ends = np.random.default_rng(seed), ends
        self.steps = [0] * n_envs  # of each environment
        self.begins = np.ones(n_envs, bool)
        self.added: list[TensorDict] = []

    def next(self, steps: int) -> TensorDict:
        """Return the next steps of each environment as a collector does: a TensorDict (n_envs, steps)."""
        n_envs = len(self.steps)
        done = self.random.random((n_envs, steps, 2)) < self.ends / 2
        number = np.array(self.steps)[:, None] + np.arange(steps) + 1000 * np.arange(n_envs)[:, None]
        begins = np.concatenate([self.begins[:, None], done.any(axis=2)[:, :-1]], axis=1)
        self.steps, self.begins = [step + steps for step in self.steps], done[:, -1].any(axis=1)
        data = TensorDict(
            {
                NUMBER: torch.from_numpy(number),
                "observation": torch.from_numpy(number[..., None] * np.ones(3)).float(),
                "is_init": torch.from_numpy(begins[..., None]),
                "next": {
                    "observation": torch.from_numpy((number[..., None] + 1) * np.ones(3)).float(),
                    "reward": torch.from_numpy(number[..., None]).float(),
                    "terminated": torch.from_numpy(done[..., :1]),
                    "truncated": torch.from_numpy(done[..., 1:]),
                    "done": torch.from_numpy(done.any(axis=2, keepdims=True)),
                },
            },
            batch_size=[n_envs, steps],
        )
        self.added.append(data)
        return data

    def all(self) -> TensorDict:
        return torch.cat(self.added, dim=1)


def reset(streams: Streams) -> None:
    """Begin new episodes in all environments, without an end of those before, as a collector's reset does."""
    streams.begins[:] = True


def filled(n_envs: int = 3, steps: int = 60, **options: Any) -> tuple[Any, Streams]:
    options.setdefault("sequences", WINDOWS)
    buffer, streams = TensorDictReplayBuffer(600, n_envs=n_envs, seed=0, **options), Streams(n_envs)
    for _ in range(steps // 10):
        buffer.extend(streams.next(10))
    return buffer, streams


def starts(streams: Streams, size: int, ends: str = "stop") -> set[int]:
    """Return the first step of each sequence that may be drawn."""
    data = streams.all()
    found = set()
    for environment in data:
        done, begins = environment["next", "done"][:, 0], environment["is_init"][:, 0]
        for start in range(len(environment) - size + 1):
            broken = done[start : start + size - 1] | begins[start + 1 : start + size]
            if ends == "cross" or not broken.any():
                found.add(int(environment[NUMBER][start]))
    return found


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("ends", ["stop", "cross"])
def test_sequences_are_consecutive_steps_that_were_added(ends, optimize):
    buffer, streams = filled(sequences={"size": 5, "ends": ends}, optimize_memory_usage=optimize)
    batch = buffer.sample(2000)
    assert batch.batch_size == (2000, 5)
    first = batch[NUMBER][:, :1]
    assert (batch[NUMBER] == first + torch.arange(5)).all()
    assert {*first.ravel().tolist()} == starts(streams, 5, ends)
    assert_equal(batch, streams.all()[batch[NUMBER] // 1000, batch[NUMBER] % 1000])


def test_sequences_equal_those_of_slice_sampler():
    buffer, streams = filled(n_envs=1)
    theirs = Theirs(storage=LazyTensorStorage(600), sampler=SliceSampler(slice_len=5, init_key=None), batch_size=20_000)
    theirs.extend(streams.all()[0])
    slices = theirs.sample().reshape(-1, 5)
    ours = buffer.sample(4000)
    assert {*map(tuple, ours[NUMBER].tolist())} == {*map(tuple, slices[NUMBER].tolist())}
    assert set(ours.keys(True, True)) == set(slices.keys(True, True)) - {"index"}
    for key in ours.keys(True, True):
        assert ours[key].shape[1:] == slices[key].shape[1:] and ours[key].dtype == slices[key].dtype


def test_padded_steps_are_masked_and_zero():
    buffer, streams = filled(sequences={"size": 6, "burn_in": 2, "ends": "pad"})
    batch = buffer.sample(500)
    mask = batch["mask"]
    assert mask.shape == (500, 8) and mask.dtype == torch.bool and not mask.all() and mask[:, 2:].any(dim=1).all()
    assert_equal(batch.exclude("mask")[mask], streams.all()[batch[NUMBER][mask] // 1000, batch[NUMBER][mask] % 1000])
    for key in batch.keys(True, True):
        assert not batch[key][~mask].any()


def test_is_init_marks_first_steps_if_it_was_not_added():
    with_key, streams = filled(sequences={"size": 5, "ends": "cross"})
    without = TensorDictReplayBuffer(600, n_envs=3, sequences={"size": 5, "ends": "cross"}, seed=0)
    without.extend(streams.all().exclude("is_init"))
    expected, batch = with_key.sample(300), without.sample(300)
    torch.testing.assert_close(batch["is_init"], expected["is_init"])
    assert (
        batch["is_init"].any() and batch["next", "is_init"].shape == (300, 5, 1) and not batch["next", "is_init"].any()
    )


@pytest.mark.parametrize("n_envs", [None, 1, 4])
def test_rows_have_the_shape_and_the_indexes_of_the_steps_that_were_added(n_envs):
    buffer, streams = TensorDictReplayBuffer(40, n_envs=n_envs, sequences={"size": 2}), Streams(n_envs or 1)
    data = streams.next(3)
    indexes = buffer.extend(data if n_envs else data[0])
    assert indexes.shape == ((n_envs, 3) if n_envs else (3,))
    assert_equal(buffer[indexes], data if n_envs else data[0])
    row = streams.next(1)[:, 0]
    index = buffer.add(row if n_envs else row[0])
    assert_equal(buffer[index], row if n_envs else row[0])
    numbers = buffer.sample(200)[NUMBER]
    assert set((numbers[:, 1] % 1000).tolist()) >= {3}


class Rollout:
    """An LSTM, and what it computed step by step during episodes of one environment."""

    def __init__(self, steps: int = 120) -> None:
        torch.manual_seed(0)
        self.lstm = LSTMModule(input_size=3, hidden_size=4, num_layers=2, in_key="observation", out_key="features")
        self.data = Streams(seed=1).next(steps)[0]
        seen = torch.randn(steps + 1, 3)
        self.data["observation"], self.data["next", "observation"] = seen[:-1], seen[1:]
        self.data[NUMBER] = torch.arange(steps)
        state = {key: torch.zeros(2, 4) for key in STATES}
        rows = []
        with torch.no_grad():
            for row in self.data.unbind(0):
                step = row.select("observation", "is_init").update(state)
                if step["is_init"]:
                    step.update({key: torch.zeros(2, 4) for key in STATES})
                rows.append(self.lstm(step.clone()))
                state = {key: rows[-1]["next", key] for key in STATES}
                row.update(step.select(*STATES))
                rows[-1]["states"] = step.select(*STATES)
        self.features = torch.stack([row["features"] for row in rows])
        self.after = {key: torch.stack([row["next", key] for row in rows]) for key in STATES}
        for key in STATES:
            self.data[key] = torch.stack([row["states", key] for row in rows])

    def buffer(self, kind: Any = TensorDictReplayBuffer, **options: Any) -> Any:
        buffer = kind(200, seed=0, **options)
        buffer.extend(self.data)
        return buffer


@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_an_lstm_computes_the_features_of_a_step_by_step_loop(ends):
    rollout = Rollout()
    batch = rollout.buffer(sequences={"size": 7, "ends": ends, "state": STATES}).sample(300)
    assert ends != "cross" or batch["is_init"][:, 1:].any()
    assert batch["recurrent_state_h"].shape == (300, 7, 2, 4)
    with torch.no_grad(), set_recurrent_mode(True):
        features = rollout.lstm(batch)["features"]
    mask = batch["mask"] if ends == "pad" else torch.ones(300, 7, dtype=torch.bool)
    torch.testing.assert_close(features[mask], rollout.features[batch[NUMBER]][mask])


def test_states_of_the_first_step_are_needed_for_these_features():
    rollout = Rollout()
    batch = rollout.buffer(sequences={"size": 7, "state": STATES}).sample(300)
    for key in STATES:
        batch[key].zero_()
    with torch.no_grad(), set_recurrent_mode(True):
        features = rollout.lstm(batch)["features"]
    assert (features - rollout.features[batch[NUMBER]]).abs().max() > 0.01


def test_the_state_after_the_burn_in_is_that_of_a_step_by_step_loop():
    rollout = Rollout()
    batch = rollout.buffer(sequences={"size": 4, "burn_in": 3, "state": STATES}).sample(200)
    with set_recurrent_mode(True):
        burnt = BurnInTransform([rollout.lstm], burn_in=3)(batch)
    assert burnt.batch_size == (200, 4)
    for key in STATES:
        torch.testing.assert_close(burnt[key][:, 0], rollout.after[key][burnt[NUMBER][:, 0] - 1])


def prioritized(**options: Any) -> Any:
    options.setdefault("sequences", {"size": 4, "burn_in": 2, "period": 4, "eta": 1})
    return Rollout().buffer(TensorDictPrioritizedReplayBuffer, alpha=1.0, beta=1.0, eps=0.0, **options)


def test_each_step_of_a_sequence_has_its_index_and_weight():
    batch = prioritized().sample(50)
    for key in ("index", "priority_weight"):
        assert batch[key].shape == (50, 6)
        assert (batch[key] == batch[key][:, :1]).all()
    assert batch["index"].dtype == torch.int64 and batch["priority_weight"].dtype == torch.float32
    index = batch["index"][:, 0]
    assert (index == batch[NUMBER].max(dim=1).values).all()


@pytest.mark.parametrize("part", ["all steps", "without burn-in", "priorities"])
@pytest.mark.parametrize("column", [False, True])
def test_errors_of_steps_become_the_priorities_of_sequences(part, column):
    buffer = prioritized()
    batch = buffer.sample(2000)
    chosen = batch["index"] == batch["index"].max()
    errors = torch.where(chosen, -3.0, 1.0)
    errors[:, :2] = 100.0  # of the burn-in
    errors[:, 3:] = 0
    batch["td_error"] = errors.unsqueeze(-1) if column else errors
    if part == "priorities":
        given = errors[:, 2].abs()
        buffer.update_priority(batch["index"][:, 0], given.unsqueeze(-1) if column else given)
    else:
        buffer.update_tensordict_priority(batch if part == "all steps" else batch[:, 2:])
    again = buffer.sample(20_000)
    is_chosen = again["index"][:, 0] == batch["index"].max()
    sequences = len(batch["index"].unique())
    assert is_chosen.float().mean() == pytest.approx(3 / (sequences + 2), abs=0.02)
    torch.testing.assert_close(again["priority_weight"][:, 0], torch.where(is_chosen, 1 / 3, 1.0))


def test_priorities_of_added_steps_are_those_of_the_sequences_that_end_there():
    rollout = Rollout()
    rollout.data["td_error"] = (rollout.data[NUMBER] == 50).float()
    buffer = rollout.buffer(
        TensorDictPrioritizedReplayBuffer, alpha=1.0, beta=1.0, eps=0.0, sequences={"size": 3, "ends": "cross"}
    )
    assert buffer.sample(20)[NUMBER].tolist() == [[48, 49, 50]] * 20


def test_wrong_errors_and_indexes_are_refused():
    buffer = prioritized()
    batch = buffer.sample(3)
    with pytest.raises(ValueError, match=r"priorities must be of shape \(3,\), or errors of shape \(3, 6\), got"):
        buffer.update_priority(batch["index"], torch.ones(3, 5))
    with pytest.raises(ValueError, match="index must have one value for all steps of a sequence"):
        buffer.update_priority(torch.arange(6).reshape(3, 2), torch.ones(3, 6))


class Recorder(TensorDictPrioritizedReplayBuffer):
    """Records the calls of a method that `extend` and `add` call if it is overridden, as in TorchRL."""

    def update_priority(self, index: torch.Tensor, priority: torch.Tensor) -> None:
        self.given = index, priority
        super().update_priority(index, priority)


def test_an_overridden_method_gets_the_priority_of_each_row():
    buffer, streams = Recorder(40, n_envs=2, alpha=1.0, beta=1.0, sequences={"size": 2}), Streams(2, ends=0)
    data = streams.next(3)
    data["td_error"] = torch.arange(6.0).reshape(2, 3)
    buffer.extend(data)
    assert [each.tolist() for each in buffer.given] == [[0, 2, 4, 1, 3, 5], [0, 1, 2, 3, 4, 5]]
    data = streams.next(1)[:, 0]
    data["td_error"] = torch.tensor([7.0, 8.0])
    buffer.add(data)
    assert [each.tolist() for each in buffer.given] == [[6, 7], [7, 8]]


@pytest.mark.parametrize("numbered", [False, True], ids=["is_init", "traj_ids"])
@pytest.mark.parametrize("ends", ["stop", "cross"])
def test_a_collectors_reset_ends_the_episodes(ends, numbered):
    def steps(count, trajectory):
        data = streams.next(count)
        if numbered:
            data = data.exclude("is_init")
            data["collector", "traj_ids"] = torch.arange(2).unsqueeze(1).expand(2, count) + trajectory
        return data

    buffer, streams = TensorDictReplayBuffer(600, n_envs=2, sequences={"size": 4, "ends": ends}), Streams(2, ends=0)
    buffer.extend(steps(9, 0))
    buffer.extend(steps(2, 0))
    reset(streams)
    buffer.extend(steps(9, 2))
    batch = buffer.sample(2000)
    crossing = (batch[NUMBER] % 1000 == 10)[:, :-1].any(dim=1)
    assert crossing.any() == (ends == "cross")
    assert (batch["is_init"][..., 0] == (batch[NUMBER] % 1000 == 11) | (batch[NUMBER] % 1000 == 0)).all()


@pytest.mark.parametrize("key", ["is_init", "traj_ids"])
def test_an_episode_that_begins_where_none_ended_is_refused(key):
    buffer, streams = TensorDictReplayBuffer(600, n_envs=2, sequences=WINDOWS), Streams(2, ends=0)
    numbers = torch.zeros(2, 8, dtype=torch.int64)
    data = streams.next(8)
    data["collector", "traj_ids"] = numbers
    buffer.extend(data)
    wrong = streams.next(8)
    wrong["collector", "traj_ids"] = numbers.clone()
    if key == "is_init":
        wrong["is_init"][1, 6] = True
    else:
        wrong["collector", "traj_ids"][1, 6:] = 1
    with pytest.raises(ValueError, match="step 6 of environment 1 begins an episode, and the step before it does not"):
        buffer.extend(wrong)
    assert len(buffer) == 16
    of_one = streams.next(8)
    of_one["collector", "traj_ids"] = numbers
    of_one["is_init"][0, 0] = True
    with pytest.raises(ValueError, match="step 0 of environment 0 begins an episode"):
        buffer.extend(of_one)
    assert len(buffer) == 16


def test_steps_of_several_environments_in_one_stream_are_warned_of():
    buffer = TensorDictReplayBuffer(600, sequences=WINDOWS)
    data = Streams(2, ends=0).next(40).exclude("is_init").transpose(0, 1).reshape(-1)
    with pytest.warns(UserWarning, match="sequences: none of 32 steps begins where the one before ended"):
        buffer.extend(data)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_draws_the_same_sequences_and_continues_the_streams(copied):
    buffer, streams = filled()
    other = copied(buffer)
    assert_equal(other.sample(50), buffer.sample(50))
    data = streams.next(20)
    for each in (buffer, other):
        each.extend(data.clone())
    assert_equal(other.sample(50), buffer.sample(50))
    unexpected = streams.next(4)
    unexpected["is_init"][0, 0] = True
    unexpected["is_init"][1, 0] = False
    with pytest.raises(ValueError, match="begins an episode"):
        other.extend(unexpected)


def test_an_emptied_buffer_begins_new_sequences():
    buffer, streams = filled()
    buffer.empty()
    with pytest.raises(ValueError, match="5 consecutive steps must be stored, got 0"):
        buffer.sample(2)
    streams.begins[:] = [True, False, False]
    buffer.extend(streams.next(20))
    assert (buffer.sample(100)[NUMBER] % 1000 >= 60).all()


def test_a_collector_fills_the_buffer():
    one = GymEnv("CartPole-v1", categorical_action_encoding=True)
    lstm = LSTMModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
    values = TensorDictModule(torch.nn.Linear(8, 2), in_keys=["features"], out_keys=["action_value"])
    policy = TensorDictSequential(lstm, values, QValueModule(spec=one.action_spec))
    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)))
    env = TransformedEnv(env, Compose(InitTracker(), lstm.make_tensordict_primer()))
    buffer = TensorDictReplayBuffer(
        1000, n_envs=2, optimize_memory_usage=True, sequences={"size": 6, "ends": "cross", "state": STATES}
    )
    for data in Collector(env, policy, frames_per_batch=50, total_frames=300):
        buffer.extend(data)
    assert len(buffer) == 300
    batch = buffer.sample(400)
    begins = batch["is_init"][:, 1:, 0]
    assert begins.any() and (begins == batch["next", "done"][:, :-1, 0]).all()
    torch.testing.assert_close(batch["observation"][:, 1:][~begins], batch["next", "observation"][:, :-1][~begins])
    assert batch["recurrent_state_h"][:, 0].any() and not batch["recurrent_state_h"][:, 1:].any()


ROWS = Streams(2).next(4)


@pytest.mark.parametrize(
    ("options", "data", "error", "message"),
    [
        ({"state": "hidden"}, ROWS, KeyError, "state must name keys of the TensorDicts, got hidden"),
        ({"done": ("next", "ended")}, ROWS, KeyError, "done must name keys of the TensorDicts, got next/ended"),
        ({}, ROWS.exclude("next"), KeyError, "sequences needs the end of episodes"),
        ({}, ROWS.clone().set("mask", torch.ones(2, 4)), ValueError, "mask must be renamed"),
        ({}, ROWS[0], ValueError, r"data must have the batch size \(2, n\), got \(4,\)"),
        ({}, ROWS.transpose(0, 1), ValueError, r"data must have the batch size \(2, n\), got \(4, 2\)"),
    ],
)
def test_steps_that_do_not_fit_are_refused_and_not_stored(options, data, error, message):
    buffer = TensorDictReplayBuffer(100, n_envs=2, sequences={"size": 3, **options})
    with pytest.raises(error, match=message):
        buffer.extend(data)
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sequences": {"size": 60}}, ValueError, "size .* burn_in must be at most 50"),
        ({"sequences": {"size": 3, "eta": 0.5}}, ValueError, "eta must be None in a buffer without priorities"),
        ({"sequences": {"length": 3}}, TypeError, "sequences must have no options but .*, got 'length'"),
        ({"sequences": 3}, TypeError, "sequences must be a dict with 'size', got 3"),
        ({"n_envs": 3}, ValueError, "max_size must be a multiple of n_envs=3, got 100"),
        ({"n_envs": 0}, ValueError, "n_envs must be at least 1"),
        ({"sampler": None}, TypeError, "pass sequences to draw parts of episodes"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        TensorDictReplayBuffer(100, **{"n_envs": 2, **options})


@pytest.mark.parametrize("name", ["sequences", "n_envs"])
def test_the_options_cannot_be_changed_later(name):
    buffer, _ = filled()
    with pytest.raises(AttributeError, match=f"{name} must be given when the buffer is created"):
        setattr(buffer, name, None)
