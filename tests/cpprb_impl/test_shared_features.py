"""Shared buffers with Nstep, next_of and stack_compress have the rows of `ReplayBuffer`, and a window per process."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .test_nstep import FIELDS, Model, nstep, same, steps
from .test_prefault import answer_from
from .test_shared_frames import OPTIONS, env_dict, episode

PAIRS = [(MPReplayBuffer, ReplayBuffer), (MPPrioritizedReplayBuffer, PrioritizedReplayBuffer)]
EACH_PAIR = pytest.mark.parametrize(("kind", "of_one_process"), PAIRS)
EACH = pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])


def same_columns(shared, single) -> None:
    assert list(shared) == list(single)
    for name, column in single.items():
        assert shared[name].dtype == column.dtype and np.array_equal(shared[name], column), name


@EACH_PAIR
@pytest.mark.parametrize("options", [*OPTIONS, {"stack_compress": ("obs", "next_obs"), "next_of": "obs"}])
@pytest.mark.parametrize("steps_of", [None, 1, 3])
def test_transitions_equal_those_of_a_single_process_buffer(kind, of_one_process, options, steps_of):
    nstep = {"Nstep": {"size": steps_of, "next": "next_obs"}} if steps_of and "next_of" in options else {}
    fields = {**env_dict(), "next_obs": {"shape": 3}} if options.get("next_of") == ["obs"] and not nstep else env_dict()
    buffers = [each(20, fields, **options, **nstep) for each in (kind, of_one_process)]
    for first in (0, 7, 14, 21):
        rows = episode(first, 7)
        rows["next_act"] = rows["act"] + 1
        for buffer in buffers:
            buffer.add(**rows)
            buffer.on_episode_end()
    shared, single = buffers
    assert shared.is_Nstep() == single.is_Nstep() == bool(nstep)
    same_columns(shared.get_all_transitions(), single.get_all_transitions())
    for index in ([3, -1, 3], np.arange(20) % 3 == 0, 4, np.array([[1, 2], [3, 4]])):
        same_columns(shared._encode_sample(index), single._encode_sample(index))
    for wrong in ([20], [-21], [1.5], [True]):
        for buffer in buffers:
            with pytest.raises(IndexError):
                buffer._encode_sample(wrong)
    shared.close()


@pytest.mark.parametrize("option", ["next_of", "stack_compress"])
@EACH
def test_a_name_that_is_not_a_field_is_refused(kind, option):
    with pytest.raises(KeyError, match=f"{option}.*nothing"):
        kind(8, env_dict(), **{option: "nothing"})


@EACH
@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"size": 0}, ValueError), ({"siz": 2}, TypeError), ({"size": 2, "next": "no"}, KeyError), (3, TypeError)],
)
def test_an_impossible_window_is_refused(kind, wrong, error):
    with pytest.raises(error, match="Nstep"):
        kind(8, FIELDS, Nstep=wrong)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=9), max_size=5), st.integers(1, 5), st.booleans())
@EACH
def test_n_step_rows_agree_with_the_model(kind, calls, size, ends):
    buffer, model = kind(100, FIELDS, Nstep=nstep(size)), Model(size, 0.5)
    first = 0
    for dones in calls:
        for target in (buffer, model):
            target.add(**steps(dones, first))
            if ends:
                target.on_episode_end()
        first += len(dones)
    same(model, buffer.get_all_transitions())
    buffer.close()


def test_a_transition_has_the_priority_of_its_first_step():
    buffers = [kind(30, FIELDS, Nstep=nstep(3)) for kind in (MPPrioritizedReplayBuffer, PrioritizedReplayBuffer)]
    for buffer in buffers:
        buffer.add(**steps([0, 0, 0, 1]), priorities=[1.0, 5.0, 2.0, 3.0])
        buffer.add(**steps([0, 0, 0], 4))
        buffer.on_episode_end()
    weights = []
    for buffer in buffers:
        batch = buffer.sample(500, beta=1.0)
        assert len(set(batch["indexes"])) == 7
        weights.append({i: pytest.approx(w) for i, w in zip(batch["indexes"], batch["weights"], strict=True)})
    assert weights[0] == weights[1]
    buffers[0].close()


def play(buffer, first: int, ends: bool = True, **env_ids) -> None:
    """Add four steps of an episode, none of which is done."""
    buffer.add(**steps([0, 0, 0, 0], first), **env_ids)
    if ends:
        buffer.on_episode_end()


def transitions_of(first: int) -> list[tuple[float, float]]:
    """Return for each transition of `play` its tag, and the tag of the step from which its next_obs comes."""
    return [(first + i, min(first + i + 2, first + 3)) for i in range(4)]


def found(buffer) -> list[tuple[float, float]]:
    rows = buffer.get_all_transitions()
    return sorted(zip(rows["tag"].ravel().tolist(), (rows["next_obs"][:, 0] - 0.5).tolist(), strict=True))


@EACH
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_process_has_its_own_window(kind, method):
    buffer = kind(100, FIELDS, Nstep=nstep(3))
    play(buffer, 0, ends=False)  # two steps are pending, in this process only
    for first in (10, 20):
        answer_from(multiprocessing.get_context(method), play, buffer, first)
    assert found(buffer) == [*transitions_of(0)[:2], *transitions_of(10), *transitions_of(20)]
    buffer.on_episode_end()
    assert found(buffer) == [*transitions_of(0), *transitions_of(10), *transitions_of(20)]
    buffer.close()


@EACH
def test_a_forked_child_begins_its_own_streams(kind):
    buffer = kind(100, FIELDS, Nstep=nstep(3))
    play(buffer, 0, ends=False, env_ids=[0] * 4)  # with env_ids, each environment has a separate window
    answer_from(multiprocessing.get_context("fork"), play, buffer, 10, False)
    assert found(buffer) == [*transitions_of(0)[:2], *transitions_of(10)[:2]]
    assert answer_from(multiprocessing.get_context("fork"), kind.get_current_episode_len, buffer) == 0
    buffer.close()


@EACH
def test_a_forked_child_skips_no_step_after_an_episode_that_ended_in_its_parent(kind):
    buffer = kind(100, FIELDS, autoreset="next_step")
    buffer.add(**steps([1]))
    answer_from(multiprocessing.get_context("fork"), functools.partial(buffer.add, **steps([0], 10)))
    assert buffer.get_all_transitions()["tag"].ravel().tolist() == [0, 10]
    assert buffer.add(**steps([0], 1)) is None
    buffer.close()


def fork_and_play(buffer, first):
    play(buffer, first, ends=False)
    answer_from(multiprocessing.get_context("fork"), play, buffer, first + 10)
    buffer.on_episode_end()


def test_a_grandchild_has_its_own_window():
    buffer = MPReplayBuffer(100, FIELDS, Nstep=nstep(3))
    play(buffer, 0, ends=False)
    answer_from(multiprocessing.get_context("fork"), fork_and_play, buffer, 10)
    assert found(buffer) == [*transitions_of(0)[:2], *transitions_of(10), *transitions_of(20)]
    buffer.close()


def test_pending_steps_of_a_child_are_lost_when_it_ends():
    buffer = MPReplayBuffer(100, FIELDS, Nstep=nstep(3))
    answer_from(multiprocessing.get_context("fork"), play, buffer, 0, False)
    assert found(buffer) == transitions_of(0)[:2]
    buffer.close()


@EACH
def test_an_attached_buffer_begins_without_pending_steps(kind):
    buffer = kind(100, FIELDS, Nstep=nstep(3))
    play(buffer, 0, ends=False)
    for first, other in ((10, kind.attach(buffer.segment)), (20, pickle.loads(pickle.dumps(buffer)))):
        assert other.is_Nstep()
        play(other, first)
        other.close()
    code = f"""if True:
        import sys
        from cpprb_impl import {kind.__name__}
        from tests.cpprb_impl.test_shared_features import play
        play({kind.__name__}.attach(sys.argv[1]), 30)
    """
    subprocess.run([sys.executable, "-c", code, buffer.segment], check=True, timeout=60)
    assert found(buffer) == [*transitions_of(0)[:2], *transitions_of(10), *transitions_of(20), *transitions_of(30)]
    buffer.close()


def test_clear_discards_only_the_callers_own_pending_steps():
    buffer = MPReplayBuffer(100, FIELDS, Nstep=nstep(3))
    other = MPReplayBuffer.attach(buffer.segment)
    play(buffer, 0, ends=False)
    play(other, 10, ends=False)
    buffer.clear()
    for each in (buffer, other):
        each.on_episode_end()
    assert found(buffer) == transitions_of(10)[2:]
    other.close()
    buffer.close()


def test_a_fork_while_a_thread_adds_leaves_the_window_usable():
    """The window's lock may be held at that moment; the child must not wait for it."""
    import threading

    buffer, stop = MPReplayBuffer(1000, FIELDS, Nstep=nstep(3)), threading.Event()

    def add_for_ever():
        while not stop.is_set():
            buffer.add(**steps([0] * 50))

    thread = threading.Thread(target=add_for_ever)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    play(buffer, 0)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
    buffer.close()
