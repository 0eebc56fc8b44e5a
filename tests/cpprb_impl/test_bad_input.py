"""Bad input raises an error that names what is wrong, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, create_buffer

from .rows import ENV_DICT, make_rows, stored_numbers


def state_of(buffer):
    return buffer.get_stored_size(), buffer.get_next_index(), stored_numbers(buffer)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"act": None}, KeyError, "act"),
        ({"obs": np.zeros((2, 6))}, ValueError, r"obs: shape \(2, 6\) does not hold rows of shape \(4,\)"),
        ({"obs": np.zeros((3, 5))}, ValueError, "obs"),
        ({"rew": np.zeros(3)}, ValueError, "rew: 3 rows, but obs has 2"),
        ({"rew": 1.0}, ValueError, "rew: 1 rows, but obs has 2"),
        ({"obs": np.zeros((0, 4))}, ValueError, "obs: no rows"),
        ({"obs": [[1, 2, 3, 4], [1, 2]]}, ValueError, "obs"),
        ({"act": "left"}, ValueError, "act"),
        ({"act": object()}, TypeError, "act"),
        ({"done": "no"}, ValueError, "done"),
    ],
)
def test_a_bad_add_names_the_field_and_changes_nothing(make, change, error, says):
    """In cpprb, the index moves, and values of a single row are repeated if other fields have many rows."""
    buffer = make(4)
    buffer.add(**make_rows(0, 6))
    before = state_of(buffer)
    rows = {**make_rows(10, 2), **change}
    with pytest.raises(error, match=says):
        buffer.add(**{name: value for name, value in rows.items() if value is not None})
    assert state_of(buffer) == before
    buffer.add(**make_rows(6, 1))
    assert stored_numbers(buffer) == [3, 4, 5, 6]


def test_an_integer_that_does_not_fit_is_refused():
    buffer = ReplayBuffer(4, {"act": {"dtype": np.uint8}})
    for value in (-1, 256):
        with pytest.raises(OverflowError, match=f"act must be from 0 to 255, since its dtype is uint8, got {value}"):
            buffer.add(act=value)
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("env_dict", [None, {}])
def test_adding_to_a_buffer_without_fields_raises_an_error(make, env_dict):
    buffer = make(4, env_dict)
    for given in ({}, {"x": 1}):
        with pytest.raises(KeyError, match="no fields"):
            buffer.add(**given)
    assert buffer.get_stored_size() == buffer.get_current_episode_len() == 0 and buffer.get_all_transitions() == {}


def test_positional_arguments_are_refused(make):
    with pytest.raises(TypeError, match="keyword"):
        make(4).add(np.zeros(4))


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, OverflowError), ("3", TypeError), (None, TypeError), (0, ValueError), (float("nan"), ValueError)]
    + [(size, OverflowError) for size in (2**63, 2**70, 1e300)],
)
def test_bad_sizes_are_refused(make, size, error):
    """With a size of 0, cpprb loops forever."""
    with pytest.raises(error, match="size"):
        make(size)


@pytest.mark.parametrize(
    ("env_dict", "error"),
    [
        ({"obs": {"shape": -1}}, ValueError),
        ({"obs": {"shape": "wide"}}, TypeError),
        ({"obs": {"dtype": "nonsense"}}, TypeError),
        ({"obs": {"dtype": [("a", object)]}}, TypeError),
        ({"obs": 4}, TypeError),
        ({3: {}}, TypeError),
    ],
)
def test_bad_fields_are_refused(make, env_dict, error):
    with pytest.raises(error):
        make(4, env_dict)


STEPS = {"size": 2}


@pytest.mark.parametrize(
    ("option", "value", "error", "says"),
    [
        ("env_dict", 5, TypeError, "env_dict"),
        ("env_dict", [("obs", {})], TypeError, "env_dict"),
        ("env_dict", {"obs": {"shape": 2**70}}, ValueError, "env_dict.*shape"),
        ("env_dict", {"obs": {"dtype": "nonsense"}}, TypeError, "env_dict.*dtype"),
        ("default_dtype", "nonsense", TypeError, "default_dtype"),
        ("next_of", 5, TypeError, "next_of"),
        ("stack_compress", [["obs"]], TypeError, "stack_compress"),
        ("mmap_prefix", 0, TypeError, "mmap_prefix"),
        ("mmap_prefix", b"prefix", TypeError, "mmap_prefix"),
        ("Nstep", {**STEPS, "size": 2**63}, OverflowError, "Nstep: size"),
        ("Nstep", {**STEPS, "gamma": None}, ValueError, "Nstep: gamma"),
        ("Nstep", {**STEPS, "gamma": 10**400}, ValueError, "Nstep: gamma"),
        ("Nstep", {**STEPS, "rew": 5}, TypeError, "Nstep: rew"),
    ],
)
@pytest.mark.parametrize("kind", [ReplayBuffer, MPReplayBuffer])
def test_the_error_for_a_bad_option_names_it(kind, option, value, error, says):
    with pytest.raises(error, match=says):
        kind(**{"size": 4, "env_dict": {"obs": {}, "done": {}}, option: value})


@pytest.mark.parametrize(("value", "error"), [(10**400, ValueError), (np.ones(3), TypeError)])
@pytest.mark.parametrize("option", ["alpha", "eps"])
def test_the_error_for_a_bad_exponent_names_it(option, value, error):
    with pytest.raises(error, match=option):
        PrioritizedReplayBuffer(4, ENV_DICT, **{option: value})


@pytest.mark.parametrize("segment", [5, None, b"cpprb_impl-1"])
def test_attaching_to_something_other_than_a_string_is_refused(segment):
    with pytest.raises(TypeError, match="segment"):
        MPReplayBuffer.attach(segment)


def test_a_failed_allocation_raises_an_exception():
    with pytest.raises(MemoryError):
        ReplayBuffer(2**55, {"obs": {"shape": 1000}})
    with pytest.raises(MemoryError):
        ReplayBuffer(2**62, {"obs": {"shape": 1000}})


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="sead"):
        ReplayBuffer(4, ENV_DICT, sead=3)
    assert type(create_buffer(4, ENV_DICT)) is ReplayBuffer
    assert type(create_buffer(4, ENV_DICT, prioritized=True)) is PrioritizedReplayBuffer


OLD = {"obs_dim": 1, "obs_shape": (2, 3), "act_dim": 4, "rew_dim": 1, "is_discrete_action": True}


@pytest.mark.parametrize("options", [{}, {"prioritized": True, "alpha": 0.5}])
def test_old_keywords_of_cpprb_are_accepted_with_a_warning(options):
    cpprb = pytest.importorskip("cpprb")
    theirs = cpprb.create_buffer(4, {"x": {}}, **OLD, **options)
    with pytest.warns(DeprecationWarning, match=", ".join(OLD)):
        ours = create_buffer(4, {"x": {}}, **OLD, **options)
    assert type(ours).__name__ == type(theirs).__name__
    assert ours.add(x=1) == theirs.add(x=1) and ours.sample(1).keys() == theirs.sample(1).keys()
