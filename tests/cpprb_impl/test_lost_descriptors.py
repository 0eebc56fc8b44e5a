"""Other code may close every descriptor, as daemons do, and reuse the numbers for its own files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpprb_impl import MPReplayBuffer

SHM = Path("/dev/shm")
pytestmark = pytest.mark.timeout(120)

BEGIN = """
import os, sys
import numpy as np
from cpprb_impl import MPReplayBuffer, ReplayBuffer
from tests.cpprb_impl.framed_rows import ENV_DICT, OPTIONS, numbered, rows, torn

OTHERS = range(3, 60)

def lose_descriptors():
    os.closerange(3, 4096)
    users = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    for number in OTHERS:
        if number != users:
            os.dup2(users, number)

def check_others():
    assert os.stat(sys.argv[1]).st_size == 0
    for number in OTHERS:
        os.fstat(number)
"""
FRAMES = """
buffer = MPReplayBuffer(20_000, ENV_DICT, **OPTIONS)
"""
ADD_AND_CLOSE = """
before = buffer.nbytes
for first in range(0, 20_000, 1000):
    buffer.add(**rows(numbered(first * 10, 1000)))
assert buffer.nbytes > before
batch = buffer.get_all_transitions()
assert len(batch["id"]) == 20_000 and torn(batch) == 0
check_others()
buffer.close()
check_others()
"""


def run(script: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", script, str(tmp_path / "users")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_frames_are_added_after_all_descriptors_were_closed(tmp_path):
    run(BEGIN + FRAMES + "lose_descriptors()\n" + ADD_AND_CLOSE, tmp_path)


def test_frames_are_added_even_without_descriptors_and_name(tmp_path):
    run(BEGIN + FRAMES + "lose_descriptors(); os.unlink('/dev/shm' + buffer.segment)\n" + ADD_AND_CLOSE, tmp_path)


def test_no_descriptor_replaces_a_closed_standard_stream(tmp_path):
    """A daemon without standard streams would print into the buffer."""
    script = """
lose_descriptors()
for number in (0, *OTHERS):
    os.close(number)
buffer.add(**rows(numbered(0, 1000)))
try:
    os.fstat(0)
except OSError:
    pass
else:
    sys.exit("the buffer has opened its segment as standard input")
"""
    run(BEGIN + FRAMES + script, tmp_path)


def test_frames_in_a_file_are_added_after_all_descriptors_were_closed(tmp_path):
    script = f"""
buffer = ReplayBuffer(20_000, ENV_DICT, mmap_prefix={str(tmp_path / "rows")!r}, **OPTIONS)
lose_descriptors()
for first in range(0, 20_000, 1000):
    buffer.add(**rows(numbered(first * 10, 1000)))
batch = buffer.get_all_transitions()
assert len(batch["id"]) == 20_000 and torn(batch) == 0
check_others()
del buffer, batch
check_others()
"""
    run(BEGIN + script, tmp_path)


LIVES = (
    BEGIN
    + FRAMES
    + """
lose_descriptors()
print(buffer.segment, flush=True)
sys.stdin.read()
"""
)


@pytest.mark.parametrize("watched", [True, False])
def test_the_segment_remains_while_it_is_used(tmp_path, watched):
    """The watchdog of the maker sees that its pipe is closed, and the next maker removes segments without a lock."""
    no_shell = "" if watched else "import cpprb_impl.processes.watchdog as w; w.SHELL = '/no/shell'\n"
    command = [sys.executable, "-c", no_shell + LIVES, str(tmp_path / "users")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        try:
            segment = maker.stdout.readline().strip()
            assert (SHM / segment.strip("/")).exists()
            MPReplayBuffer(4, {"x": {}}).close()  # making a buffer removes abandoned segments
            assert (SHM / segment.strip("/")).exists()
            time.sleep(0.5)  # long enough for a shell that trusts its pipe to remove it
            attached = MPReplayBuffer.attach(segment)
            attached.close()
        finally:
            maker.kill()
    MPReplayBuffer(4, {"x": {}}).close()
    assert not (SHM / segment.strip("/")).exists()


def test_a_segment_without_a_lock_is_removed():
    """The control: a process that merely has the segment open does not protect it."""
    segment = SHM / f"cpprb_impl-{os.getpid()}-0123456789abcdef-1"
    segment.write_bytes(bytes(4096))
    with segment.open("rb"):
        MPReplayBuffer(4, {"x": {}}).close()
        assert not segment.exists()
