"""An adapter in a file of another project becomes a peer, and a bad file is refused with a reason."""

import subprocess
import sys
from pathlib import Path

import pytest

from adapters import external, registry
from results import load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gate_adapter.py"
ADAPTER = "from adapters.base import Adapter\nclass Mine(Adapter):\n    name = 'mine'\n"


def test_the_example_is_a_peer_if_the_environment_variable_names_it(monkeypatch):
    assert "sb3" not in registry.every()
    monkeypatch.setenv(external.VARIABLE, str(EXAMPLE))
    assert "sb3" in registry.alone() and registry.chosen(["sb3"]) == ["sb3"] and "sb3" in registry.chosen([])
    assert registry.chosen(["rlox"]) == ["rlox", "sb3"]
    assert registry.adapter_class("sb3").distribution == "stable-baselines3"
    assert registry.describe("sb3").usage.startswith("ReplayBuffer.add")


def test_an_external_peer_is_measured_together_with_the_others(tmp_path):
    file, out = tmp_path / "mine.py", tmp_path / "run.json"
    base = "from adapters.peers.baselines_style import BaselinesStyle"
    file.write_text(f"{base}\nclass Mine(BaselinesStyle):\n    name = 'mine'\n")
    chosen = ["--profile=tiny", "--suites=throughput", "--workloads=Pendulum-v1", "--peers=baselines-style"]
    command = [sys.executable, "-m", "suites.run", *chosen, f"--adapter={file}", f"--out={out}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLE.parents[1])
    assert done.returncode == 0, done.stderr
    measured = {record.peer for record in load(out).records if record.ok}
    assert measured == {"mine", "baselines-style"}
    done = subprocess.run([*command[:-2], "--adapter=none.py"], capture_output=True, text=True, cwd=EXAMPLE.parents[1])
    assert done.returncode == 2 and "no such Python file" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such Python file"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("from adapters.base import Adapter\n", "must define one subclass of adapters.base.Adapter, but defines: none"),
        (ADAPTER + "class Other(Mine): pass\n", "but defines: Mine, Other"),
        (ADAPTER, "Mine lacks distribution, usage, contract"),
        (
            ADAPTER + "    distribution = usage = contract = None\n    environment = 'torch'\n",
            "Mine.environment must be named venv",
        ),
        (
            ADAPTER + "    distribution = usage = contract = None\n    name = 'cpprb'\n",
            "an adapter's name must differ from the names of this project's peers, got 'cpprb'",
        ),
    ],
)
def test_a_bad_file_is_refused(text, said, monkeypatch, tmp_path):
    file = tmp_path / "adapter.py"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv(external.VARIABLE, str(file))
    with pytest.raises(external.BadAdapter, match=said):
        registry.every()
