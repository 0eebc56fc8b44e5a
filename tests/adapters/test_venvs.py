"""Venvs of peers are installed as pinned and are reused; if one cannot be installed, the reason is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adapters import install, venvs
from adapters.registry import every, peer_class
from adapters.venvs import NotInstalled


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of pins of a venv called "own", in a checkout that has no other."""
    monkeypatch.setattr(venvs, "CHECKOUT", tmp_path)
    monkeypatch.setattr(venvs, "ROOT", tmp_path / ".peers")
    monkeypatch.setattr(venvs, "PINS", tmp_path)
    file = tmp_path / "own.txt"
    file.write_text("")
    return file


def test_peers_of_a_missing_venv_are_not_installed(pins: Path) -> None:
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        venvs.version("anything", "own")
    assert venvs.python("own") == venvs.python(None) == sys.executable


@pytest.mark.slow
def test_a_venv_has_its_own_interpreter_and_libraries(pins: Path) -> None:
    venvs.make("own")
    own = venvs.python("own")
    prefix = subprocess.run([own, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert Path(prefix.stdout.strip()) == pins.parent / ".peers" / "own"
    assert venvs.version("pip", "own")
    with pytest.raises(NotInstalled, match="cpprb-impl is not installed in its venv, 'own'"):
        venvs.version("cpprb-impl", "own")


@pytest.mark.slow
def test_a_venv_is_rebuilt_when_its_pins_change(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venvs.make("own")
    assert "installing" in capsys.readouterr().out
    venvs.make("own")
    assert not capsys.readouterr().out
    pins.write_text("# another")
    assert venvs.python("own") == sys.executable
    venvs.make("own")
    assert "installing" in capsys.readouterr().out


@pytest.mark.slow
def test_the_error_of_pip_is_reported_as_the_reason_for_a_missing_venv(pins: Path) -> None:
    pins.write_text("./no-such-wheel.whl\n")
    venvs.make("own")
    with pytest.raises(NotInstalled, match=r"'own', could not be installed: .*no-such-wheel"):
        venvs.version("anything", "own")
    pins.write_text("")
    venvs.make("own")  # the next attempt discards the reason
    assert venvs.version("pip", "own")


@pytest.mark.slow
def test_warnings_of_pip_are_not_reported_as_the_reason(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/no/such/folder")  # which pip warns about
    pins.write_text("no-such-thing==1.0\n")
    venvs.make("own")
    with pytest.raises(NotInstalled) as refused:
        venvs.version("anything", "own")
    assert "no-such-thing" in str(refused.value)
    assert "is ignored" not in str(refused.value)


@pytest.mark.slow
def test_source_packages_are_built_with_pinned_tools(pins: Path) -> None:
    (pins.parent / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (pins.parent / "backend.py").write_text(
        f"import os\n\nopen({str(pins.parent / 'told')!r}, 'w').write(os.environ['PIP_CONSTRAINT'])\n"
    )
    pins.write_text(f"own @ file://{pins.parent}\n")
    venvs.make("own")
    assert (pins.parent / "told").read_text() == pins.as_uri()


@pytest.mark.slow
def test_a_checkout_may_have_a_space_in_its_path(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = pins.parent / "a checkout"
    checkout.mkdir()
    for name, path in (("CHECKOUT", checkout), ("ROOT", checkout / ".peers"), ("PINS", checkout)):
        monkeypatch.setattr(venvs, name, path)
    (checkout / "own.txt").write_text("")
    venvs.make("own")
    assert venvs.version("pip", "own")


@pytest.mark.slow
def test_a_venv_without_its_python_is_rebuilt(pins: Path) -> None:
    venvs.make("own")
    (pins.parent / ".peers" / "own" / "bin" / "python").unlink()
    assert venvs.python("own") == sys.executable
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        venvs.version("pip", "own")
    venvs.make("own")
    assert Path(venvs.python("own")).exists()
    assert venvs.version("pip", "own")


def test_an_unwritable_folder_is_reported_without_a_traceback(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pins.parent / ".peers").write_text("a file")
    venvs.make("own")
    assert "the venv 'own' could not be installed: " in capsys.readouterr().err
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        venvs.version("pip", "own")


@pytest.mark.slow
def test_two_simultaneous_calls_of_make_install_a_venv_once(pins: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; from pathlib import Path; from adapters import venvs as e; "
        "e.CHECKOUT = e.PINS = Path(sys.argv[1]); e.ROOT = e.PINS / '.peers'; e.make('own')"
    )
    command = [sys.executable, "-c", code, str(pins.parent)]
    both = [subprocess.Popen(command, cwd=Path(venvs.__file__).parents[1]) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert capfd.readouterr().out.count("installing") == 1
    assert venvs.version("pip", "own")


@pytest.mark.parametrize("name", every())
def test_every_venv_has_pins(name: str) -> None:
    venv = peer_class(name).venv
    assert venv is None or (venvs.PINS / f"{venv}.txt").exists()


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["cpprbb"]) == 2
    assert "'cpprbb'" in capsys.readouterr().err


def test_only_the_venvs_of_named_peers_are_made(monkeypatch):
    made = []
    monkeypatch.setattr(venvs, "make", made.append)
    assert install.main([]) == 0 and made == []
    assert install.main(["cpprb_impl", "cpprb", "rllib", "reverb"]) == 0 and made == []
    assert install.main(["stable-baselines3"]) == 0 and made == ["torch"]
