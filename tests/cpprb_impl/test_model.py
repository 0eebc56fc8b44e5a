"""Buffers of one process agree with a model in plain Python after any calls; wrong buffers must be detected.

More examples: make test ARGS='tests/cpprb_impl/test_model.py --hypothesis-profile=long'
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.contents.held import HeldSlots

from .state_machine import BufferMachine

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_any_history_agrees_with_the_model(examples):
    """This test would detect most faults of cpprb; the buffers below have some of these faults."""
    long = examples == 400 and settings.get_current_profile_name() == "long"
    size = {} if long else {"max_examples": examples, "stateful_step_count": 40}
    run_state_machine_as_test(BufferMachine, settings=settings(deadline=None, suppress_health_check=SLOW, **size))


class ShiftsAtTheWrap:
    def add(self, **rows):
        count = np.size(rows.get("number"))
        if count > 1 and self.get_next_index() + count > self.get_buffer_size():
            rows["obs"] = np.roll(np.asarray(rows["obs"]), 1, axis=0)
        return super().add(**rows)


class ForgetsBreaks:
    """As in cpprb, next_obs is the obs of the next row unless on_episode_end was called."""

    def add(self, **rows):
        if {"obs", "next_obs"} <= rows.keys() and np.size(rows.get("number")) > 1:
            obs, next_obs = np.asarray(rows["obs"]), np.asarray(rows["next_obs"])
            rows["next_obs"] = np.concatenate([obs[1:], next_obs[-1:]]) if obs.shape == next_obs.shape else next_obs
        return super().add(**rows)


class ChangesThoughItFails:
    """As in cpprb, an add that fails changes the buffer: there it moves the index, here it ends the episode."""

    def add(self, **rows):
        try:
            return super().add(**rows)
        except Exception:
            self.on_episode_end()
            raise


class ForgetsWhatWaits:
    """Steps that are pending when an episode ends are completed with steps of the next episode."""

    def on_episode_end(self):
        self._set_episode_len(0)


class GivesItsOwnArrays:
    """As in cpprb, a sample overwrites an earlier sample."""

    def sample(self, batch_size, *args, **options):
        batch = super().sample(batch_size, *args, **options)
        kept = vars(self).setdefault("kept", {}).setdefault(batch_size, batch)
        for name, column in batch.items():
            kept[name][...] = column
        return batch if "out" in options else kept


class LosesPrioritiesOnLoad:
    def load_transitions(self, file):
        super().load_transitions(file)
        if isinstance(self, PrioritizedReplayBuffer):
            slots = HeldSlots(self)[:]
            self._set_leaves(slots, np.ones(len(slots), np.float32))


class ForgetsWhereItStoodOnLoad:
    def load_transitions(self, file):
        super().load_transitions(file)
        super().on_episode_end()


class KeepsTheMaximum:
    """As in cpprb, whose largest priority never falls."""

    def update_priorities(self, indexes, priorities):
        before = self.get_max_priority()
        super().update_priorities(indexes, priorities)
        self._set_max_priority(max(before, self.get_max_priority()))


class ForgetsWhatIsNew:
    """Ignores check_for_update, so that an old priority is assigned to a new row."""

    def update_priorities(self, indexes, priorities):
        self._set_unseen(0)
        super().update_priorities(indexes, priorities)


class WeighsWithinTheBatch:
    """Divides weights by the largest in the batch instead of the largest of all."""

    def sample(self, batch_size, *args, **options):
        batch = super().sample(batch_size, *args, **options)
        if "weights" in batch and batch_size:
            batch["weights"] /= batch["weights"].max()
        return batch


MUTANTS = [
    ShiftsAtTheWrap,
    ForgetsBreaks,
    ChangesThoughItFails,
    ForgetsWhatWaits,
    GivesItsOwnArrays,
    LosesPrioritiesOnLoad,
    ForgetsWhereItStoodOnLoad,
    KeepsTheMaximum,
    ForgetsWhatIsNew,
    WeighsWithinTheBatch,
]


def with_fault(fault: type, kind: type) -> type:
    """Return a subclass of `kind` with the fault, under a name in this module so that it can be pickled."""
    name = fault.__name__ + kind.__name__
    globals()[name] = type(name, (fault, kind), {"__module__": __name__})
    return globals()[name]


@pytest.mark.parametrize("fault", MUTANTS)
def test_wrong_buffers_are_detected(fault: type):

    class Machine(BufferMachine):
        kinds = (with_fault(fault, ReplayBuffer), with_fault(fault, PrioritizedReplayBuffer))

    few = settings(
        max_examples=400,
        stateful_step_count=40,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=SLOW,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=few)
