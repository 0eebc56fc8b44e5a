import importlib.util
import os
from pathlib import Path

import pytest

OF_TF2RL = "test_tf2rl.py"
HERE = Path(__file__).parent


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


# Each venv runs the tests of its own libraries.
collect_ignore = [
    path.name
    for path in HERE.glob("test_*.py")
    if not _is_installed("tf2rl" if path.name == OF_TF2RL else "stable_baselines3")
]

if _is_installed("torch"):
    # More threads would slow such small networks down, beside other tests all the more. PyTorch reads this when it is
    # imported, also in the programs that tests start.
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    """Return the folder that Stable-Baselines3 makes for the logs of a training, rather than a new one for each."""
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    return tmp_path / "logs"
