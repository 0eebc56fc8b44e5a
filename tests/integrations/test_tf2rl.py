"""Algorithms of tf2rl, which is built on cpprb, run with our buffer under cpprb's name.

They need a separate venv, for TensorFlow and old versions of Gym and NumPy: `make test-old-integrations`.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.pages import programs

CHECKOUT = Path(__file__).resolve().parents[2]
ALGORITHMS = ("DQN", "DDPG", "SAC")


@functools.cache
def trained(*options: str) -> str:
    """Return what a training prints. Raises AssertionError with its errors if it fails."""
    command = [sys.executable, "-m", "tests.integrations.train_tf2rl", *options]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_weights_are_bit_identical(algorithm):
    """Here our buffer draws the same rows as cpprb, from NumPy's generator."""
    assert trained(algorithm, "--buffer", "cpprb_impl") == trained(algorithm, "--buffer", "cpprb")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_different_draws_yield_different_weights(algorithm):
    """A control for the test above."""
    assert trained(algorithm, "--buffer", "cpprb_impl", "--draws", "ours") != trained(algorithm, "--buffer", "cpprb")


@pytest.mark.parametrize("algorithm", ["DQN", "DDPG", "SAC with TD errors"])
def test_prioritized_replay_runs(algorithm):
    trained(algorithm, "--buffer", "cpprb_impl", "--prioritized")


def test_the_td_errors_of_sac_are_refused():
    """SAC computes an error for each pair of transitions; cpprb silently uses the first errors."""
    trained("SAC", "--buffer", "cpprb", "--prioritized")
    with pytest.raises(AssertionError, match="must have one value per index, got 1024 values for 32 indexes"):
        trained("SAC", "--buffer", "cpprb_impl", "--prioritized")


@pytest.mark.parametrize("buffer", ["cpprb", "cpprb_impl"])
def test_ape_x_runs(buffer):
    trained("DQN", "--buffer", buffer, "--apex")


@pytest.mark.parametrize("program", programs("tf2rl"))
def test_each_program_of_the_page_runs(program, tmp_path):
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
