"""The gate's measurement, in a small copy of the checkout whose package is one line and builds in a second."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.record import load
from suites import gate
from tests.suites.conftest import CHECKOUT, SHIM

PROJECT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "cpprb-impl"
version = "0"
"""
CMAKE = "cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\ninstall(DIRECTORY cpprb_impl DESTINATION .)\n"
# Two launches per side show as well as eight that each side measures its own build.
FEW = "import sys; from suites import gate; gate.FEWEST_LAUNCHES = 2; sys.exit(gate.main())"
RUN = (sys.executable, "-c", FEW, "--launches=2", "--profile=tiny", "--workloads=CartPole-v1", "--out=run.json")


def git(tree: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *author, *arguments], cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(surroundings) -> Path:
    """A repository at a good commit after one that does not build, with a changed working tree."""
    tree = surroundings.folder / "checkout"
    for room in ("adapters", "suites", "results"):
        ignored = shutil.ignore_patterns("runs", "reference", "__pycache__")
        shutil.copytree(CHECKOUT / room, tree / room, ignore=ignored)
    (tree / "cpprb_impl").mkdir()
    package = tree / "cpprb_impl" / "__init__.py"
    package.write_text("BUILD = 'base'\n")
    (tree / "CMakeLists.txt").write_text(CMAKE)
    (tree / ".gitignore").write_text(".gate/\n.cache/\n__pycache__/\nrun.json\n")
    (tree / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'none.of.that'\n")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "does not build")
    (tree / "pyproject.toml").write_text(PROJECT)
    git(tree, "commit", "-q", "-a", "-m", "good")
    package.write_text("BUILD = 'head'\n")
    return tree


def start(surroundings, tree: Path, *arguments: str) -> subprocess.Popen:
    # The checkout stays off PYTHONPATH: there it would hide the package that was built.
    variables = surroundings.variables | {"PYTHONPATH": str(SHIM), "FAULTY_PEERS": "cpprb_impl=records-build"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*RUN, *arguments], cwd=tree, env=variables, **pipes)


def worktrees(tree: Path) -> list[str]:
    listed = subprocess.run(["git", "worktree", "list"], cwd=tree, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@pytest.mark.slow
def test_each_side_measures_its_own_build(surroundings, tree):
    process = start(surroundings, tree, "--base=HEAD")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    run = load(tree / "run.json")
    assert run.kind == "gate" and [peer.name for peer in run.peers] == ["base", "head"]
    assert run.peer("head").version == run.peer("base").version + "+dirty" == run.revision
    assert all(record.ok and len(record.samples) == 2 for record in run.records) and len(run.records) == 26
    built = surroundings.flag.read_text().split()
    assert (
        built.count("base") == built.count("head") == 6
    )  # in each of two launches a uniform buffer and two prioritized ones
    assert len(worktrees(tree)) == 1


def test_each_launch_gets_the_library_in_other_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "FOLDER", tmp_path)
    side = gate.Side("head", "revision")
    library = side.site_packages / gate.PACKAGE / "_native.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"code")
    before = library.stat()
    gate.renew(side)
    assert library.read_bytes() == b"code" and library.stat().st_ino != before.st_ino
    assert list(library.parent.iterdir()) == [library]


def test_a_base_that_does_not_build_is_a_harness_error(surroundings, tree):
    process = start(surroundings, tree, "--base=HEAD~1")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == gate.HARNESS_ERROR
    assert "base" in errors and "does not build" in errors and "No module named 'none'" in errors
    assert len(worktrees(tree)) == 1


def test_an_interrupted_build_leaves_nothing_behind(surroundings, tree):
    process = start(surroundings, tree, "--base=HEAD")
    while not (tree / ".gate" / "tree").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(worktrees(tree)) == 1 and not (tree / ".gate" / "tree").exists()
    assert surroundings.leftovers() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base=no-such-branch"], "no such revision: no-such-branch"),
        (["--base=HEAD", "--launches=7"], "at least 8"),
        (["--base=HEAD", "--workloads=Pong"], "known: ALE/Seaquest-v5"),
        ([], "--base"),
    ],
)
def test_bad_arguments_are_harness_errors(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gate", *arguments])
    assert gate.main() == gate.HARNESS_ERROR
    assert said in capsys.readouterr().err
