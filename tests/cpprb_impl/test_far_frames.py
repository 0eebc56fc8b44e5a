"""More than 2^32 frames at a time: `make long-files` stores that many, while this test only requests their numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("c++") or shutil.which("g++")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_frames_far_apart_have_distinct_numbers(tmp_path) -> None:
    """With 32-bit numbers, the older row returned the newer row's frame."""
    program = tmp_path / "far_frames"
    core = HERE.parents[1] / "cpprb_impl/core/rows"
    sources = [HERE / "far_frames.cpp", *(core / name for name in ("frames.cpp", "compressed_frames.cpp", "lz4.cpp"))]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # set by sanitizers
    subprocess.run([COMPILER, "-std=c++20", *sources, "-o", program], check=True, timeout=200, env=plain)
    run = subprocess.run([program], capture_output=True, text=True, timeout=60, env=plain)
    early, late = map(int, run.stdout.split())
    assert run.returncode == 0 and late - early == 2**32
