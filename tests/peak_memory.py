"""Measures how much memory a call needs at most, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAD = """
import copy, gc, pickle, sys
import numpy as np

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith(key)).split()[1])

def measured(call):
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark falls to what is in use now
    before = status("VmRSS")
    kept = call()
    print(status("VmHWM") - before)
"""


def extra_bytes(script: str, *arguments: str) -> int:
    """Return how far the high-water mark of memory rises in the call of `measured` in a script."""
    command = [sys.executable, "-c", HEAD + script, *arguments]
    root = Path(__file__).parents[1]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)
