"""Measure the peak memory of calls, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HEAD = """
import copy, ctypes, gc, json, os, pickle, sys, traceback
import numpy as np

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * int(next(line for line in file if line.startswith(key)).split()[1])

def in_use():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was released before is not reused
    return status("VmRSS")

def rise(call):
    # How far the high-water mark of memory rises in a call, in bytes, and what the call returned.
    before = in_use()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark falls to what is in use now
    result = call()
    return status("VmHWM") - before, result

def in_child(call):
    # Return what a call returns in a forked process, whose memory is not fragmented by earlier calls.
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writing, json.dumps(call()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, ended = os.wait()
    assert ended == 0
    return json.loads(text)
"""
# Larger allocations are returned to the system when freed, so that memory that a call no longer needs does not count.
THRESHOLD = 1 << 20  # bytes


def bytes_needed(script: str, *arguments: str) -> dict[str, dict[str, int]]:
    """Return figures by kind of buffer, which the script measures with `rise` and prints as JSON."""
    command = [sys.executable, "-c", HEAD + script, *arguments]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(THRESHOLD)},
    )
    assert ended.returncode == 0, ended.stderr
    figures: dict[str, dict[str, int]] = json.loads(ended.stdout)
    return figures
