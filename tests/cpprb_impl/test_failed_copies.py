"""A long copy that runs out of memory, while it lets other Python threads run."""

from __future__ import annotations

import subprocess
import sys

import pytest

STACK = 1 << 18  # frames of 16 bytes: 4 of them are a long copy, and each needs 2 MiB for its frames' addresses
SCRIPT = """
import mmap, resource, threading
import numpy as np
from cpprb_impl import {kind}

def limit(bytes):
    resource.setrlimit(resource.RLIMIT_AS, (bytes, resource.RLIM_INFINITY))

buffer = {kind}(8, {{"a": {{"shape": (16, {stack}), "dtype": np.uint8}}}}, stack_compress="a")
buffer.add(a=np.zeros((16, {stack}), np.uint8))
out = {{"a": np.ones((4, 16, {stack}), np.uint8)}}
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * mmap.PAGESIZE
limit(used + (1 << 20))
try:
    buffer.sample(4, out=out)
except MemoryError:
    print("MemoryError")
limit(resource.RLIM_INFINITY)
other = threading.Thread(target=lambda: buffer.sample(4, out=out))
other.start()
other.join()
print(out["a"].max())
"""


@pytest.mark.parametrize("kind", ["ReplayBuffer", "MPReplayBuffer"])
def test_raises_and_leaves_the_buffer_usable(kind: str) -> None:
    script = SCRIPT.format(kind=kind, stack=STACK)
    ended = subprocess.run([sys.executable, "-c", script], timeout=120, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["MemoryError", "0"], "")
