"""glibc before 2.30, such as that of manylinux_2_28, has no pthread_mutex_clocklock()."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILER = shutil.which("c++") or shutil.which("g++")
MUTEX = HERE.parents[1] / "cpprb_impl/core/protocol/locks.hpp"
HIDDEN = ["-no-pie", "-Wl,--defsym=pthread_mutex_clocklock=0"]


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.skipif(not MUTEX.exists(), reason="needs the sources, which are not beside a build for sanitizers")
@pytest.mark.parametrize(("options", "falls_back"), [([], False), (HIDDEN, True)])
def test_a_robust_mutex_waits_on_either_glibc(options, falls_back, tmp_path):
    """Covers mutexes that are held, released, abandoned, or left by a process that died."""
    program = tmp_path / "old_glibc"
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # set by sanitizers
    wrap = "-Wl,--wrap=pthread_mutex_timedlock"
    command = [COMPILER, "-std=c++20", HERE / "old_glibc.cpp", wrap, *options, "-o", program, "-lpthread"]
    subprocess.run(command, check=True, timeout=200, env=plain)
    run = subprocess.run([program], capture_output=True, text=True, timeout=60, env=plain)
    assert run.returncode == 0, f"a check failed in old_glibc.cpp, in line {run.returncode} (modulo 256)"
    assert (int(run.stdout) > 0) == falls_back
