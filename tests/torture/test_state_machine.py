"""Shared buffers are compared with a model in plain Python, step by step in three processes.

Faulty buffers must be detected.

For more examples: make test ARGS='tests/torture/test_state_machine.py --hypothesis-profile=long'
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.layout.options import LOCKS

from .state_machine import SharedMachine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]  # a long run has no time limit


@pytest.mark.parametrize("with_lock", LOCKS)
def test_any_steps_in_any_order_keep_the_invariants(with_lock):
    class Machine(SharedMachine):
        lock = with_lock

    chosen = settings() if settings().max_examples > 1000 else settings(max_examples=25, stateful_step_count=30)
    run_state_machine_as_test(Machine, settings=settings(chosen, deadline=None, suppress_health_check=[*HealthCheck]))


class LosesTheLast:
    def add(self, **rows):
        many = len(rows["id"]) > 1
        return super().add(**{name: column[:-1] if many else column for name, column in rows.items()})


class ClearsNothing:
    def clear(self):
        pass


class LetsLateUpdatesLand:
    """As in cpprb: after a later sample, the priority of an overwritten row is applied to the row that replaced it."""

    def update_priorities(self, indexes, priorities):
        with contextlib.suppress(ValueError):  # nothing can be drawn
            self.sample(1)
        # Changed so that they match no sample: the buffer remembers the rows of its samples.
        super().update_priorities(np.r_[indexes, indexes[-1:]], np.r_[priorities, priorities[-1:]])


def with_fault(fault: type, kind: type) -> type:
    """Return a subclass of `kind` with the fault, under a name in this module so that it can be pickled."""
    name = fault.__name__ + kind.__name__
    globals()[name] = type(name, (fault, kind), {"__module__": __name__})
    return globals()[name]


@pytest.mark.parametrize("fault", [LosesTheLast, ClearsNothing, LetsLateUpdatesLand])
def test_wrong_buffers_are_detected(fault):
    class Machine(SharedMachine):
        lock = "buffer"
        kinds = (with_fault(fault, MPReplayBuffer), with_fault(fault, MPPrioritizedReplayBuffer))

    few = settings(
        max_examples=200,
        stateful_step_count=30,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[*HealthCheck],
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=few)
