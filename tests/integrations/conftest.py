import importlib.util
import os
from pathlib import Path

import pytest

LIBRARIES = {"test_tf2rl.py": "tf2rl", "test_jax.py": "jax"}
HERE = Path(__file__).parent


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


# The tests of each library run in the venv of that library.
collect_ignore = [
    path.name for path in HERE.glob("test_*.py") if not _is_installed(LIBRARIES.get(path.name, "stable_baselines3"))
]

if _is_installed("torch"):
    # More threads would slow such small networks down, and more so while other tests run. PyTorch reads this when it is
    # imported, also in the programs that tests start.
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    """Return the folder into which Stable-Baselines3 writes the logs of all trainings of a test."""
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    return tmp_path / "logs"
