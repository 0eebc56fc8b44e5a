"""A training on several simulated hosts survives the loss of one, and resumes on fewer hosts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from suites.apex_dqn import options
from suites.apex_dqn.settings import TrainingSettings
from suites.lan import STATES, why_not

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = ("--target=1e9", "--episodes=2")  # never solved
needs_hosts = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


class Program:
    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "suites.apex_dqn.train", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def read_until(self, pattern: str) -> re.Match:
        """Return the first line that matches. Fails if the program ends first."""
        assert self.process.stdout
        said = ""
        for line in self.process.stdout:
            said += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no line matches {pattern}: {said}")

    def ends(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=120)
        assert not (STATES / f"hosts-b{self.process.pid}").exists()
        return self.process.returncode, said


@needs_hosts
def test_a_training_survives_the_loss_of_a_host_and_resumes_on_fewer(tmp_path):
    folder = tmp_path / "run"
    run = Program(
        *ENDLESS, "--hosts=3", "--seconds=300", "--folder", folder, "--lose-host=30", "--checkpoint-seconds=5"
    )
    run.read_until("host 3 loses power")
    run.read_until(r"[1-9]\d*/s .* \d restarts")  # rates are printed after the restart
    os.kill(run.process.pid, signal.SIGINT)
    status, said = run.ends()
    assert status == 130 and "to continue: make apex RESUME=" in said
    (saved,) = folder.glob("checkpoint-*/shards")
    steps = int(saved.parent.name.partition("-")[2])
    assert steps > 0 and len([*saved.iterdir()]) == 1

    run = Program("--resume", folder, "--hosts=1", "--seconds=600", "--target=1e9")
    transitions = run.read_until(r"score \d\S*  (\S+) transitions [1-9]").group(1)
    assert transitions.endswith(("k", "M"))
    os.kill(run.process.pid, signal.SIGINT)
    assert run.ends()[0] == 130
    (resumed,) = folder.glob("checkpoint-*")
    assert int(resumed.name.partition("-")[2]) > steps


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--hosts=0"], "--hosts must be from 1 to 16, got 0"),
        (["--hosts=2", "--lose-host=3"], "--lose-host needs --hosts 3 or more"),
        (
            ["--hosts=3", "--lose-host=61", "--seconds=60"],
            "--lose-host must be below 60, when the training ends, got 61",
        ),
        (
            ["--hosts=3", "--lose-host=60", "--minutes=1"],
            "--lose-host must be below 60, when the training ends, got 60",
        ),
        (["--hosts=2", "--address=auto"], "not allowed with argument"),
        (["--hosts=2", "--buffer=cpprb"], "--buffer must be one of cpprb_impl[Ray]"),
        (["--buffer=cpprb_impl[Ray]"], "--buffer must be one of cpprb_impl[lock=none]"),
        (["--seconds=0"], "--seconds must be above 0, got 0"),
    ],
)
def test_the_error_for_a_bad_option_names_it(arguments, problem):
    status, said = Program(*arguments).ends()
    assert status == 2 and problem in said, said


@needs_hosts
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--env=NoSuch-v0"], "--env NoSuch-v0 cannot be used"),
        (["--env=Pendulum-v1"], "env must have Box observations and Discrete actions"),
        (["--folder={used}"], "contains a training run: choose a different --folder"),
        (["--resume={used}"], "contains no checkpoint"),
    ],
)
def test_a_training_that_cannot_begin_is_refused_before_hosts_are_created(arguments, problem, tmp_path):
    (tmp_path / options.SETTINGS).write_text(json.dumps(asdict(TrainingSettings(peer=options.ON_HOSTS[0]))))
    status, said = Program("--hosts=3", *(each.format(used=tmp_path) for each in arguments)).ends()
    assert status == 2 and problem in said and "starting Ray" not in said, said


def test_the_error_says_if_there_is_no_cluster(tmp_path):
    status, said = Program("--address=127.0.0.1:6398", "--folder", tmp_path / "run").ends()
    assert status == 2 and "127.0.0.1:6398" in said and "Traceback" not in said, said
