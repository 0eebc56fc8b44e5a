"""The gate can compare buffers of another project by its own adapter, and wheels or releases as sides."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reports.gate import __main__ as verdict
from results.analysis.verdict import HarnessError
from results.record import load
from suites.gate import __main__ as gate
from suites.gate import sources
from suites.gate.builds import Side
from suites.gate.measure import Gate
from suites.runner.driver import Interrupt
from tests.suites.conftest import CHECKOUT
from tests.suites.test_gate import QUICK_PIP, SAMPLE, git, repository, tree

__all__ = ["repository", "tree"]  # fixtures

RING = """\
import collections, random, time
TIMES = {times}
class Ring:
    def __init__(self, size):
        self.rows = collections.deque(maxlen=size)
    def add(self, row):
        self.rows.append(row)
    def sample(self, count):
        time.sleep(0.001 * TIMES)  # so long that noise decides nothing, and without a processor
        return random.choices(self.rows, k=count)
"""
ADAPTER = """\
import numpy as np
from adapters.base import Adapter, Step
from adapters.behaviours import Seed
from adapters.contract import Contract, Returns, RowFields, Stated, no
class Mine(Adapter):
    name, distribution, usage = "mine", "ring", "add and sample"
    contract = Contract(batch_add=no(), fields=Stated(RowFields.FIXED), priorities=no(), n_step=no(), disk=no(),
                        returns=Stated(Returns.ROWS), framework="none", licence="MIT", seed=Seed.GLOBAL)
    def __init__(self, spec):
        from ring import Ring
        self.fields, self.ring = spec.fields, Ring(spec.capacity)
    def add(self, steps):
        for obs, *others in steps:
            self.ring.add((obs.copy(), *others))
    def add_batch(self, columns, priorities=None):
        self.add(list(zip(*columns.values())))
    def sample(self, batch_size):
        columns = zip(*self.ring.sample(batch_size))
        return {name: np.array(each, self.fields[name].dtype) for name, each in zip(Step._fields, columns)}
    def __len__(self):
        return len(self.ring.rows)
"""
# Builds without packages from PyPI.
BACKEND = """\
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "ring-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("ring.py")
        wheel.writestr("ring-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: ring\\nVersion: 1.0\\n")
        wheel.writestr("ring-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("ring-1.0.dist-info/RECORD", "")
    open("left by the build", "w").close()
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "ring"\n'


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in {"ring.py": RING.format(times=1), "backend.py": BACKEND, "pyproject.toml": PROJECT}.items():
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "adapter.py").write_text(ADAPTER)
    return folder


def measured(
    surroundings, checkout: Path, project: Path, *arguments: str, pip: bool = True
) -> subprocess.CompletedProcess:
    fixed = [f"--only={SAMPLE}", "--out=run.json", f"--adapter={project / 'adapter.py'}"]
    command = [sys.executable, "-m", "suites.gate", *fixed, *arguments]
    variables = surroundings.variables | {"PYTHONPATH": "" if pip else str(QUICK_PIP)}
    return subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=180)


def test_an_unchanged_buffer_of_another_project_passes_and_the_project_is_not_modified(surroundings, tree, project):
    (project / "ring.py").write_text(RING.format(times=1) + "# a comment\n")
    before = sorted(project.iterdir())
    done = measured(surroundings, tree, project, f"--project={project}", "--base=main")
    assert done.returncode == 0, done.stderr
    assert verdict.main([str(tree / "run.json")]) == 0
    run = load(tree / "run.json")
    assert run.peer("head").version == run.peer("base").version + "+dirty"
    assert run.peer("head").usage == "add and sample"
    assert sorted(project.iterdir()) == before
    trees = subprocess.run(["git", "worktree", "list"], cwd=project, capture_output=True, text=True, check=True)
    assert len(trees.stdout.splitlines()) == 1


def test_an_uncommitted_slow_down_of_another_project_is_found(surroundings, tree, project, capsys):
    (project / "ring.py").write_text(RING.format(times=1.3))
    done = measured(surroundings, tree, project, f"--project={project}", "--base=main", pip=False)
    assert done.returncode == 0, done.stderr
    assert verdict.main([str(tree / "run.json")]) == 1
    assert f"worst {SAMPLE}: +" in capsys.readouterr().out


def test_builds_of_different_packages_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(Side, "build", lambda *_: None)
    monkeypatch.setattr(Side, "package", property(lambda side: side.name))
    sides = [Side(name, sources.parse("HEAD")) for name in ("base", "head")]
    with pytest.raises(HarnessError, match="base and head contain different packages: base, head"):
        Gate(sides, minutes=1).build(Interrupt())


def test_wheels_are_compared_without_a_checkout(surroundings, tree, project):
    for name in ("base", "head"):
        (project / name).mkdir()
    build = "import backend; backend.build_wheel('{}')"
    wrong = RING.format(times=1).replace("append(row)", "append((row[0] + 1, *row[1:]))")
    for name, ring in {"base": RING.format(times=1), "head": wrong}.items():
        (project / "ring.py").write_text(ring)
        subprocess.run([sys.executable, "-c", build.format(name)], cwd=project, check=True)
    wheels = {name: project / name / "ring-1.0-py3-none-any.whl" for name in ("base", "head")}
    done = measured(surroundings, tree, project, *(f"--{name}={wheel}" for name, wheel in wheels.items()))
    assert done.returncode == 0, done.stderr
    run = load(tree / "run.json")
    assert run.peer("base").version.startswith("ring-1.0-py3-none-any.whl, SHA-256 ")
    assert {record.peer: record.status for record in run.records} == {"base": "left_out", "head": "wrong"}
    assert str(project) not in (tree / "run.json").read_text().replace(run.command, "")


@pytest.mark.parametrize(
    ("text", "version"), [("cpprb==11.0.0", "cpprb==11.0.0"), (sources.WORKING_TREE, None), ("HEAD", None)]
)
def test_each_kind_of_side_is_recognized(text, version):
    source = sources.parse(text)
    assert isinstance(source, sources.Requirement) == ("==" in text)
    assert version is None or source.version == version


def test_a_changed_working_tree_is_copied_completely(tmp_path, monkeypatch, project):
    monkeypatch.setattr(sources, "TREE", tmp_path / "tree")
    (project / "ring.py").write_text("changed\n")
    (project / "backend.py").unlink()
    (project / "new").mkdir()
    (project / "new" / "a file").write_text("new\n")
    (project / "link").symlink_to("nowhere")
    with sources.parse(sources.WORKING_TREE, project).pip_arguments() as arguments:
        copy = Path(arguments[-1])
        assert copy == tmp_path / "tree"
        assert (copy / "ring.py").read_text() == "changed\n" and (copy / "new" / "a file").read_text() == "new\n"
        assert (copy / "link").readlink() == Path("nowhere")
        assert not (copy / "backend.py").exists() and (copy / "pyproject.toml").read_text() == PROJECT
    assert not (tmp_path / "tree").exists()


def test_make_passes_its_variables_to_the_gate():
    adapter = "examples/gate_adapter.py"
    options = ["BASE=v1", f"ADAPTER={adapter}", "PROJECT=../mine", f"PYTHON={sys.executable}"]
    command = ["make", "--dry-run", "gate", *options]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of make test
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True)
    said = done.stdout.splitlines()[-1].split()
    assert said == [".ci/gate", "'v1'", "--adapter", f"'{adapter}'", "--project", "'../mine'"], done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base=no-such.whl"], "no such wheel: no-such.whl"),
        (["--base=HEAD", "--project=."], "--project needs --adapter"),
        (["--base=HEAD", "--adapter={file}"], "also give --project, or a wheel or a release as base and as head"),
        (["--base=HEAD", "--adapter={file}", "--project=/nowhere"], "/nowhere is not the top folder of a git checkout"),
        (["--base=HEAD", "--adapter={file}", "--project={file}"], "adapter.py is not the top folder of a git checkout"),
        (["--base=HEAD", "--adapter=nothing.py"], "no such Python file: "),
    ],
)
def test_bad_arguments_are_harness_errors(arguments, said, capsys, monkeypatch, project):
    monkeypatch.setenv("REPLAYBENCH_ADAPTER", "")  # so that the change made by the gate is undone
    words = [each.format(file=project / "adapter.py") for each in arguments]
    monkeypatch.setattr("sys.argv", ["gate", *words])
    assert gate.main() == gate.HARNESS_ERROR
    assert said in capsys.readouterr().err


def test_the_error_for_an_unknown_revision_lists_what_can_be_named(project):
    with pytest.raises(
        HarnessError, match=r"no such revision: v9; name a revision, a wheel \(dist/x.whl\) or a release"
    ):
        sources.parse("v9", project)
