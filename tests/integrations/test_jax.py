"""The program with JAX in docs/using.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

PAGE = (Path(__file__).resolve().parents[2] / "docs/using.md").read_text(encoding="utf-8")
(PROGRAM,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import jax" in each]


def test_the_program_runs(tmp_path):
    (tmp_path / "program.py").write_text(f"{PROGRAM}\nprint(loss.shape)", encoding="utf-8")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "()\n"), done.stderr


def test_its_scan_equals_a_loop_over_the_steps_of_each_episode():
    names: dict = {}
    exec(PROGRAM, names)
    batch = names["buffer"].sample_sequences(64)
    assert not batch["mask"][:, 0].all() and not batch["mask"][:, -1].all()  # burn-in and ends that are padded
    values = names["values"](
        names["weights"], *(np.ascontiguousarray(batch[name].swapaxes(0, 1)) for name in ("obs", "is_first"))
    )
    cell, bias, head = (np.asarray(names["weights"][name]) for name in ("cell", "bias", "head"))
    burn_in = names["BURN_IN"]
    for number, mask in enumerate(batch["mask"]):
        state = np.zeros(len(head), np.float32)
        for step in np.flatnonzero(mask):
            state = np.tanh(np.concatenate([batch["obs"][number, step], state]) @ cell + bias)
            if step >= burn_in:
                np.testing.assert_allclose(values[step - burn_in, number], state @ head, rtol=1e-4, atol=1e-5)
