"""A few crash trials of each lock discipline, at random moments; `make crash` uses a build with failpoints."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import replace

import pytest

from cpprb_impl.layout.options import LOCKS

from . import arena, certified, crash
from .arena import RANDOM_MOMENT, Arena, plan_for
from .certified import NARROW
from .fleet import HangError, fleet
from .test_soak import WithoutOut

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("lock", LOCKS)
def test_killed_and_stopped_processes_do_not_disturb_the_others(lock):
    outcomes = list(crash.trials(lock, 60, seed=1))
    assert [outcome for outcome in outcomes if not outcome.is_clean()] == []
    assert len(outcomes) == 60 and all(outcome.hit for outcome in outcomes)


def test_a_killed_explorer_makes_cpprb_hang():
    """The negative control: after the same kill, every later sample of cpprb hangs."""
    cpprb = pytest.importorskip("cpprb")
    rng = random.Random(1)
    for _ in range(100):
        buffer = WithoutOut(cpprb.MPReplayBuffer(64, certified.env_dict(NARROW)))
        with fleet(buffer, 2, 1, NARROW, 20, 32, prioritized=False) as ships:
            ships.start(quota=32)
            ships.wait_until_idle()
            ships.start()
            time.sleep(rng.uniform(0.001, 0.005))
            victim = ships.explorers.pop(0)
            victim.kill()
            victim.join()
            ships.board.order[2] = 0  # so that only the dead process can block the learner
            with contextlib.suppress(HangError):
                ships.wait_for_samples(seconds=5)
                continue
            return
    pytest.fail("cpprb never hung")


class Forgetful(Arena):
    """Expects one row more of each survivor than was added, as if a committed row were lost."""

    def look(self, due, *others):
        return super().look([(w, first, count + 1) for w, first, count in due], *others)


def test_a_trial_detects_a_lost_row():
    assert faults_in_a_trial(Forgetful)["lost"] > 0


class Held(Arena):
    """Reports one slot less than is stored, as if a slot were never reused."""

    def look(self, *args):
        return super().look(*args) - 1


def test_a_trial_detects_a_slot_that_is_never_reused():
    assert "1 of" in faults_in_a_trial(Held)["trouble"]


def faults_in_a_trial(kind) -> dict:
    place = kind("buffer", True, False, random.Random(1), 1)
    try:
        with place.with_survivors():
            plan = replace(plan_for("buffer", RANDOM_MOMENT, random.Random(1)), explores=True)
            outcome = arena.trial(place, plan)
            return {**outcome.findings.faults(), "trouble": " ".join(outcome.trouble)}
    finally:
        place.buffer.close()
