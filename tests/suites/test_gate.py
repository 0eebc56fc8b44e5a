"""The gate's measurement, in a small copy of the checkout whose package is one line and builds in a second."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

from reports.gate import __main__ as verdict
from results.analysis.verdict import HarnessError
from results.record import load
from suites.gate import __main__ as gate
from suites.gate import builds, measure, room
from suites.gate.builds import Side
from suites.gate.launches import Pair
from suites.gate.sources import Checkout, parse
from suites.runner.driver import Interrupt
from tests.suites.conftest import CHECKOUT, SHIM

# Builds without packages from PyPI, and without CMake; the gate in .ci/run builds the real package.
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "cpprb-impl"
"""
BACKEND = """\
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "cpprb_impl-0-py3-none-any.whl", "cpprb_impl-0.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("cpprb_impl/__init__.py")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: cpprb-impl\\nVersion: 0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
SAMPLE = "sample 32 on CartPole-v1"
QUICK_PIP = Path(__file__).resolve().parent / "quick_pip"
RUN = (sys.executable, "-m", "suites.gate", "--peers=cpprb_impl", f"--only={SAMPLE}", "--out=run.json")


def git(tree: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *author, *arguments], cwd=tree, check=True, capture_output=True)


@pytest.fixture(scope="session")
def repository(tmp_path_factory) -> Path:
    """Return a repository at a good commit, preceded by one that does not build. It contains our recordings and
    compiled modules, so that a gate neither records nor compiles anything again."""
    tree = tmp_path_factory.mktemp("gate") / "checkout"
    for folder in ("adapters", "suites", "results", "reports"):
        ignored = shutil.ignore_patterns("runs", "reference", "machines", "out", "*.pyc.*")  # the last are incomplete
        shutil.copytree(CHECKOUT / folder, tree / folder, ignore=ignored)
    (tree / ".cache").symlink_to(CHECKOUT / ".cache")
    spec = tree / "suites" / "throughput" / "spec.py"
    spec.write_text(spec.read_text().replace("100_000", "1_000"))  # rows with which a launch fills its buffer
    (tree / "cpprb_impl").mkdir()
    change(tree, BUILD="base", TIMES=1)
    (tree / "backend.py").write_text(BACKEND)
    (tree / ".gitignore").write_text(".gate/\n.cache\n__pycache__/\nrun.json\n")
    (tree / "pyproject.toml").write_text("[build-system]\nrequires = []\nbuild-backend = 'none.of.that'\n")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "does not build")
    (tree / "pyproject.toml").write_text(PROJECT)
    git(tree, "commit", "-q", "-a", "-m", "good")
    return tree


@pytest.fixture
def tree(surroundings, repository) -> Path:
    """A copy of the repository."""
    tree = surroundings.folder / "checkout"
    subprocess.run(["cp", "-a", repository, tree], check=True)
    return tree


def change(tree: Path, **values: object) -> None:
    lines = [f"{name} = {value!r}\n" for name, value in values.items()]
    (tree / "cpprb_impl" / "__init__.py").write_text("".join(lines))


def start(
    surroundings, tree: Path, *arguments: str, peer: str = "records-build", pip: bool = False
) -> subprocess.Popen:
    # The checkout is not on PYTHONPATH, where it would hide the package that was built.
    path = str(SHIM) if pip else f"{SHIM}:{QUICK_PIP}"
    variables = surroundings.variables | {"PYTHONPATH": path, "FAULTY_PEERS": f"cpprb_impl={peer}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*RUN, *arguments], cwd=tree, env=variables, **pipes)


def gated(surroundings, tree: Path, capsys, peer: str) -> tuple[int, str]:
    """Measure and judge the working tree against the last commit; return the status and the output."""
    process = start(surroundings, tree, "--base=HEAD", "--minutes=2", peer=peer)
    _, errors = process.communicate(timeout=180)
    if process.returncode:
        return process.returncode, errors
    status = verdict.main([str(tree / "run.json")])
    return status, capsys.readouterr().out


def worktrees(tree: Path) -> list[str]:
    listed = subprocess.run(["git", "worktree", "list"], cwd=tree, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_an_unchanged_build_passes_and_each_side_measures_its_own_build(surroundings, tree, capsys):
    change(tree, BUILD="head", TIMES=1)
    process = start(surroundings, tree, "--base=HEAD", pip=True)
    output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "to profile it: perf record" in output and "1 of 1 decided" in output
    run = load(tree / "run.json")
    assert run.kind == "gate" and [peer.name for peer in run.peers] == ["base", "head"]
    assert run.peer("head").version == run.peer("base").version + "+dirty" == run.revision
    launches = [len(record.samples) for record in run.records]
    assert all(record.ok for record in run.records) and launches[0] == launches[1] < 40
    built = surroundings.flag.read_text().split()
    assert built.count("base") == built.count("head") == launches[0]
    assert len(worktrees(tree)) == 1
    assert verdict.main([str(tree / "run.json")]) == 0


@pytest.mark.slow
def test_a_slow_down_is_found(surroundings, tree, capsys):
    change(tree, BUILD="head", TIMES=1.3)
    status, said = gated(surroundings, tree, capsys, peer="slow-build")
    assert status == 1 and f"worst {SAMPLE}: +" in said


def test_a_head_that_returns_wrong_answers_is_a_regression(surroundings, tree, capsys):
    """Both sides are revisions here; neither is the working tree."""
    change(tree, BUILD="mixes")
    git(tree, "commit", "-q", "-a", "-m", "second")
    change(tree, BUILD="crashes")
    process = start(surroundings, tree, "--base=HEAD~1", "--head=HEAD", peer="wrong-build")
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert verdict.main([str(tree / "run.json")]) == 1 and "wrong: " in capsys.readouterr().out
    run = load(tree / "run.json")
    assert run.peer("head").version == run.revision != run.peer("base").version
    assert {record.peer: record.status for record in run.records} == {"base": "left_out", "head": "wrong"}


def test_a_head_that_crashes_is_a_regression(surroundings, tree, capsys):
    change(tree, BUILD="crashes")
    status, said = gated(surroundings, tree, capsys, peer="wrong-build")
    assert status == 1 and "SIGSEGV" in said


def test_a_base_that_crashes_is_a_harness_error(surroundings, tree, capsys):
    change(tree, BUILD="crashes")
    git(tree, "commit", "-q", "-a", "-m", "crashes")
    change(tree, BUILD="head")
    status, said = gated(surroundings, tree, capsys, peer="wrong-build")
    assert status == 3 and "of base on CartPole-v1" in said and "SIGSEGV" in said


def test_identical_builds_pass_without_a_measurement(surroundings, tree):
    (tree / "README.md").write_text("Only a page has changed.")
    process = start(surroundings, tree, "--base=HEAD")
    output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert output.splitlines()[-1].startswith("PASS: what is installed is identical") and "decided" not in output
    assert not (tree / "run.json").exists() and not surroundings.flag.exists()
    assert (tree / "run.md").read_text().startswith("**PASS: what is installed is identical")


def test_the_error_for_a_shallow_clone_names_the_remedy(tree, tmp_path):
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tree}", "shallow")
    with pytest.raises(HarnessError, match="no such revision: HEAD~1; this clone is shallow: run `git fetch"):
        parse("HEAD~1", tmp_path / "shallow")
    with pytest.raises(HarnessError, match="no such revision: HEAD~9; name a revision, a wheel"):
        parse("HEAD~9", tree)


def test_the_error_for_a_mistyped_benchmark_lists_similar_ones():
    known = ["add 1 on CartPole-v1", "add 100 on CartPole-v1", "sample 32 on CartPole-v1"]
    assert measure._near("add 1", known) == known[:2]
    assert measure._near("sampel 32 on CartPole", known)[0] == known[2]


def test_each_launch_loads_the_library_into_different_memory_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "FOLDER", tmp_path)
    side = Side("head", Checkout("revision"))
    wheel = tmp_path / "head" / "wheel" / "cpprb_impl-0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("cpprb_impl/__init__.py", "")
    library = side.site_packages / "cpprb_impl" / "_native.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"code")
    before = library.stat()
    side.renew()
    assert library.read_bytes() == b"code" and library.stat().st_ino != before.st_ino
    assert list(library.parent.iterdir()) == [library]


def test_object_files_are_linked_in_a_different_order():
    command = ["g++", "-shared", "-o", "x.so", *(f"{name}.o" for name in "abcdefgh"), "-lrt"]
    one, same, other = (builds._shuffled(command, seed, Path("y.so")) for seed in (1, 1, 2))
    assert one == same != other and sorted(one[4:-1]) == sorted(other[4:-1]) == command[4:-1]
    assert one[:4] == ["g++", "-shared", "-o", "y.so"] and one[-1] == "-lrt"


def test_a_base_that_does_not_build_is_a_harness_error(surroundings, tree):
    process = start(surroundings, tree, "--base=HEAD~1", pip=True)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == gate.HARNESS_ERROR
    assert "base" in errors and "does not build" in errors
    assert "No module named 'none'" in errors or "Cannot import 'none.of.that'" in errors  # depends on pip's version
    assert len(worktrees(tree)) == 1


def test_an_interrupted_build_leaves_nothing_behind(surroundings, tree):
    process = start(surroundings, tree, "--base=HEAD", pip=True)
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
        (["--base=HEAD", "--head=no-such-branch"], "no such revision: no-such-branch"),
        (["--base=HEAD", "--minutes=0"], "must be a number of minutes"),
        (["--base=HEAD", "--peers=nobody"], "unknown peer 'nobody'"),
        ([], "--base"),
    ],
)
def test_bad_arguments_are_harness_errors(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gate", *arguments])
    assert gate.main() == gate.HARNESS_ERROR
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "run.json"), "cannot continue: [Errno 28] No space left on device"),
        (ZeroDivisionError("anything else"), "ZeroDivisionError: anything else"),
    ],
)
def test_any_other_error_is_a_harness_error_rather_than_a_regression(error, said, capsys, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(gate, "measure", fail)
    monkeypatch.setattr(sys, "argv", ["gate", "--base=HEAD"])
    assert gate.main() == gate.HARNESS_ERROR
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("full", [room.SHARED_MEMORY, Path(tempfile.gettempdir())])
def test_a_full_disk_is_a_harness_error_that_says_where(full, monkeypatch):
    usage = shutil.disk_usage(full)
    monkeypatch.setattr(
        room.shutil, "disk_usage", lambda folder: usage._replace(free=1000 if folder == full else 2**30)
    )
    with pytest.raises(HarnessError, match=f"{full} must have 20 MiB free, got 0.0 MiB: make room there"):
        room.check_room()


def test_a_disk_that_fills_up_during_a_gate_is_a_harness_error(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "check_room", lambda: (_ for _ in ()).throw(HarnessError("no room")))
    monkeypatch.setattr(Pair, "measure", lambda _pair, _wanted, _block, _folder, tick: tick())
    sides = [Side(name, Checkout("")) for name in ("base", "head")]
    with pytest.raises(HarnessError, match="no room"):
        measure.Gate(sides, minutes=1).measure(tmp_path / "run.json", Interrupt())
    assert load(tmp_path / "run.json").finished


def test_an_unknown_benchmark_is_reported_before_anything_is_built(capsys, monkeypatch):
    monkeypatch.setattr(Side, "build", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(sys, "argv", ["gate", "--base=HEAD", "--only=sampel 32 on CartPole-v1"])
    assert gate.main() == gate.HARNESS_ERROR
    said = capsys.readouterr()
    assert f"there is no benchmark 'sampel 32 on CartPole-v1'; choose from: {SAMPLE}" in said.err and not said.out
