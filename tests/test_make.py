"""Unknown profiles, and variables that a target does not accept, are refused before any set-up."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from suites import targets
from suites.runner import profiles

ROOT = Path(__file__).resolve().parents[1]
HELP = re.findall(r"^([a-z0-9-]+):.*?## (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
TAKEN = [(target, name) for target, said in HELP for name in re.findall(r"\b([A-Z_]{3,})=", said)]
CALLS = [
    (str(path.relative_to(ROOT)), line.strip())
    for path in (*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".ci/*"))
    for line in re.findall(r"^\s*(?:- run: |beside )?(make [a-z].*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if "$" not in line
]
VALUES = {
    "PROFILE": "tiny",
    "PEERS": "cpprb",
    "SUITES": "memory",
    "WORKLOAD": "examples/workload.toml",
    "ADAPTER": "examples/gate_adapter.py",
    "RESUME": "README.md",
    "BUFFER": "cpprb[MP]",
    "LOCK": "none",
    "PROJECT": "examples",
    "BASE": "HEAD",
    "HEAD": "HEAD",
}


BUILT = ("--assume-old=.venv/.built", "--assume-old=.peers/torch/.built")


def make(*words: str, built: Sequence[str] = BUILT) -> subprocess.CompletedProcess:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", *built, *words]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("target", "name"), TAKEN)
def test_a_target_accepts_the_variables_in_its_help(target, name):
    given = {name: VALUES.get(name, "1")}
    if name == "PYTHON" or target not in targets.COMMANDS:  # handled in the Makefile itself
        done = make(target, *(f"{name}={value}" for name, value in given.items()))
        assert done.returncode == 0, done.stderr
    else:
        assert targets.refusal([target], given) == "" and targets.command(target, given)


@pytest.mark.parametrize(("file", "line"), CALLS)
def test_ci_passes_only_accepted_variables_to_targets(file, line):
    words = shlex.split(line, comments=True)[1:]
    done = make(*words)
    assert done.returncode == 0, f"{file}: {line}: {done.stderr}"


def test_the_nightly_checks_pass_only_accepted_variables():
    text = (ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8")
    targets = re.findall(r"^ {10}- (.*)$", text.partition("target:")[2].partition("runs-on")[0], re.MULTILINE)
    assert len(targets) == 9
    for target in targets:
        assert make(*target.split()).returncode == 0, target


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "ADAPTR=x.py"], "make bench does not take ADAPTR; it takes PYTHON ADAPTER PEERS PROFILE WORKLOADS"),
        (["bench", "GATE_MINUTES=3"], "make bench does not take GATE_MINUTES"),
        (["gate", "MINUTES=3"], "make gate does not take MINUTES"),
        (["help", "MINUTES=3"], "make help does not take MINUTES; it takes PYTHON."),
        (["bench", "PROFILE=quik"], "PROFILE cannot be 'quik'; did you mean 'quick'?"),
        (["clean", "setup", "PROFILE=x"], "PROFILE cannot be 'x'; known: quick, survey,"),
        (["bench", "ENV="], "ENV must not be empty"),
        (["apex", "EXPLORERS=1.5"], "EXPLORERS must be a whole number, at least 1, got '1.5'"),
        (["soak", "SECONDS=0"], "SECONDS must be a number, at least 0.01, got '0'"),
        (["bench", "MINUTES=0"], "MINUTES must be a number, at least 1, got '0'"),
        (["bench", "MINUTES=ten"], "MINUTES must be a number, at least 1, got 'ten'"),
        (["bench", "PEERS=cpprb,rlux"], "PEERS cannot be 'rlux'; did you mean 'rlox'?"),
        (["setup", "PEERS=xyz"], "PEERS cannot be 'xyz'; known: cpprb_impl, cpprb,"),
        (["bench", "SUITES=memry"], "SUITES cannot be 'memry'; did you mean 'memory'?"),
        (
            ["bench", "WORKLOAD=x.toml"],
            "WORKLOAD must be the path of a file, got 'x.toml'; an example is examples/",
        ),
        (["bench", "ADAPTER=x"], "ADAPTER must be the path of a file, got 'x'; an example is examples/"),
        (["bench", "RESUME=x.json"], "RESUME must be the path of a file, got 'x.json'"),
        (["bench", "ENV=Ant-v5", "WORKLOAD=examples/workload.toml"], "give ENV or WORKLOAD, not both"),
        (["apex", "BUFFER=cpprb"], "BUFFER cannot be 'cpprb'; did you mean 'cpprb[MP]'?"),
        (["apex", "LOCK=all"], "LOCK cannot be 'all'; known: none, buffer, critical"),
        (["gate", "BASE=nonsense"], "BASE cannot be 'nonsense': name a revision, a wheel"),
        (["gate", "BASE=HEAD", "GATE_MINUTES=-1"], "GATE_MINUTES must be a number, at least 0.1, got '-1'"),
    ],
)
def test_other_variables_are_refused(words, said):
    called = [word for word in words if "=" not in word]
    found = targets.refusal(called, dict(word.split("=", 1) for word in words if "=" in word))
    assert said in f"{found}.  Stop."  # in the form in which make prints it


def test_make_refuses_with_the_same_message_and_runs_nothing():
    done = make("clean", "setup", "PROFILE=x")
    assert done.returncode == 2 and "PROFILE cannot be 'x'; known: quick, survey," in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [
            "bench",
            "MINUTES=2.5",
            "PEERS=cpprb, reverb[Writer]",
            "SUITES=memory,apex",
            "WORKLOAD=examples/workload.toml",
        ],
        ["bench", "ADAPTER=examples/gate_adapter.py", "PEERS=cpprb,the-name-in-that-file"],
        ["bench", "PEERS=all"],
        ["apex", "BUFFER=cpprb[MP]"],
        ["apex", "LOCK=critical", "MINUTES=0.5"],
        ["gate", "BASE=HEAD"],
        ["gate", "BASE=cpprb==11.0.0", "HEAD=dist/x.whl", "ADAPTER=examples/gate_adapter.py"],
        ["gate", "BASE=v1", "PROJECT=../mine", "ADAPTER=examples/gate_adapter.py"],
    ],
)
def test_values_that_can_be_used_are_accepted(words):
    done = make(*words)
    assert done.returncode == 0, done.stderr


def test_values_are_checked_without_any_installed_package():
    command = [sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, '.'); import suites.targets as it; "]
    command[-1] += "print(it.refusal(['bench'], {'PEERS': 'rlux'}), 'numpy' in sys.modules)"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "PEERS cannot be 'rlux'; did you mean 'rlox'? False\n"


@pytest.mark.parametrize("target", [target for target, _ in HELP])
def test_each_target_runs_something(target):
    done = make(target)
    assert done.returncode == 0 and done.stdout.strip() not in ("", "false"), done.stderr


def test_environment_variables_change_no_target(monkeypatch):
    usual = make("apex").stdout
    for name in ("ENV", "SECONDS", "HOSTS", "BUFFER"):
        monkeypatch.setenv(name, "x")
    assert make("apex").stdout == usual and "x" not in make("soak").stdout.split("--seconds")[1].split()[0]


def test_a_value_is_passed_to_the_program_unchanged():
    done = make("gate", "BASE=HEAD", "ONLY=add 1, it's $$HOME")
    assert shlex.split(done.stdout)[-2:] == ["--only", "add 1, it's $HOME"]


def test_r2d2_over_reverb_runs_where_reverb_is_installed():
    assert targets.command("r2d2", {"BUFFER": "reverb"}).startswith(".venv/bin/python -m suites.r2d2.with_reverb")
    assert targets.command("r2d2", {}).startswith(".peers/torch/bin/python -m suites.r2d2.train")


def test_bench_knows_the_profiles_of_the_suites():
    assert {*targets.PROFILES, "gate"} == set(profiles.PROFILES)


@pytest.mark.parametrize(
    ("variables", "is_built"),
    [
        (["PEERS=cpprb_impl,cpprb,rllib"], False),
        (["PEERS=all"], True),
        (["PEERS=cpprb_impl[TorchRL]"], True),
        (["PEERS=cpprb_impl[SB3]"], True),
        (["PROFILE=tiny"], True),
        (["PROFILE=tiny", "SUITES=latency,solve_time"], True),
        (["PROFILE=tiny", "SUITES=latency,memory"], False),
    ],
)
def test_our_buffer_is_built_for_pytorch_only_if_a_launch_imports_both(variables, is_built):
    """PEERS=cpprb_impl once installed 6.7 GB of PyTorch, and then failed because our buffer was not built for it."""
    done = make("--always-make", *variables, "bench", built=())
    assert done.returncode == 0, done.stderr
    assert ("building cpprb_impl for PyTorch" in done.stdout) == is_built
