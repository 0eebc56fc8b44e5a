"""Each API family stores twelve rows in a buffer of eight and returns what the API promises.

The classes of this project's tests run everywhere. The libraries' own run where they are installed:
`make test-peers` runs this file in the venvs of TorchRL, Flashbax and ChainerRL.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

from adapters import legacy
from suites.check.functions import BufferFunctions
from suites.check.probes import input as bad_rows
from suites.check.probes import steps
from suites.check.recognise import imported, recognise
from suites.check.subject import CheckedBuffer, Subject
from tests.check import standins

CAPACITY, ROWS = 8, 12
TERMINAL, TRUNCATED = 6, 9  # rows that end an episode
#: class -> family
STANDINS = {
    standins.Sb3: "sb3",
    standins.Sb3WithoutInfos: "sb3",
    standins.Sb3Dict: "sb3_dict",
    standins.Cpprb: "cpprb",
    standins.CpprbPrioritized: "cpprb",
    standins.Baselines: "baselines",
    standins.BaselinesPrioritized: "baselines",
    standins.BaselinesStarred: "baselines",
    standins.BaselinesOfFields: "baselines",
    standins.BaselinesOfSteps: "baselines",
    standins.Discrete: "baselines",
    standins.OfDataclass: "baselines",
    standins.OtherOrder: "baselines",
    standins.Truncations: "baselines",
    standins.Tutorial: "memory",
    standins.Zipped: "memory",
    standins.ZippedRecord: "memory",
    standins.Td3: "arrays",
    standins.Td3OfFixedBatch: "arrays",
    standins.Rlkit: "arrays",
    standins.SpinningUp: "arrays",
    standins.Shapes: "arrays",
    standins.FixedBatch: "fixed_batch",
    standins.FixedBatchOfSteps: "fixed_batch",
    standins.FixedBatchOfNumbers: "fixed_batch",
    standins.Pfrl: "pfrl",
    standins.PfrlPrioritized: "pfrl",
    standins.KerasRl: "keras_rl",
    standins.Dopamine: "dopamine",
    standins.Jaxrl: "jaxrl",
    standins.JaxrlOfNumber: "jaxrl",
    standins.WholeSteps: "whole_steps",
    standins.WholeStepsUnpacked: "whole_steps",
    standins.WholeStepsInLists: "whole_steps",
    standins.OfErrors: "per_memory",
}
PRIORITIZED = (
    *(standins.CpprbPrioritized, standins.BaselinesPrioritized, standins.PfrlPrioritized),
    *(standins.BaselinesStarred, standins.FixedBatchOfSteps, standins.OfErrors),
)
FAVOURED = 8  # a row
#: module:class or module:function of a library -> family
LIBRARIES = {
    "stable_baselines3.common.buffers:ReplayBuffer": "sb3",
    "stable_baselines3.common.buffers:DictReplayBuffer": "sb3_dict",
    "stable_baselines3:HerReplayBuffer": "sb3_her",
    "cpprb:ReplayBuffer": "cpprb",
    "cpprb:PrioritizedReplayBuffer": "cpprb",
    "baselines.deepq.replay_buffer:ReplayBuffer": "baselines",
    "baselines.deepq.replay_buffer:PrioritizedReplayBuffer": "baselines",
    "tianshou.data:ReplayBuffer": "tianshou",
    "tianshou.data:PrioritizedReplayBuffer": "tianshou",
    "tianshou.data:VectorReplayBuffer": "tianshou",
    "tianshou.data:PrioritizedVectorReplayBuffer": "tianshou",
    "torchrl.data:ReplayBuffer": "torchrl",
    "torchrl.data:PrioritizedReplayBuffer": "torchrl",
    "torchrl.data:TensorDictReplayBuffer": "torchrl",
    "torchrl.data:TensorDictPrioritizedReplayBuffer": "torchrl",
    "pfrl.replay_buffers:ReplayBuffer": "pfrl",
    "pfrl.replay_buffers:PrioritizedReplayBuffer": "pfrl",
    "chainerrl.replay_buffers:ReplayBuffer": "pfrl",
    "chainerrl.replay_buffers:PrioritizedReplayBuffer": "pfrl",
    "flashbax:make_item_buffer": "flashbax_item",
    "flashbax:make_prioritised_item_buffer": "flashbax_prioritised_item",
    "flashbax:make_flat_buffer": "flashbax_flat",
    "flashbax:make_prioritised_flat_buffer": "flashbax_prioritised_flat",
    "flashbax:make_trajectory_buffer": "flashbax_trajectory",
    "flashbax:make_prioritised_trajectory_buffer": "flashbax_prioritised_trajectory",
    "ray.rllib.utils.replay_buffers:ReplayBuffer": "rllib",
    "ray.rllib.utils.replay_buffers:PrioritizedReplayBuffer": "rllib",
    "ray.rllib.utils.replay_buffers:EpisodeReplayBuffer": "rllib_episodes",
    "ray.rllib.utils.replay_buffers:PrioritizedEpisodeReplayBuffer": "rllib_episodes",
    "d3rlpy.dataset:ReplayBuffer": "d3rlpy",
}
#: Rows of the newest eight that are not drawn.
NOT_DRAWN = {
    "tests.Dopamine": {11},  # its next observation is not known yet
    "tests.KerasRl": {4, 11},  # nor whether an episode ended before the oldest row
    "ray.EpisodeReplayBuffer": {4, 5, 6},  # whole episodes are evicted
    "ray.PrioritizedEpisodeReplayBuffer": {4, 5, 6},
    "flashbax.make_flat_buffer": {11},
    "flashbax.make_prioritised_flat_buffer": {11},
    "baselines.PrioritizedReplayBuffer": {7},  # the fault of openai/baselines#171
}
#: Where that isn't the capacity.
HELD = {"ray.EpisodeReplayBuffer": 5, "ray.PrioritizedEpisodeReplayBuffer": 5, "tests.KerasRl": 10}
HOLLOW = {
    "baselines": ("baselines", "baselines.common", "baselines.deepq"),
    "chainerrl": ("chainer", "chainerrl", "chainerrl.misc"),
}


def in_library(text: str) -> Any:
    module = text.partition(":")[0]
    package = module.partition(".")[0]
    if package in HOLLOW:
        try:
            legacy.load(module, HOLLOW[package])
        except ModuleNotFoundError:
            pytest.skip(f"{package} is not installed")
    pytest.importorskip(module, exc_type=ImportError)
    return imported(text)


def filled(functions: BufferFunctions, rows: int = ROWS, **options: Any) -> CheckedBuffer:
    """Return a buffer of eight rows, to which numbered rows were added, of which each continues the one before."""
    buffer = Subject(functions).make(CAPACITY, **options)
    for i in range(rows):
        obs, next_obs = np.full(4, i, "float32"), np.full(4, i + 1, "float32")
        ends = {"terminated": i == TERMINAL, "truncated": i == TRUNCATED}
        buffer.add(obs=obs, act=i % 5, rew=float(i), next_obs=next_obs, **ends)
    return buffer


def drawn(buffer: CheckedBuffer, batches: int = 60) -> dict[int, dict[str, np.ndarray]]:
    """Return the rows of several batches, by their number."""
    rows = {}
    for _ in range(batches):
        batch = buffer.sample(CAPACITY // 2)
        for k in range(CAPACITY // 2):
            rows[int(np.ravel(batch["obs"][k])[0])] = {
                name: column[k] for name, column in batch.items() if name != "indexes"
            }
        if "indexes" in batch and buffer.subject.has_priorities:  # some withhold sampled rows until they are updated
            buffer.update(batch["indexes"], np.ones(CAPACITY // 2))
    return rows


def check(buffer: Any, family: str) -> None:
    functions = recognise(buffer).functions
    assert functions.family == family
    checked = filled(functions)
    rows = drawn(checked)
    name = f"{buffer.__module__.partition('.')[0]}.{buffer.__name__}"
    assert set(rows) == {*range(ROWS - CAPACITY, ROWS)} - NOT_DRAWN.get(name, set())
    tells = functions.accepts("add", "terminated") or functions.accepts("add", "truncated")
    for i, row in rows.items():
        assert np.ravel(row["rew"]).tolist() == [i] and np.ravel(row["act"]).tolist() == [i % 5]
        assert row["obs"].shape == (4,) and (row["obs"] == i).all() and (row["next_obs"] == i + 1).all()
        ends = i == TERMINAL or (i == TRUNCATED and not tells)
        assert "done" not in row or bool(np.ravel(row["done"])[0]) == ends
    if functions.has("size"):
        assert len(checked) == HELD.get(name, CAPACITY)


@pytest.mark.parametrize("buffer", STANDINS, ids=lambda each: each.__name__)
def test_family_fits_small_class(buffer: type) -> None:
    check(buffer, STANDINS[buffer])


@pytest.mark.parametrize("buffer", [standins.Sb3, standins.Sb3Dict, standins.Jaxrl], ids=lambda each: each.__name__)
def test_class_that_needs_no_gymnasium_is_called_without_it(buffer: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for package in ("gymnasium", "gym"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert "with plain objects for the spaces of gymnasium, which is not installed" in recognise(buffer).called
    check(buffer, STANDINS[buffer])


def shares(checked: CheckedBuffer, batches: int = 200) -> dict[int, float]:
    """Return how often each row is drawn, after the first rows of the buffer got the priority 100."""
    counts: dict[int, int] = {}
    for k in range(batches):
        batch = checked.sample(2)
        numbers = np.ravel(batch["rew"]).astype(int)
        for number in numbers if k >= batches // 2 else ():
            counts[number] = counts.get(number, 0) + 1
        checked.update(batch["indexes"], np.where(numbers == FAVOURED, 100.0, 0.1))
    return {number: count / sum(counts.values()) for number, count in counts.items()}


def test_priority_of_a_new_row_is_passed_where_add_takes_one() -> None:
    checked = filled(recognise(standins.CpprbPrioritized).functions, rows=3)
    checked.add(obs=np.full(4, 3.0), act=0, rew=3.0, next_obs=np.full(4, 4.0), priority=1e9)
    assert set(np.ravel(checked.sample(20)["rew"])) == {3}
    assert not recognise(standins.BaselinesPrioritized).functions.accepts("add", "priority")


@pytest.mark.parametrize("buffer", PRIORITIZED, ids=lambda each: each.__name__)
def test_row_with_a_large_priority_is_drawn_most_often(buffer: type) -> None:
    checked = filled(recognise(buffer).functions)
    assert shares(checked)[FAVOURED] > 0.4


@pytest.mark.parametrize("buffer", [standins.Td3, standins.Shapes], ids=lambda each: each.__name__)
def test_float_action_of_a_class_with_arrays_is_kept(buffer: type) -> None:
    functions = recognise(buffer).functions
    assert bad_rows.floats(Subject(functions))["float_for_integer"].word == "kept as it is"
    assert drawn(filled(functions))[8]["act"].dtype.kind == "i"


def test_float_action_of_a_class_with_integer_arrays_is_converted() -> None:
    class Integers(standins.Td3):
        def add(self, state, action, next_state, reward, done):
            super().add(state, np.int64(action), next_state, reward, done)

    found = bad_rows.floats(Subject(recognise(Integers).functions))["float_for_integer"]
    assert found.word == "converted silently"


def test_column_that_a_class_does_not_return_is_not_found_right() -> None:
    found = steps.rows(Subject(recognise(standins.Tutorial).functions))
    assert "done_flag" not in found and found["next_observation"].word == "of its step"


def test_dict_that_has_terminated_and_no_done_has_the_column_done() -> None:
    assert "done" in drawn(filled(recognise(standins.FixedBatchOfNumbers).functions))[8]


def test_steps_are_summed_where_the_constructor_takes_their_number() -> None:
    checked = filled(recognise(standins.FixedBatchOfSteps).functions, rows=4, n_step=2, gamma=0.5)
    assert {n: float(row["rew"]) for n, row in drawn(checked).items()} == {0: 0.5, 1: 2.0, 2: 3.5}


@pytest.mark.slow
@pytest.mark.parametrize("text", LIBRARIES)
def test_family_fits_library(text: str) -> None:
    check(in_library(text), LIBRARIES[text])


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for text in LIBRARIES if "riori" in text])
def test_row_with_a_large_priority_is_drawn_most_often_by_library(text: str) -> None:
    checked = filled(recognise(in_library(text)).functions)
    assert shares(checked)[FAVOURED] > 0.4


@pytest.mark.slow
def test_update_of_an_older_batch_of_rllib_sets_the_priorities_of_its_rows() -> None:
    """Its `update_priorities` takes no indexes, and forgets those of the last batch."""
    checked = filled(recognise(in_library("ray.rllib.utils.replay_buffers:PrioritizedEpisodeReplayBuffer")).functions)
    batches = [checked.sample(CAPACITY) for _ in range(20)]
    for batch in batches:
        checked.update(batch["indexes"], np.where(np.ravel(batch["rew"]) == FAVOURED, 1e6, 1e-6))
    assert (checked.sample(20)["rew"] == FAVOURED).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for text in LIBRARIES if "flashbax" in text])
def test_flashbax_is_not_passed_nan_for_a_reward_that_is_no_number(text: str) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        filled(recognise(in_library(text)).functions, rows=1).add(
            obs=np.zeros(4, "float32"), act=0, rew=None, next_obs=np.zeros(4, "float32")
        )


#: class of a library -> its ways
WAYS = {
    "stable_baselines3.common.buffers:ReplayBuffer": ["optimize_memory_usage"],
    "cpprb:ReplayBuffer": ["next_of", "stack_compress", "next_of and stack_compress", "Nstep"],
    "tianshou.data:ReplayBuffer": [
        "stack_num",
        "ignore_obs_next",
        "stack_num and ignore_obs_next",
        "stack_num and save_only_last_obs",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("text", WAYS)
def test_ways_of_a_library_return_what_their_options_say(text: str) -> None:
    functions = recognise(in_library(text)).functions
    assert list(functions.ways) == WAYS[text]
    for subject in Subject(functions).ways()[1:]:
        checked = subject.make(32)
        for i in range(20):
            checked.add(obs=np.full(4, i, "float32"), act=0, rew=float(i), next_obs=np.full(4, i + 1, "float32"))
        batch = checked.sample(16)
        stack, steps = subject.options.get("stack", 1), subject.options.get("n_step", 1)
        assert batch["obs"].shape == ((16, 4, stack) if stack > 1 else (16, 4))
        frames = batch["obs"].reshape(16, 4, stack)[:, 0]
        assert (np.diff(frames) == (frames[:, 1:] > 0)).all() or stack == 1
        rewards = sum(0.99**k * (frames[:, -1] + k) for k in range(steps))
        assert np.allclose(batch["rew"].ravel(), rewards, rtol=1e-5)
