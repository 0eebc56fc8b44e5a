"""Probes of processes find nothing in a sound shared buffer, and the fault of each that is wrong in only one way. The
script that repeats the fault fails for that buffer, and passes for the sound one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adapters.behaviours import Meaning
from suites.check.functions import NotApplicable, load
from suites.check.probes import processes
from suites.check.probes.tracked import CHARACTERS
from suites.check.reproduction import MOST_LINES, script
from suites.check.subject import CheckSettings, Subject
from tests.check.test_probes import FOLDER, runs
from tests.check.test_probes import subject as plain

PROBE_OF = {check: probe for probe, checks in processes.PROBES.items() for check in checks}

#: planted fault, the check that must find it, and what it must say
CONTROLS = [
    ("SamplesWithoutLock", "processes", processes.Together.TORN),
    ("DrawsTheUnwritten", "processes", processes.Together.UNWRITTEN),
    ("OfOneProcess", "arrivals", processes.Arrivals.NONE),
    ("LosesRowsOfOthers", "arrivals", processes.Arrivals.LOST),
    ("CountsPastLock", "arrivals", processes.Arrivals.COUNT),
    ("LocksForever", "killed", processes.AfterKill.WAIT),
    ("CountsBeforeItStores", "killed_rows", processes.Together.TORN),
]


def shared(fault: str = "") -> Subject:
    source = (FOLDER / "together_functions.py").read_text()
    if fault:
        source = source.replace("import TogetherBuffer", f"import {fault}")
    return Subject(load(source, f"{fault or 'together'}_functions.py"), CheckSettings(patience=3.0))


@pytest.mark.parametrize("check", PROBE_OF)
def test_a_sound_shared_buffer_passes(check):
    seen = PROBE_OF[check](shared())[check]
    assert processes.CHECKS[check](seen.word).meaning is Meaning.SOUND, seen
    assert seen.looked_at > 0 and seen.evidence and not seen.script


@pytest.mark.parametrize(("fault", "check", "word"), CONTROLS)
def test_a_planted_fault_of_sharing_is_found(fault, check, word, tmp_path):
    seen = PROBE_OF[check](shared(fault))[check]
    assert seen.word == word, seen
    body = seen.script.splitlines()
    program = script(shared(fault).functions, body)
    assert len(program.splitlines()) <= MOST_LINES and len(seen.evidence) <= CHARACTERS
    assert not runs(program, tmp_path)
    assert runs(script(shared().functions, body), tmp_path)


def test_every_check_of_processes_has_a_control():
    assert {check for _, check, _ in CONTROLS} == set(processes.CHECKS) == set(PROBE_OF)


def test_processes_are_checked_only_if_claimed_or_asked_for():
    for probe in processes.PROBES:
        for count in (0, 1):
            with pytest.raises(NotApplicable, match="or more asks for it"):
                probe(Subject(plain().functions, CheckSettings(processes=count)))
    seen = processes.arrive(Subject(plain().functions, CheckSettings(processes=2)))["arrivals"]
    assert seen.word == processes.Arrivals.NONE


PARENT = """
import sys, time
from suites.check.probes.children import Child
print(Child(lambda: time.sleep(30), 0).pid, flush=True)
time.sleep(30)
"""


def test_a_child_does_not_outlive_a_killed_parent():
    """An interrupted check would leave children that add to a buffer without end."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(200):
        if not Path(f"/proc/{child}/cmdline").exists():
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child still runs")
