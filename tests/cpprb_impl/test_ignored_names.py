"""Unknown names in `add` are ignored, as in cpprb, but a warning lists them once per buffer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cpprb_impl import HindsightReplayBuffer, MPPrioritizedReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import make_rows, stored_numbers

FIELDS = {"obs": {}, "rew": {}, "done": {}}


def step(**more):
    return {"obs": 1, "rew": 2, "done": 0, **more}


def warnings_of(buffer, *steps) -> list:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for each in steps:
            buffer.add(**each)
    return seen


def hindsight() -> HindsightReplayBuffer:
    fields = {"obs": {}, "act": {}, "next_obs": {}}
    return HindsightReplayBuffer(9, fields, 3, lambda states, *_: np.zeros(len(states)))


KINDS = {
    "n-step": lambda: ReplayBuffer(9, FIELDS, Nstep={"size": 2}),
    "shared n-step": lambda: MPPrioritizedReplayBuffer(9, FIELDS, Nstep={"size": 2}),
    "objects": lambda: ReplayBuffer(9, FIELDS | {"obs": {"dtype": object}}),
    "n-step objects": lambda: ReplayBuffer(9, FIELDS | {"obs": {"dtype": object}}, Nstep={"size": 2}),
}


def test_the_first_call_names_what_it_ignores_and_the_fields(make):
    buffer = make(4)
    (seen,) = warnings_of(buffer, *({**make_rows(number, 1), "rwd": 1, "dnoe": 2} for number in range(3)))
    assert seen.category is UserWarning and seen.filename == __file__
    assert str(seen.message) == "add() ignores 'rwd', 'dnoe': the fields are 'obs', 'act', 'rew', 'next_obs', 'done'"
    assert stored_numbers(buffer) == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_buffer_warns_of_ignored_names(kind):
    (seen,) = warnings_of(KINDS[kind](), step(rwd=1), step(rwd=1))
    assert "add() ignores 'rwd'" in str(seen.message)


def test_hindsight_buffers_warn_of_ignored_names():
    buffer = hindsight()
    with pytest.warns(UserWarning, match="add\\(\\) ignores 'info': the fields are 'obs', 'act', 'next_obs'"):
        buffer.add(obs=1, act=2, next_obs=3, info=4)


def test_each_new_name_and_each_buffer_causes_a_separate_warning():
    steps = [step(**more) for more in ({"a": 1}, {}, {"b": 1, "a": 1}, {"a": 2}, {"b": 2})]
    for buffer in (ReplayBuffer(9, FIELDS), ReplayBuffer(9, FIELDS)):
        seen = [str(each.message).partition(":")[0] for each in warnings_of(buffer, *steps)]
        assert seen == ["add() ignores 'a'", "add() ignores 'b'"]


def test_code_for_prioritized_and_uniform_buffers_gets_no_warning():
    uniform, prioritized = ReplayBuffer(9, FIELDS), PrioritizedReplayBuffer(9, FIELDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for buffer in (uniform, prioritized):
            buffer.add(**step(priorities=1.0))
        uniform.add(**prioritized.sample(2))  # including weights and indexes
        prioritized.add(**prioritized.sample(2), priorities=[1.0, 2.0])
    assert uniform.get_stored_size() == 3


def test_a_filter_can_turn_the_warning_into_an_error_that_changes_nothing():
    buffer = ReplayBuffer(9, FIELDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="rwd"):
                buffer.add(**step(rwd=1))
    assert buffer.get_stored_size() == 0


def test_a_missing_field_is_an_error_without_a_warning():
    buffer = ReplayBuffer(9, FIELDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="rew"):
            buffer.add(obs=1, rwd=2, done=0)


def test_code_that_shows_a_warning_may_add_to_the_same_buffer():
    buffer = ReplayBuffer(9, FIELDS)
    seen = []

    def show(message, *_args, **_more):
        seen.append(str(message))
        buffer.add(**step(rwd=1, obs=3), other=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show  # restored at the end of this block
        buffer.add(**step(rwd=1))
    assert [text.partition(":")[0] for text in seen] == ["add() ignores 'rwd'", "add() ignores 'other'"]
    assert buffer.get_all_transitions()["obs"].ravel().tolist() == [3, 3, 1]
