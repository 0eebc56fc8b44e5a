"""`make new-peer`: its skeleton passes lint and is listed, and passes no conformance test until it is completed."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import new_peer, registry

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a separate checkout with what adapters and their tests need."""
    for part in ("adapters", "tests", "suites", "results", "pyproject.toml"):
        source, target = CHECKOUT / part, tmp_path / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "runs", "reference"))
        else:
            shutil.copy(source, target)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=folder, capture_output=True, text=True, timeout=240)


def test_a_new_peer_passes_lint_and_fails_conformance_until_written(copy: Path) -> None:
    made = run(copy, "adapters.new_peer", "ring-of-ours")
    assert made.returncode == 0, made.stderr
    written = ("adapters/peers/ring_of_ours.py", "adapters/catalog.py")
    assert run(copy, "ruff", "check", *written).stdout.strip() == "All checks passed!"
    assert run(copy, "ruff", "format", "--check", *written).returncode == 0
    listed = run(copy, "adapters.install", "ring-of-ours")
    assert listed.returncode == 0, listed.stderr
    tests = run(
        copy,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/adapters/test_conformance.py",
        "--peer=ring-of-ours",
        "-k",
        "ring-of-ours",
    )
    assert tests.returncode == 1 and re.search(r"\d+ failed", tests.stdout), tests.stdout
    assert not re.search(r"passed|skipped", tests.stdout.splitlines()[-1]), tests.stdout


def test_a_peer_may_have_a_venv_of_its_own(copy: Path) -> None:
    assert run(copy, "adapters.new_peer", "elsewhere", "own").returncode == 0
    assert 'venv = "own"' in (copy / "adapters" / "peers" / "elsewhere.py").read_text()


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("", "NAME must be the name"),
        ("Ring", "NAME must be lower-case letters"),
        ("a b", "NAME must be lower-case letters"),
        ("../ring", "NAME must be lower-case letters"),
        ("ring[memmap]", "NAME must be lower-case letters"),
        ("cpprb", "which is already listed in adapters/catalog.py"),
        ("stable_baselines3", "adapters/peers/stable_baselines3.py already exists"),
        ("chainerrl_style", "adapters/peers/chainerrl_style already exists"),
    ],
)
def test_an_invalid_or_existing_name_is_refused(name: str, trouble: str, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.read_bytes() for path in new_peer.HERE.rglob("*.py")}
    assert new_peer.main([name] if name else []) == 2
    assert trouble in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in new_peer.HERE.rglob("*.py")}


@pytest.mark.parametrize("name", registry.every())
def test_existing_peers_contain_no_placeholders(name: str) -> None:
    module = sys.modules[registry.peer_class(name).__module__]
    assert "TODO" not in inspect.getsource(module)
