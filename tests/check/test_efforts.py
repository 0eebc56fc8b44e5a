"""A long check makes more of what is not counted in draws, and so finds rarer faults."""

from __future__ import annotations

from typing import Any

import pytest

from suites.check import checks, worker
from suites.check.bridge import adapter_of
from suites.check.functions import load
from suites.check.probes.probing import USUAL_DRAWS
from suites.check.subject import CheckSettings, Subject
from suites.check.target import Target
from tests.check.graded import FOLDER

#: check -> the sound buffer on which it is made
CHECKS = {
    **dict.fromkeys(("seed", "weights", "weights_over", "leaks"), "plain_functions.py"),
    **dict.fromkeys(("n_step_rewards", "stack_frames", "window_steps", "environments"), "episodic_functions.py"),
    **dict.fromkeys(("arrivals", "killed"), "together_functions.py"),
}


def looked_at(check: str, draws: int) -> int:
    """Return how much the check looked at."""
    functions = load((FOLDER / CHECKS[check]).read_text(encoding="utf-8"), f"{check}_functions.py")
    subject = Subject(functions, CheckSettings(draws=draws, processes=2))
    part = next(part for part in checks.PARTS if check in part.checks)
    reports: list[Any] = []
    worker.work(Target(subject, adapter_of(subject), ""), [part], reports.append)
    return reports[-1][check]["looked_at"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_of_twice_the_draws_looks_at_more(check):
    usual = looked_at(check, USUAL_DRAWS)
    assert usual > 0 and looked_at(check, 2 * USUAL_DRAWS) > 1.4 * usual
