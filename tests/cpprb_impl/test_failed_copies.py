"""Calls that run out of memory: a long copy during which other Python threads run, and an add of compressed frames."""

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
def test_a_failed_copy_leaves_the_buffer_usable(kind: str) -> None:
    script = SCRIPT.format(kind=kind, stack=STACK)
    ended = subprocess.run([sys.executable, "-c", script], timeout=120, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["MemoryError", "0"], "")


ADDING = """
import mmap, resource
import numpy as np
from cpprb_impl import ReplayBuffer

fields = {"obs": {"shape": (4, 512, 512), "dtype": np.uint8}}
buffer = ReplayBuffer(64, fields, stack_compress={"obs": 0}, compress="lz4", seed=0)
noise = np.random.default_rng(0).integers(0, 256, (40, 4, 512, 512), np.uint8)
buffer.add(obs=noise[:2])
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + (12 << 20), resource.RLIM_INFINITY))
try:
    buffer.add(obs=noise[2:])
except MemoryError:
    print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert buffer.get_stored_size() == 2
buffer.add(obs=noise[2:20])
assert (buffer.get_all_transitions()["obs"] == noise[:20]).all()
print("unchanged")
"""


def test_an_add_without_memory_changes_nothing():
    ended = subprocess.run([sys.executable, "-c", ADDING], timeout=120, capture_output=True, text=True, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["MemoryError", "unchanged"], "")
