"""Stable-Baselines3's published tests pass with our replay buffers in place of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Tests that may fail, with the reason. The list is empty today.
EXPECTED: dict[str, str] = {}
# PPO and A2C have no replay buffer, and the large model is saved without one.
SELECTED = "not PPO and not A2C and not large_model"
# A buffer sees the kind of actions but not the algorithm. DQN's actions are discrete; those of SAC, TD3 and DDPG are
# continuous. Nor does a buffer see which processes run the environments.
QUICK = f"{SELECTED} and not TD3 and not DDPG and not multiprocessing"
OTHERS = f"{SELECTED} and (TD3 or DDPG or multiprocessing)"
FILES = ["test_buffers", "test_dict_env", "test_her", "test_n_step_replay", "test_save_load", "test_spaces"]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tests of the installed version, from its source archive, since wheels lack them."""
    folder, found = tmp_path_factory.mktemp("sb3"), version("stable-baselines3")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    exactly = ["--no-deps", "--no-binary", ":all:", f"stable-baselines3=={found}"]
    subprocess.run([*pip, "--dest", folder, *exactly], check=True, timeout=300)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        members = [each for each in source.getmembers() if each.name.split("/")[1:2] == ["tests"]]
        source.extractall(folder, members=members, filter="data")
    (folder / "empty.ini").write_text("[pytest]\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("selected", "files"),
    [
        pytest.param(QUICK, FILES, id="quick"),
        pytest.param(OTHERS, FILES[1:], id="others", marks=pytest.mark.slow),
    ],
)
def test_the_published_tests_pass_with_our_buffers(selected, files, suite):
    (folder,) = suite.glob("*/tests")
    plugins = ["-p", "tests.integrations.sb3_suite.swap", "-p", "no:cacheprovider"]
    options = ["-q", "-rA", "-c", suite / "empty.ini", "--rootdir", folder, "-k", selected]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, *(f"{file}.py" for file in files)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    failed = {each.split("::", 1)[1] for each in re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)}
    expected = {name for name in EXPECTED if name in done.stdout}
    assert failed == expected, done.stdout[-5000:]
    assert {file for file in files if f"PASSED {file}.py::" in done.stdout} == {*files}
    assert re.search(r"made [1-9]\d* of our buffers", done.stdout), done.stdout[-2000:] + done.stderr[-2000:]
    assert done.returncode == (1 if failed else 0)
