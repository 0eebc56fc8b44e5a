"""The probes of time find faults that are planted in a sound buffer, one each, and none in the buffer itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from adapters.behaviours import Meaning
from suites.check import functions, reproduction
from suites.check.functions import NotApplicable
from suites.check.probes import environments, goals, nstep, reading, stacks, steps, windows
from suites.check.probes.probing import Seen
from suites.check.subject import CheckSettings, Subject
from tests.check.episodic import FAULTS, SOUND

MODULES = (steps, nstep, stacks, environments, windows, reading, goals)
PROBES = {check: probe for module in MODULES for probe, checks in module.PROBES.items() for check in checks}
KINDS = {check: kind for module in MODULES for check, kind in module.CHECKS.items()}
#: Probes in which a sound buffer's draws decide, and not only its rows.
OF_DRAWS = ("episode_ends", "window_starts", "reading")


def subject_of(source: str, seed: int = 0) -> Subject:
    return Subject(functions.load(source, "<checked>"), CheckSettings(seed=seed))


def without(*lines: str) -> Subject:
    """Return the sound buffer whose functions lack these pieces of text."""
    source = SOUND
    for line in lines:
        assert line in source
        source = source.replace(line, "")
    return subject_of(source)


def assert_sound(found: Mapping[str, Seen]) -> None:
    wrong = {check: each for check, each in found.items() if KINDS[check](each.word).meaning is not Meaning.SOUND}
    assert not wrong
    assert all(len(each.evidence) <= 160 and not each.script and each.looked_at for each in found.values())


def ends_of(source: str, body: str) -> int:
    program = reproduction.script(functions.load(source, "<checked>"), body.split("\n"))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).returncode


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_its_script_fails_with_it_alone(fault):
    planted = FAULTS[fault]
    seen = PROBES[planted.check](subject_of(planted.source))[planted.check]
    assert seen.word == planted.word
    assert KINDS[planted.check](seen.word).meaning is not Meaning.SOUND
    assert len(seen.evidence) <= 160
    assert len(seen.script.split("\n")) <= 8  # what remains of 15 lines is for the buffer's functions
    assert ends_of(planted.source, seen.script) == 1
    assert ends_of(SOUND, seen.script) == 0


@pytest.mark.parametrize("probe", dict.fromkeys(PROBES.values()), ids=lambda probe: probe.__name__)
def test_a_sound_buffer_has_no_findings(probe):
    assert_sound(probe(subject_of(SOUND)))


@pytest.mark.slow
@pytest.mark.parametrize("probe", dict.fromkeys(PROBES.values()), ids=lambda probe: probe.__name__)
@pytest.mark.timeout(3_600)
def test_a_sound_buffer_has_no_findings_with_any_seed(probe):
    for seed in range(1, 100):
        assert_sound(probe(subject_of(SOUND, seed)))


@pytest.mark.parametrize("check", OF_DRAWS)
def test_draws_of_a_sound_buffer_are_no_findings_with_other_seeds(check):
    for seed in range(100, 104):
        assert_sound(PROBES[check](subject_of(SOUND, seed)))


@pytest.mark.parametrize(
    ("check", "gone", "reason"),
    [
        ("environments", ", env, info", "add has no argument env"),
        ("window_steps", "def windows(buffer, size, length):\n    return buffer.windows(size, length)", "no function"),
        ("cut_episodes", "def cut(buffer):\n    buffer.cut()", "there is no function cut"),
        ("goals", ", desired_goal", "add has no argument desired_goal"),
        ("info", "info, next", "add has no argument info"),
    ],
)
def test_a_missing_feature_is_reported_as_not_applicable(check, gone, reason):
    rest = "next" if gone == "info, next" else ", info" if "env" in gone else ""
    subject = subject_of(SOUND.replace(gone, rest))
    with pytest.raises(NotApplicable, match=reason):
        PROBES[check](subject)


ONE_FLAG = """
import numpy as np

def make(capacity):
    return {"rows": [], "capacity": capacity, "random": np.random.default_rng(0)}

def add(buffer, obs, act, rew, next_obs, done):
    buffer["rows"] = [*buffer["rows"], (obs.copy(), act, rew, next_obs.copy(), done)][-buffer["capacity"]:]

def sample(buffer, size):
    rows = [buffer["rows"][k] for k in buffer["random"].integers(len(buffer["rows"]), size=size)]
    return dict(zip(("obs", "act", "rew", "next_obs", "done"), map(np.array, zip(*rows))))
"""


def test_a_buffer_with_one_flag_is_not_judged_on_time_limits():
    with pytest.raises(NotApplicable, match="one flag"):
        steps.time_limits(subject_of(ONE_FLAG))
    assert_sound(steps.rows(subject_of(ONE_FLAG)))


def test_a_flag_that_a_buffer_takes_and_ignores_is_a_fault():
    ignored = ONE_FLAG.replace("next_obs, done):", "next_obs, done, truncated):")
    assert steps.time_limits(subject_of(ignored))["time_limits"].word == "stored as terminal"


def test_a_way_that_a_buffer_refuses_is_no_finding():
    refused = ONE_FLAG.replace("make(capacity)", "make(capacity, once=False)").replace(
        "    return {", "    if once: raise ValueError('not with time limits')\n    return {"
    )
    assert_sound(steps.rows(subject_of(refused + "\nWAYS = {'once': {'once': True}}\n")))


def test_a_step_that_a_buffer_refuses_at_a_time_limit_is_no_finding():
    refused = ONE_FLAG.replace(
        "next_obs, done):", "next_obs, done, truncated):\n    if truncated: raise ValueError('no')"
    )
    found = steps.time_limits(subject_of(refused)) | steps.rows(subject_of(refused))
    assert found["time_limits"].word == "refused"
    assert_sound(found)


def test_masked_places_of_a_window_are_no_steps():
    returned = "        return {name: np.array([[row[name] for row in window] for window in steps])"
    masked = SOUND.replace(returned, returned.replace("return", "found =")).replace(
        "in window] for window in steps]) for name in steps[0][0]}\n",
        "in window] for window in steps]) for name in steps[0][0]}\n"
        '        found["obs"][:, 0] = 0\n'
        '        return found | {"mask": np.arange(length) + np.zeros((size, 1)) > 0}\n',
    )
    assert masked != SOUND
    assert_sound(windows.steps(subject_of(masked)))
    unmasked = subject_of(masked.replace('"mask"', '"other"'))
    assert windows.steps(unmasked)["window_padding"].word == "without a mask"


def test_environments_out_of_turn_are_a_hazard_if_only_then_rows_are_wrong():
    """A vectorised buffer takes the environments' steps together."""
    together = SOUND.replace(
        "    buffer.add(env, obs=obs.copy()",
        "    buffer.turn = (getattr(buffer, 'turn', -1) + 1) % len(buffer.counts)\n"
        "    buffer.add(buffer.turn, obs=obs.copy()",
    )
    assert environments.environments(subject_of(together))["environments"].word.startswith("kept apart only")


def test_every_check_of_time_is_shown_and_made_by_a_probe():
    checks: Callable[..., Mapping[str, object]] = importlib.import_module("suites.check.checks").SHOWN
    assert set(PROBES) == set(KINDS) <= set(checks)
