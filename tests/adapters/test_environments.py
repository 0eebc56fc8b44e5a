"""Environments of their own: made as pinned, used once made, and a reason where one can't be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adapters import environments
from adapters.environments import NotInstalled
from adapters.registry import every, peer_class


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pins of an environment called "own", in a checkout that has no other."""
    monkeypatch.setattr(environments, "CHECKOUT", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path / ".peers")
    monkeypatch.setattr(environments, "PINS", tmp_path)
    file = tmp_path / "own.txt"
    file.write_text("")
    return file


def test_before_it_is_made_its_peers_have_a_reason(pins: Path) -> None:
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        environments.version("anything", "own")
    assert environments.python("own") == environments.python(None) == sys.executable


@pytest.mark.slow
def test_its_interpreter_and_its_libraries_are_its_own(pins: Path) -> None:
    environments.make("own")
    own = environments.python("own")
    prefix = subprocess.run([own, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert Path(prefix.stdout.strip()) == pins.parent / ".peers" / "own"
    assert environments.version("pip", "own")
    with pytest.raises(NotInstalled, match="cpprb-impl is not installed in its environment, 'own'"):
        environments.version("cpprb-impl", "own")


@pytest.mark.slow
def test_other_pins_make_it_anew(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environments.make("own")
    assert "installing" in capsys.readouterr().out
    environments.make("own")
    assert not capsys.readouterr().out
    pins.write_text("# another")
    assert environments.python("own") == sys.executable
    environments.make("own")
    assert "installing" in capsys.readouterr().out


@pytest.mark.slow
def test_what_pip_said_is_the_reason_where_it_cannot_be_made(pins: Path) -> None:
    pins.write_text("./no-such-wheel.whl\n")
    environments.make("own")
    with pytest.raises(NotInstalled, match=r"'own', could not be installed: .*no-such-wheel"):
        environments.version("anything", "own")
    pins.write_text("")
    environments.make("own")  # the next attempt forgets it
    assert environments.version("pip", "own")


@pytest.mark.slow
def test_its_warnings_are_not(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/no/such/folder")  # pip warns of it
    pins.write_text("no-such-thing==1.0\n")
    environments.make("own")
    with pytest.raises(NotInstalled) as refused:
        environments.version("anything", "own")
    assert "no-such-thing" in str(refused.value)
    assert "is ignored" not in str(refused.value)


@pytest.mark.slow
def test_what_comes_as_source_is_built_with_pinned_tools(pins: Path) -> None:
    (pins.parent / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    (pins.parent / "backend.py").write_text(
        f"import os\n\nopen({str(pins.parent / 'told')!r}, 'w').write(os.environ['PIP_CONSTRAINT'])\n"
    )
    pins.write_text(f"own @ file://{pins.parent}\n")
    environments.make("own")
    assert (pins.parent / "told").read_text() == pins.as_uri()


@pytest.mark.slow
def test_a_checkout_may_have_a_space_in_its_path(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = pins.parent / "a checkout"
    checkout.mkdir()
    for name, path in (("CHECKOUT", checkout), ("ROOT", checkout / ".peers"), ("PINS", checkout)):
        monkeypatch.setattr(environments, name, path)
    (checkout / "own.txt").write_text("")
    environments.make("own")
    assert environments.version("pip", "own")


@pytest.mark.slow
def test_one_whose_python_is_gone_is_made_anew(pins: Path) -> None:
    environments.make("own")
    (pins.parent / ".peers" / "own" / "bin" / "python").unlink()
    assert environments.python("own") == sys.executable
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        environments.version("pip", "own")
    environments.make("own")
    assert Path(environments.python("own")).exists()
    assert environments.version("pip", "own")


def test_where_nothing_can_be_written_that_is_said_and_no_more(pins: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pins.parent / ".peers").write_text("a file")
    environments.make("own")
    assert "the environment 'own' could not be installed: " in capsys.readouterr().err
    with pytest.raises(NotInstalled, match="'own', is not installed"):
        environments.version("pip", "own")


@pytest.mark.slow
def test_of_two_makes_at_once_one_waits_and_has_nothing_to_do(pins: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; from pathlib import Path; from adapters import environments as e; "
        "e.CHECKOUT = e.PINS = Path(sys.argv[1]); e.ROOT = e.PINS / '.peers'; e.make('own')"
    )
    command = [sys.executable, "-c", code, str(pins.parent)]
    both = [subprocess.Popen(command, cwd=Path(environments.__file__).parents[1]) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert capfd.readouterr().out.count("installing") == 1
    assert environments.version("pip", "own")


@pytest.mark.parametrize("name", every())
def test_every_environment_has_pins(name: str) -> None:
    environment = peer_class(name).environment
    assert environment is None or (environments.PINS / f"{environment}.txt").exists()


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert environments.main(["cpprbb"]) == 2
    assert "'cpprbb'" in capsys.readouterr().err


def test_only_what_is_named_needs_another_environment(monkeypatch):
    made = []
    monkeypatch.setattr(environments, "make", made.append)
    assert environments.main([]) == 0 and made == []
    assert environments.main(["cpprb_impl", "cpprb", "rllib", "reverb"]) == 0 and made == []
    assert environments.main(["stable-baselines3"]) == 0 and made == ["torch"]
