"""If a subclass overrides a method that cpprb's `add` or `sample` calls, the override is called or refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

cpprb = pytest.importorskip("cpprb")

FIELDS = {"obs": {"shape": 2}, "rew": {}, "next_obs": {"shape": 2}, "done": {}}
FRAMES = {"obs": {"shape": 2}, "rew": {}, "done": {}}
NSTEP = {"size": 2, "rew": "rew", "next": "next_obs"}
ROWS = {"obs": np.ones((8, 2)), "rew": np.ones(8), "next_obs": np.ones((8, 2)), "done": np.zeros(8)}


def selective(kind, **options):
    return kind(4, obs_dim=2, Nepisodes=2)


def added(buffer, rows=ROWS):
    if hasattr(buffer, "get_episode"):
        buffer.add(rows["obs"], rows["rew"], rows["rew"], rows["next_obs"], rows["done"])
    else:
        buffer.add(**rows)


# How each class is made, with options with which cpprb calls further methods.
MAKERS = {
    "ReplayBuffer": lambda kind: kind(8, FIELDS),
    "ReplayBuffer, next_of": lambda kind: kind(8, FRAMES, next_of="obs"),
    "ReplayBuffer, stack_compress": lambda kind: kind(8, FIELDS, stack_compress="obs"),
    "ReplayBuffer, Nstep": lambda kind: kind(8, FIELDS, Nstep=NSTEP),
    "PrioritizedReplayBuffer": lambda kind: kind(8, FIELDS),
    "PrioritizedReplayBuffer, Nstep": lambda kind: kind(8, FIELDS, Nstep=NSTEP),
    "PrioritizedReplayBuffer, check_for_update": lambda kind: kind(8, FIELDS, check_for_update=True),
    "ReverseReplayBuffer": lambda kind: kind(8, FIELDS, stride=2),
    "MPReplayBuffer": lambda kind: kind(8, FIELDS),
    "MPPrioritizedReplayBuffer": lambda kind: kind(8, FIELDS),
    "SelectiveReplayBuffer": lambda kind: kind(4, 2, 1, Nepisodes=2),
}
CALLS = {
    "add": added,
    "sample": lambda buffer: buffer.sample(2),
    "update_priorities": lambda buffer: buffer.update_priorities([0, 1], [1.0, 2.0]),
    "get_all_transitions": lambda buffer: buffer.get_all_transitions(),
}


def hooks(kind) -> list[str]:
    names = [name for name in dir(kind) if not name.startswith("__")]
    return [name for name in names if callable(inspect.getattr_static(kind, name))]


CASES = [
    (maker, name) for maker in MAKERS for name in hooks(getattr(cpprb, maker.partition(",")[0])) if name not in CALLS
]


def spied(kind, name, seen):
    """Return a subclass that records calls of its method `name` in `seen`."""

    def method(self, *args, **kwargs):
        seen.append(name)
        return getattr(super(spy, self), name)(*args, **kwargs)

    spy = type("Spy", (kind,), {name: method})
    return spy


def calls_that_reach(module, maker, name) -> set[str]:
    """Return which of CALLS call the overridden method `name`. Raises what the constructor raises."""
    seen: list[str] = []
    buffer = MAKERS[maker](spied(getattr(module, maker.partition(",")[0]), name, seen))
    reached = set()
    added(buffer)
    for call, do in CALLS.items():
        if not hasattr(buffer, call) or (module is cpprb and maker.startswith("MP") and call == "get_all_transitions"):
            continue  # cpprb would wait forever
        seen.clear()
        do(buffer)
        if seen:
            reached.add(call)
    return reached


@pytest.mark.parametrize(("maker", "name"), CASES)
def test_an_overridden_method_that_cpprb_calls_is_called_or_refused(maker, name):
    theirs = calls_that_reach(cpprb, maker, name)
    try:
        ours = calls_that_reach(cpprb_impl, maker, name)
    except TypeError as error:
        assert f"Spy must not override {name}" in str(error) and ": override " in str(error)
        return
    assert theirs <= ours


def test_the_table_has_methods_that_cpprb_calls():
    """They are read from cpprb's source. Without them, the test above would compare nothing."""
    assert {"sample", "get_all_transitions"} <= calls_that_reach(cpprb, "ReplayBuffer", "_encode_sample")
    assert calls_that_reach(cpprb, "PrioritizedReplayBuffer, Nstep", "get_max_priority") == {"add"}
    assert "sample" in calls_that_reach(cpprb, "ReverseReplayBuffer", "get_next_index")


class Scaled:
    """Multiplies rewards by ten, as an augmentation might change an image."""

    def _encode_sample(self, idx):
        rows = super()._encode_sample(idx)
        return {**rows, "rew": rows["rew"] * 10, "idx": np.array(idx)}


class ScaledUniform(Scaled, ReplayBuffer):
    pass


class ScaledPrioritized(Scaled, PrioritizedReplayBuffer):
    pass


OPTIONS = {
    "plain": (FIELDS, {}),
    "next_of": (FRAMES, {"next_of": "obs"}),
    "stack_compress": (FIELDS, {"stack_compress": "obs"}),
    "several environments": (FIELDS, {"n_envs": 2}),
    "objects": ({**FIELDS, "done": {"dtype": object}}, {}),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", [ScaledUniform, ScaledPrioritized])
def test_samples_are_what_encode_sample_returns(kind, options):
    fields, more = OPTIONS[options]
    buffer = kind(8, fields, seed=3, **more)
    buffer.add(**{**ROWS, "rew": np.arange(8)})
    for batch in (buffer.sample(20), buffer.get_all_transitions()):
        assert batch["rew"].ravel().tolist() == (10 * batch["idx"]).tolist()
    assert (buffer.get([3])["rew"] == 3).all()  # get is not a sample
    if kind is ScaledPrioritized:
        batch = buffer.sample(20, 0.5)
        assert (batch["indexes"] == batch["idx"]).all() and batch["weights"].shape == (20,)


@pytest.mark.parametrize("kind", [ScaledUniform, ScaledPrioritized])
def test_an_override_does_not_change_which_rows_are_drawn(kind):
    plain = PrioritizedReplayBuffer if kind is ScaledPrioritized else ReplayBuffer
    drawn = []
    for each in (kind, plain):
        buffer = each(8, FIELDS, seed=5)
        buffer.add(**{**ROWS, "rew": np.arange(8)})
        drawn.append(buffer.sample(50)["rew"])
    assert (drawn[0] == 10 * drawn[1]).all()


def test_late_priorities_are_still_ignored():
    """check_for_update recognizes a sample by its array of indexes."""
    buffer = ScaledPrioritized(2, FIELDS, check_for_update=True, eps=0.0, alpha=1.0)
    two = {name: column[:2] for name, column in ROWS.items()}
    buffer.add(**two)
    batch = buffer.sample(4)
    buffer.add(**two)
    buffer.update_priorities(batch["indexes"], np.full(4, 5.0))
    assert buffer.get_max_priority() == 1


def test_an_override_works_in_a_subclass_that_also_overrides_sample():
    class Both(ScaledUniform):
        def sample(self, batch_size):
            return {**super().sample(batch_size), "more": 1}

    buffer = Both(8, FIELDS)
    buffer.add(**ROWS)
    assert (buffer.sample(4)["rew"] == 10).all() and buffer.sample(4)["more"] == 1


def test_copies_and_files_contain_the_stored_rows_not_the_override(tmp_path):
    buffer = ScaledUniform(8, FIELDS)
    buffer.add(**ROWS)
    buffer.save_transitions(tmp_path / "rows")
    loaded = ReplayBuffer(8, FIELDS)
    loaded.load_transitions(tmp_path / "rows")
    assert (loaded.sample(4)["rew"] == 1).all()


def test_out_is_refused_with_an_override():
    buffer = ScaledUniform(8, FIELDS)
    buffer.add(**ROWS)
    with pytest.raises(TypeError, match=r"out must be None .* for a class that overrides _encode_sample"):
        buffer.sample(4, out=ReplayBuffer(8, FIELDS).get([]))


def test_selective_samples_are_what_encode_sample_returns():
    class Mine(cpprb_impl.SelectiveReplayBuffer):
        def _encode_sample(self, indexes):
            return {**super()._encode_sample(indexes), "idx": np.array(indexes)}

    buffer = selective(Mine)
    added(buffer, {**ROWS, "rew": np.arange(8)})
    batch = buffer.sample(20)
    assert (batch["rew"].ravel() == batch["idx"]).all()
    assert set(buffer.get_episode(0)) == {"obs", "act", "rew", "next_obs", "done"}


def test_an_override_is_refused_when_attaching():
    class Mine(MPReplayBuffer):
        def get_stored_size(self):
            return 1

    buffer = MPReplayBuffer(8, FIELDS)
    with pytest.raises(ValueError, match="Mine must not override get_stored_size"):
        Mine.attach(buffer.segment)


def test_a_subclass_with_methods_of_its_own_is_accepted():
    class Mine(ReplayBuffer):
        def get_max_priority(self):  # uniform buffers have no such method
            return 3

        def get_stored_fraction(self):
            return self.get_stored_size() / self.get_buffer_size()

    buffer = Mine(8, FIELDS)
    buffer.add(**ROWS)
    assert (buffer.get_max_priority(), buffer.get_stored_fraction()) == (3, 1)
