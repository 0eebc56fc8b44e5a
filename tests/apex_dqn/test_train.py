"""A training as a program: it ends cleanly, restarts explorers, and resumes with the same next sample."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = ("--target=1e9", "--episodes=2")  # never solved
PATIENCE = 60


class Training:
    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "suites.apex_dqn.train", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # in CI, it may be ignored
        )  # fmt: skip

    @property
    def children(self) -> list[psutil.Process]:
        """Return the learner, the evaluator and the explorers, in this order."""
        if self.process.poll() is not None:
            return []
        found = []
        for each in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # the process was killed a moment ago
                # The watchdog of the buffer's segments runs a different program.
                if "suites.apex_dqn.train" in each.cmdline():
                    found.append(each)
        return sorted(found, key=lambda each: each.pid)

    def wait_for(self, condition, what: str):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            if found := condition():
                return found
            if ended:
                break
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(f"{what} within {PATIENCE} s: {self.process.communicate()[0]}")

    def ends(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=2 * PATIENCE)
        deadline = time.monotonic() + 5
        while (self.segments or self.group()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not self.segments and not self.group()
        return self.process.returncode, said

    @property
    def segments(self) -> list[str]:
        """Return the remaining segments of its buffers, which are named after the process that made them."""
        return [name for name in os.listdir("/dev/shm") if name.startswith(f"cpprb_impl-{self.process.pid}-")]

    def group(self) -> list[int]:
        """Return the remaining processes of its session."""
        return [each.pid for each in psutil.process_iter() if _session(each.pid) == self.process.pid]


def _session(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:
        return None


def handles_sigterm(process: int) -> bool:
    caught = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "SigCgt" in line)
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def checkpoints(folder: Path) -> list[Path]:
    return [each for each in folder.glob("checkpoint-*") if (each / "next_sample.json").exists()]


def test_a_training_learns_a_little_and_ends_cleanly(tmp_path):
    run = Training("--target=30", "--minutes=2", "--folder", tmp_path / "run", "--explorers=2", "--episodes=5")
    status, said = run.ends()
    assert status == 0 and "solved after" in said and " (target 30)" in said and "RESUME" not in said
    assert f"tensorboard --logdir {tmp_path / 'run'}" in said
    assert list((tmp_path / "run").glob("events.out.tfevents.*")) and checkpoints(tmp_path / "run")


def test_an_explorer_killed_ten_times_is_restarted(tmp_path):
    run = Training(*ENDLESS, "--minutes=10", "--folder", tmp_path / "run", "--explorers=2")
    run.wait_for(lambda: len(run.children) >= 4, "no process was started")
    for _ in range(10):
        known = {each.pid for each in run.children}
        run.children[-1].kill()
        run.wait_for(lambda known=known: {each.pid for each in run.children} - known, "no new explorer")
        time.sleep(1.5)  # the explorer adds rows
    time.sleep(6)  # the log gets its next line
    run.process.send_signal(signal.SIGINT)
    status, said = run.ends()
    assert status == 130 and "RESUME=" in said and "10 restarts" in said


def test_the_last_message_states_the_missed_target_and_how_to_resume(tmp_path):
    folder = tmp_path / "run"
    run = Training("--target=1e9", "--seconds=20", "--checkpoint-seconds=5", "--folder", folder, "--explorers=1")
    run.wait_for(lambda: len(run.children) == 3, "no process was started")
    run.wait_for(lambda: {each.name() for each in run.children} >= {"apex learn", "apex explore"}, "no titles")
    status, said = run.ends()
    last = said.splitlines()[-1]
    assert status == 0 and last.startswith("ended after") and " (target 1e+09)" in last
    assert last.endswith(f"to continue: make apex RESUME={folder} MINUTES=11")


def test_an_evaluator_that_cannot_run_ends_the_training(tmp_path):
    run = Training(*ENDLESS, "--minutes=10", "--folder", tmp_path / "run", "--explorers=1", "--least-rows=1000000000")
    run.wait_for(lambda: len(run.children) == 3, "no process was started")
    evaluator = run.children[1]
    for _ in range(3):
        known = {each.pid for each in run.children}
        evaluator.kill()
        run.wait_for(lambda known=known: run.process.poll() or {each.pid for each in run.children} - known, "no end")
        evaluator = run.children[-1] if run.children else evaluator
    status, said = run.ends()
    assert status == 1 and "the evaluator died 3 times without a score" in said


@pytest.mark.parametrize("peer", ["cpprb_impl[lock=none]", "cpprb[queue]"])
def test_a_training_ends_cleanly_while_it_waits_for_rows(peer, tmp_path):
    """If the learner read the queue only to sample, the queue would fill and no explorer could add or end."""
    arguments = (*ENDLESS, "--least-rows=1000000000", "--buffer", peer, "--folder", tmp_path / "run", "--explorers=2")
    run = Training(*arguments)
    lines = iter(run.process.stdout.readline, "")
    rows = (line.partition(" transitions ")[0].split()[-1] for line in lines if " transitions " in line)
    assert any(each[-1] == "k" and float(each[:-1]) > 20 for each in rows)  # three times the queue's capacity
    run.process.terminate()
    status, said = run.ends()
    assert status == 130 and not checkpoints(tmp_path / "run")
    assert "--resume" not in said


def test_an_explorer_that_cannot_run_ends_the_training(tmp_path):
    run = Training(*ENDLESS, "--minutes=10", "--folder", tmp_path / "run", "--explorers=1", "--local-rows=100000")
    run.wait_for(lambda: len(run.children) >= 3, "no process was started")
    for _ in range(30):
        if run.process.poll() is not None:
            break
        explorers = run.children[2:]
        if explorers:
            explorers[-1].kill()
        time.sleep(0.15)
    status, said = run.ends()
    assert status == 1 and "died 3 times without adding a transition" in said


def test_a_killed_learner_is_resumed_with_the_same_next_sample(tmp_path):
    folder = tmp_path / "run"
    run = Training(*ENDLESS, "--minutes=10", "--folder", folder, "--explorers=2", "--checkpoint-seconds=2")
    run.wait_for(lambda: checkpoints(folder), "no checkpoint")
    run.children[0].kill()
    status, said = run.ends()
    assert status == 1 and "the learner died with exit code -9" in said and f"RESUME={folder}" in said

    steps = json.loads((checkpoints(folder)[0] / "counters.json").read_text())["steps"]
    status, said = Training("--folder", folder).ends()
    assert status == 2 and f"{folder} contains a training run: choose a different --folder" in said
    status, said = Training("--resume", folder, "--explorers=3").ends()
    assert status == 2 and "--explorers cannot change when a training run is resumed: it is 2, got 3" in said
    settings = (folder / "settings.json").read_text()
    for damaged in ("", "[]", settings.replace('"gamma"', '"gama"'), settings.replace("0.99", "NaN")):
        (folder / "settings.json").write_text(damaged)
        status, said = Training("--resume", folder).ends()
        assert status == 2 and "settings.json cannot be read" in said and "Traceback" not in said
    (folder / "settings.json").write_text(settings)

    resumed = Training("--resume", folder, *ENDLESS, "--minutes=10", "--checkpoint-seconds=2")
    resumed.wait_for(lambda: any(int(each.name[11:]) > steps for each in checkpoints(folder)), "no later checkpoint")
    resumed.process.send_signal(signal.SIGINT)
    assert resumed.ends()[0] == 130


def test_a_different_next_sample_is_detected(tmp_path):
    """The negative control: the sample stored with the checkpoint is not the one that follows it."""
    folder = tmp_path / "run"
    run = Training(*ENDLESS, "--minutes=10", "--folder", folder, "--explorers=2", "--checkpoint-seconds=2")
    run.wait_for(lambda: checkpoints(folder), "no checkpoint")
    run.process.terminate()
    assert run.ends()[0] == 130
    (checkpoints(folder)[0] / "next_sample.json").write_text(json.dumps({"sha256": "0" * 64}))
    status, said = Training("--resume", folder, *ENDLESS, "--minutes=1").ends()
    assert status == 1 and "the first sample after resuming differs" in said and "Traceback" not in said
    (checkpoints(folder)[0] / "model.pt").write_bytes(b"")
    status, said = Training("--resume", folder).ends()
    assert status == 1 and "cannot be read" in said and "Traceback" not in said


@pytest.mark.parametrize("example", ["apex.py", "apex_ray.py"])
def test_the_examples_run(example):
    command = [sys.executable, str(ROOT / "examples" / example), "12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "learner steps alongside 3 explorers" in done.stdout and "return " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--env", "NoSuchEnvironment-v0"), "--env NoSuchEnvironment-v0 cannot be used"),
        (("--env", "Pendulum-v1"), "Discrete actions, got Box and Box"),
        (("--env", "ALE/Pong-v5"), "must have observations of at most one axis, got shape (210, 160, 3)"),
        (("--buffer", "cpprb"), "--buffer must be one of cpprb_impl[lock=none], "),
        (("--resume", "/nowhere"), "has no settings.json"),
        (("--seed", "-1"), "--seed must be from 0 to 4294967295, got -1"),
        (("--minutes", "0"), "--minutes must be above 0, got 0"),
        (("--explorers", "0"), "--explorers must be from 1 to 1000, got 0"),
        (("--target-every", "0"), "--target-every must be from 1 to 1000000000000, got 0"),
        (("--buffer", "rllib[Ray actor]"), "torchrl[shared], got rllib[Ray actor]"),
        (("--minutes", "abc"), "--minutes: invalid float value: 'abc'"),
        (("--minutes", "nan"), "--minutes must be above 0, got nan"),
        (("--checkpoint-seconds", "nan"), "--checkpoint-seconds must be above 0, got nan"),
        (("--target", "nan"), "--target must be a number, got nan"),
        (("--gamma", "nan"), "--gamma must be from 0 to 1, got nan"),
        (("--gamma", "1000"), "--gamma must be from 0 to 1, got 1000"),
        (("--learning-rate", "nan"), "--learning-rate must be from 0 to 1, got nan"),
        (("--capacity", "1000000000000"), "No space left on device"),
    ],
)
def test_the_error_for_a_bad_argument_names_it(arguments, said, tmp_path):
    run = Training(*arguments, "--folder", tmp_path / "run")
    status, printed = run.ends()
    assert status == 2 and said in printed and "Traceback" not in printed
    assert not (tmp_path / "run").exists()


def test_a_folder_is_used_by_one_training_at_a_time(tmp_path):
    folder = tmp_path / "run"
    run = Training(*ENDLESS, "--minutes=10", "--folder", folder, "--explorers=1", "--checkpoint-seconds=2")
    run.wait_for(lambda: checkpoints(folder), "no checkpoint")
    for options in (("--folder", folder), ("--resume", folder)):
        status, said = Training(*ENDLESS, *options).ends()
        assert status == 2 and f"another training run uses {folder}" in said
    run.process.terminate()
    assert run.ends()[0] == 130


def test_a_folder_without_a_checkpoint_cannot_be_resumed(tmp_path):
    folder = tmp_path / "run"
    run = Training(*ENDLESS, "--minutes=10", "--folder", folder, "--least-rows=1000000000")
    run.wait_for(lambda: (folder / "settings.json").exists(), "no folder")
    run.process.kill()
    status, said = Training("--resume", folder).ends()
    assert status == 2 and "contains no checkpoint" in said and "Traceback" not in said


def test_a_training_survives_a_stopped_explorer(tmp_path):
    folder = tmp_path / "run"
    run = Training(*ENDLESS, "--folder", folder, "--explorers=2", "--checkpoint-seconds=1e9", "--evaluate-every=0")
    lines = iter(run.process.stdout.readline, "")
    assert any("score" in line and "score none" not in line for line in lines)  # the learner has begun to train
    run.children[-1].suspend()
    run.process.send_signal(signal.SIGINT)
    status, said = run.ends()
    assert status == 130 and "explorer 1 did not end within 10 s: killed" in said and f"RESUME={folder}" in said
    assert len(checkpoints(folder)) == 1


def test_stopped_processes_end_after_their_supervisor_is_killed(tmp_path):
    run = Training(*ENDLESS, "--folder", tmp_path / "run", "--explorers=2")
    run.wait_for(lambda: len(run.children) == 4, "no process was started")
    for each in run.children:
        each.suspend()
    run.process.kill()
    run.ends()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_time_ends_a_training_without_a_traceback(number, tmp_path):
    """The signal may come during imports or while processes start. As with Ctrl-C, every process receives it."""
    for seconds in (0.0, 1.0, 2.0, 3.0):
        run = Training(*ENDLESS, "--folder", tmp_path / f"{seconds}", "--explorers=8")
        run.wait_for(lambda run=run: handles_sigterm(run.process.pid), "it did not start")
        time.sleep(seconds)
        os.killpg(run.process.pid, number)
        status, said = run.ends()
        assert status == 130 and "interrupted" in said and "Traceback" not in said and "xception" not in said
