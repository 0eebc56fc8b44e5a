"""A long check makes more of what is not counted in draws, and so finds rarer faults."""

from __future__ import annotations

import pytest

from suites.check.probes.probing import USUAL_DRAWS
from suites.check.subject import CheckSettings
from tests.check.detection import FOLDER, Control, report

#: check -> the sound buffer on which it is made
CHECKS = {
    **dict.fromkeys(("seed", "weights", "weights_over", "leaks"), "plain_functions.py"),
    **dict.fromkeys(("n_step_rewards", "stack_frames", "window_steps", "environments"), "episodic_functions.py"),
    **dict.fromkeys(("arrivals", "killed"), "together_functions.py"),
}


def looked_at(check: str, draws: int) -> int:
    """Return how much the check looked at."""
    sound = Control(check, "", (FOLDER / CHECKS[check]).read_text(encoding="utf-8"))
    return report(sound, CheckSettings(draws=draws, processes=2))["looked_at"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_of_twice_the_draws_looks_at_more(check):
    usual = looked_at(check, USUAL_DRAWS)
    assert usual > 0 and looked_at(check, 2 * USUAL_DRAWS) > 1.4 * usual
