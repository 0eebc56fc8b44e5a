"""A buffer warns once if no step begins where the last one ended, and once if every episode begins where one ended."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cpprb_impl as m

NSTEP = {"size": 3, "gamma": 1.0, "rew": "rew", "next": "next_obs"}
CLASSES = [
    m.ReplayBuffer,
    m.PrioritizedReplayBuffer,
    m.ReverseReplayBuffer,
    m.MPReplayBuffer,
    m.MPPrioritizedReplayBuffer,
]
# Options that depend on the order of rows.
RELYING = {
    "Nstep": {"Nstep": NSTEP},
    "next_of": {"next_of": "obs"},
    "stack_compress": {"stack_compress": ["obs", "next_obs"]},
    "next_of of stacks": {"next_of": "obs", "stack_compress": "obs"},
}
# Fields of Python objects: the number in a row is an object, or another field is.
OBJECTS = {
    "obs": {"obs": {"dtype": object, "shape": 2}, "next_obs": {"dtype": object, "shape": 2}},
    "info": {"obs": {"shape": 2}, "next_obs": {"shape": 2}, "info": {"dtype": object}},
}
NO_ORDER = "none of 32 steps begins where the one before ended"
JOINED = "each row after the end of an episode begins with the next_* of the row that ended it"


def env_dict(options: dict, **others) -> dict:
    env = {"obs": {"shape": 2}, "next_obs": {"shape": 2}, "rew": {}, "done": {}, **others}
    return {name: each for name, each in env.items() if name != "next_obs" or "next_of" not in options}


def rows(first: int, count: int, stride: int = 1, **others: float) -> dict:
    """Return steps of `stride` streams in turn: step i of each is followed by its step i + stride."""
    step = np.arange(first, first + count)[:, None] + np.array([0.0, 0.5])
    return {"obs": step, "next_obs": step + stride, "rew": np.ones(count), "done": np.zeros(count)} | {
        name: np.full(count, value) for name, value in others.items()
    }


def add(buffer, count: int, at_once: int, **of_rows) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for first in range(0, count, at_once):
            buffer.add(**rows(first, at_once, **of_rows))
    return [str(each.message) for each in seen]


@pytest.mark.parametrize("at_once", [1, 4, 160])
@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
@pytest.mark.parametrize("kind", CLASSES)
def test_steps_of_several_environments_cause_one_warning(kind, options, at_once):
    buffer = kind(200, env_dict(options), **options)
    (message,) = add(buffer, 160, at_once, stride=4)
    assert NO_ORDER in message and "Pass n_envs, or env_ids to add()" in message
    assert message.startswith(next(iter(options)))
    assert buffer.get_stored_size() == (158 if "Nstep" in options else 160)
    assert not buffer._watches_order() or add(buffer, 160, at_once, stride=4) == []


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
@pytest.mark.parametrize("kind", CLASSES)
def test_steps_in_order_cause_no_warning(kind, options):
    assert add(kind(200, env_dict(options), **options), 160, 4, stride=1) == []
    assert add(kind(200, env_dict(options), n_envs=4, **options), 160, 4, stride=4) == []


@pytest.mark.parametrize("kind", CLASSES)
def test_rows_that_may_have_any_order_cause_no_warning(kind):
    assert add(kind(200, env_dict({})), 160, 1, stride=4) == []


@pytest.mark.parametrize("options", [RELYING["Nstep"], RELYING["next_of"]], ids=["Nstep", "next_of"])
@pytest.mark.parametrize("fields", OBJECTS.values(), ids=OBJECTS)
def test_buffers_of_objects_warn_too(fields, options):
    env = env_dict(options, **fields)
    info = {} if "info" not in fields else {"info": 0.0}
    for stride, warned in ((4, True), (1, False)):
        messages = add(m.ReplayBuffer(200, {**env}, **options), 160, 4, stride=stride, **info)
        assert [NO_ORDER in message for message in messages] == [True] * warned


def test_objects_without_a_hash_are_equal_if_they_are_identical():
    states = [{"at": step} for step in range(61)]
    for shift, warned in ((1, 0), (2, 1)):
        buffer = m.ReplayBuffer(200, {"obs": {"dtype": object}, "done": {}}, next_of="obs")
        with warnings.catch_warnings(record=True) as seen:
            for step in range(59):
                buffer.add(obs=states[step], next_obs=states[step + shift], done=0)
        assert len(seen) == warned


GOAL_OBJECTS = {
    "none": {},
    "info": {"info": {"dtype": object}},
    "states": {"s": {"dtype": object, "shape": 2}, "s2": {"dtype": object, "shape": 2}},
}


def goal_buffer(fields=None, **options) -> m.HindsightReplayBuffer:
    env = {"s": {"shape": 2}, "act": {}, "s2": {"shape": 2}} | (fields or {})
    return m.HindsightReplayBuffer(500, env, 10, lambda *_: np.zeros(len(_[0])), state="s", next_state="s2", **options)


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("objects", GOAL_OBJECTS.values(), ids=GOAL_OBJECTS)
def test_hindsight_warns_of_several_environments(stride, prioritized, objects):
    buffer = goal_buffer(objects, prioritized=prioritized)
    info = {"info": [None] * 10} if "info" in objects else {}
    with warnings.catch_warnings(record=True) as seen:
        for first in range(0, 200, 10):
            step = rows(first, 10, stride)
            buffer.add(s=step["obs"], act=step["rew"], s2=step["next_obs"], **info)
            buffer.on_episode_end(np.zeros(2))
    assert [NO_ORDER in str(each.message) for each in seen] == [True] * (stride - 1)


def test_hindsight_with_episodes_of_one_step_does_not_warn():
    buffer = goal_buffer()
    with warnings.catch_warnings(record=True) as seen:
        for first in range(0, 200, 2):
            step = rows(first, 1)
            buffer.add(s=step["obs"], act=step["rew"], s2=step["next_obs"])
            buffer.on_episode_end(np.zeros(2))
    assert seen == []


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
@pytest.mark.parametrize("kind", CLASSES)
def test_one_step_in_order_ends_the_check(kind, options):
    buffer = kind(200, env_dict(options), **options)
    assert add(buffer, 2, 1, stride=1) == []
    assert add(buffer, 160, 4, stride=4) == []


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_buffer_in_order_is_not_checked_after_its_first_rows(kind, options):
    """After those rows, `add` does no work for the warnings."""
    buffer = kind(200, env_dict(options), **options)
    assert buffer._watches_order()
    add(buffer, 2, 1)
    assert not buffer._watches_order()
    of_several = kind(200, env_dict(options), n_envs=2, **options)
    add(of_several, 4, 2, stride=2)
    assert of_several._watches_order(), "episodes may begin where others ended"
    of_several.add(**rows(4, 2, stride=2, done=1))
    of_several.add(**rows(10, 2))
    assert not of_several._watches_order()


@pytest.mark.parametrize("kind", CLASSES)
def test_a_buffer_without_these_options_is_not_checked(kind):
    assert not kind(200, env_dict({}))._watches_order()


def test_no_buffer_is_checked_forever():
    buffer = m.ReplayBuffer(100, env_dict({}), next_of="obs", n_envs=2)
    for _ in range(99):
        buffer.add(**rows(0, 200, stride=2))
    assert buffer._watches_order()
    buffer.add(**rows(0, 202, stride=2))
    assert not buffer._watches_order()


@pytest.mark.parametrize("ends", [{"done": 1}, {"truncated": 1}, {"terminated": 1}])
@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
def test_a_step_that_ends_an_episode_has_no_follower(ends, options):
    env = env_dict(options, truncated={}, terminated={"dtype": bool})
    steps = {"truncated": 0, "terminated": 0} | ends
    assert add(m.ReplayBuffer(200, env, **options), 160, 4, stride=4, **steps) == []


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
def test_on_episode_end_and_clear_end_an_episode(options):
    for end in ("on_episode_end", "clear"):
        buffer = m.ReplayBuffer(200, env_dict(options), **options)
        for first in range(0, 160, 4):
            assert add(buffer, 1, 1, stride=first) == []
            getattr(buffer, end)()


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
def test_steps_of_some_environments_are_checked_too(options):
    buffer = m.ReplayBuffer(200, env_dict(options), n_envs=2, **options)
    with warnings.catch_warnings(record=True) as seen:
        for first in range(0, 160, 4):
            buffer.add(env_ids=[1], **rows(first, 1))
    assert [NO_ORDER in str(each.message) for each in seen] == [True]
    assert seen[0].filename == __file__


def test_fields_of_other_dtypes_are_not_compared():
    buffer = m.ReplayBuffer(200, {**env_dict({}), "next_obs": {"shape": 2, "dtype": float}}, Nstep=NSTEP)
    assert add(buffer, 160, 4, stride=4) == []


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_warning_that_is_an_error_is_raised_before_anything_is_stored(options, at_once):
    buffer = m.ReplayBuffer(200, env_dict(options), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first in range(60):
            stored = buffer.get_stored_size()
            try:
                buffer.add(**rows(400 * first, at_once, stride=2))
            except UserWarning:
                break
        else:
            pytest.fail("no warning")
    assert buffer.get_stored_size() == stored
    buffer.add(**rows(0, 5))
    assert buffer.get_stored_size() == stored + (5 if "Nstep" not in options or at_once == 1 else 3)


@pytest.mark.parametrize("options", RELYING.values(), ids=RELYING)
def test_rows_that_are_not_stored_are_not_counted(options):
    buffer = m.PrioritizedReplayBuffer(200, env_dict(options), **options)
    for _ in range(60):
        for wrong in ({"priorities": -1.0}, {"rew": "a"}):
            with pytest.raises((ValueError, TypeError)):
                buffer.add(**rows(0, 1, stride=4) | wrong)
    assert add(buffer, 160, 4, stride=1) == []


# Vector environments that reset themselves.


def played(mode: str, steps: int = 40, n_envs: int = 3, length: int = 5, state=lambda env, episode, step: step):
    """Return the steps of environments whose episodes have length, length + 1, ... steps, in Gymnasium's `mode`."""
    episode, at, over = np.zeros(n_envs), np.zeros(n_envs), np.zeros(n_envs, bool)

    def observe() -> np.ndarray:
        return np.array([state(env, episode[env], at[env]) for env in range(n_envs)], float)[:, None] + [0, 100]

    obs = observe()
    for _ in range(steps):
        at += 1
        if mode == "NEXT_STEP":
            at[over], episode[over] = 0, episode[over] + 1
        last, ends = observe(), at >= length + np.arange(n_envs)
        if mode == "SAME_STEP":
            at[ends], episode[ends] = 0, episode[ends] + 1
        next_obs = last if mode != "SAME_STEP, last_obs ignored" else observe()
        yield {"obs": obs, "next_obs": next_obs, "rew": ~over, "done": ends}
        obs, over = observe(), ends


def play(buffer, steps) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for step in steps:
            buffer.add(**step)
    return [str(each.message) for each in seen]


def where(env: float, episode: float, step: float) -> float:
    return 1000 * env + 10 * episode + step


AUTORESET = {"plain": {}, **RELYING}


@pytest.mark.parametrize("options", AUTORESET.values(), ids=AUTORESET)
@pytest.mark.parametrize("kind", CLASSES)
def test_rows_that_only_reset_an_environment_cause_one_warning(kind, options):
    buffer = kind(300, env_dict(options), n_envs=3, **options)
    (message,) = play(buffer, played("NEXT_STEP", state=where))
    assert JOINED in message and 'autoreset="next_step"' in message
    assert not buffer._watches_order()


@pytest.mark.parametrize("options", AUTORESET.values(), ids=AUTORESET)
@pytest.mark.parametrize("kind", CLASSES)
def test_without_rows_that_only_reset_there_is_no_warning(kind, options):
    def made(**more):
        return kind(300, env_dict(options), n_envs=3, **options, **more)

    assert play(made(), played("SAME_STEP", state=where)) == []
    assert play(made(autoreset="next_step"), played("NEXT_STEP", state=where)) == []
    over, masked = np.zeros(3, bool), []
    for step in played("NEXT_STEP", state=where):
        masked.append({"env_ids": ~over, **step})
        over = step["done"]
    assert play(made(), masked) == []


def test_rows_of_one_environment_may_continue_where_an_episode_ended():
    """They do not come from a vector environment: the environment may only count its episodes."""
    buffer = m.ReplayBuffer(300, env_dict({}))
    assert play(buffer, played("NEXT_STEP", n_envs=1, state=where)) == []


STATES = {
    "constant": lambda env, episode, step: 1,
    "where all episodes begin and end": lambda env, episode, step: step % (5 + env),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_an_environment_whose_episodes_end_where_they_begin_causes_no_warning(state):
    for options in AUTORESET.values():
        buffer = m.ReplayBuffer(300, env_dict(options), n_envs=3, **options)
        assert play(buffer, played("SAME_STEP", state=state)) == []


def test_episodes_of_one_step_cause_no_warning():
    """The next_obs of a bandit may be its next context."""
    assert add(m.ReplayBuffer(200, env_dict({}), next_of="obs", n_envs=2), 160, 2, stride=2, done=1) == []
