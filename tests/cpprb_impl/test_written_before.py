"""Files and pickles that an earlier revision wrote can be read, and training continues from them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import cpprb_impl as m

from .data.write import (
    ANY_BOOT,
    ANY_HOST,
    ANY_SEGMENT,
    BUFFERS,
    FILES,
    LARGE_BATCHES,
    PICKLES,
    SHARED,
    STEPS,
    WRITTEN,
    Kind,
    Reader,
    contents,
    renamed,
    this_boot,
)

NUMBERS = ("get_buffer_size", "get_next_index", "get_stored_size", "get_current_episode_len", "get_max_priority")
OF_HINDSIGHT = ("strategy", "additional_goals", "max_episode_len", "goal_shape", "reward_func", "goal_func")


@pytest.fixture(autouse=True)
def in_new_folder(tmp_path, monkeypatch):
    """Change to a new folder, for the files of the buffer with mmap_prefix."""
    monkeypatch.chdir(tmp_path)


def written(name: str) -> bytes:
    return (WRITTEN / name).read_bytes()


def seen(buffer: Any) -> dict[str, Any]:
    """Return the transitions, numbers and options of a buffer."""
    if isinstance(buffer, m.HindsightReplayBuffer):
        return {name: getattr(buffer, name) for name in OF_HINDSIGHT} | seen(buffer.rb)
    numbers = {name: getattr(buffer, name)() for name in NUMBERS if hasattr(buffer, name)}
    return numbers | {"n_envs": getattr(buffer, "n_envs", 1)} | all_transitions(buffer)


def all_transitions(buffer: Any) -> dict[str, np.ndarray]:
    if isinstance(buffer, m.SelectiveReplayBuffer):
        episodes = [buffer.get_episode(i) for i in range(buffer.get_stored_episode_size())]
        return {f"{name} of episode {i}": column for i, each in enumerate(episodes) for name, column in each.items()}
    return buffer.get_all_transitions()


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in other.items():
        assert getattr(one[name], "dtype", None) == getattr(value, "dtype", None), name
        if name == "weights":  # powers may differ in their last bits between C libraries
            np.testing.assert_allclose(one[name], value, rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], value, err_msg=name)


def assert_goes_on(buffer: Any, expected: Any, kind: Kind) -> None:
    """Assert that the buffers are equal, and remain equal in further use."""
    assert type(buffer) is type(expected)
    assert_same(seen(buffer), seen(expected))
    for each in (buffer, expected):
        kind.go_on(each)
    assert_same(seen(buffer), seen(expected))
    assert_same(buffer.sample(16), expected.sample(16))


@pytest.mark.parametrize("name", FILES)
def test_training_continues_from_a_file(name):
    kind = BUFFERS[name]
    buffer, expected = kind.make(), kind.fill(kind.make())
    buffer.load_transitions(WRITTEN / f"{name}.npz")
    assert_goes_on(buffer, expected, kind)


@pytest.mark.parametrize(("name", "protocol"), PICKLES)
def test_training_continues_from_a_pickle(name, protocol):
    kind = BUFFERS[name]
    buffer, expected = pickle.loads(written(f"{name}.{protocol}.pickle")), kind.fill(kind.make())
    for each in (buffer, expected):  # since a copy in another process draws different numbers
        each.reseed(7)
    assert_goes_on(buffer, expected, kind)


@pytest.mark.parametrize("name", LARGE_BATCHES)
def test_a_large_batch_class_in_a_pickle_draws_as_a_new_one(name):
    large_batch, expected = pickle.loads(written(f"{name}.4.pickle")), LARGE_BATCHES[name](2, 3, seed=7)
    large_batch.reseed(7)
    assert type(large_batch) is type(expected)
    priorities = np.arange(6)
    assert_same(large_batch(priorities=priorities, act=priorities), expected(priorities=priorities, act=priorities))


def test_public_names_in_a_pickle_are_those_of_the_package():
    names = pickle.loads(written("public_names.4.pickle"))
    assert names == {name: getattr(m, name) for name in names}


@pytest.mark.parametrize("name", SHARED)
def test_a_pickle_of_a_shared_buffer_attaches_to_its_segment(name):
    buffer = SHARED[name]()
    kind = Kind(SHARED[name], buffer.get([]), n_envs=buffer.n_envs)
    kind.add(buffer, 0, STEPS)
    names = {ANY_SEGMENT: buffer.segment, ANY_BOOT: this_boot()}
    attached = pickle.loads(renamed(written(f"{name}.2.pickle"), names))
    assert type(attached) is type(buffer)
    assert_same(attached.get_all_transitions(), buffer.get_all_transitions())
    attached.clear()
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("name", SHARED)
def test_a_pickle_of_a_shared_buffer_is_refused_if_its_segment_does_not_exist(name):
    with pytest.raises(RuntimeError, match=ANY_HOST):
        pickle.loads(written(f"{name}.2.pickle"))
    with pytest.raises(FileNotFoundError, match=ANY_SEGMENT):
        pickle.loads(renamed(written(f"{name}.2.pickle"), {ANY_BOOT: this_boot()}))


def test_every_kind_of_buffer_has_its_data():
    assert {path.name for path in WRITTEN.iterdir()} == contents().keys()


def test_every_public_class_is_among_the_kinds():
    makers = [*(kind.make for kind in BUFFERS.values()), *SHARED.values()]
    kinds = {type(make()) for make in makers} | {*LARGE_BATCHES.values()}
    assert kinds >= {value for name in m.__all__ if isinstance(value := getattr(m, name), type)}


@pytest.mark.parametrize("name", sorted(path.name for path in WRITTEN.glob("*.4.pickle")))
def test_no_pickle_contains_names_of_the_tests(name):
    """If it did, the data could no longer be read after tests are renamed."""
    reader = Reader(written(name))
    reader.load()
    assert not [each for each in reader.named if each.startswith(("tests", "__main__"))]
