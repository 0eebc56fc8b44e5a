"""Which segments a launch is blamed for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from suites import launch

#: Makes a file named like a segment of our buffer, says so, and waits to be killed.
MAKER = """
import os, time
with open(f"/dev/shm/cpprb_impl-{os.getpid()}-0123456789abcdef-1", "wb") as file:
    file.write(bytes(8192))
print("made", flush=True)
time.sleep(60)
"""
#: A launch that starts such a process, kills it a second later, and exits 0.
LEAVING = f"""
import subprocess, sys, time
maker = subprocess.Popen([sys.executable, "-c", {MAKER!r}], stdout=subprocess.PIPE, text=True)
assert maker.stdout.readline() == "made\\n"
time.sleep(1)
maker.kill()
maker.wait()
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_what_a_killed_process_of_the_launch_made_is_told_and_removed():
    ending = launch.run(python(LEAVING), 60)
    assert ending.trouble is None, ending.trouble
    assert ending.left.startswith("1 segment of ")


def test_what_another_program_left_meanwhile_is_not_told_and_stays():
    """As a training beside a bench does that crashes, or tests beside these that kill processes."""
    others, made, begin = [], [], time.monotonic()

    def tick() -> None:
        if not others:
            others.append(subprocess.Popen(python(MAKER), stdout=subprocess.PIPE, text=True))
            assert others[0].stdout.readline() == "made\n"
            made.extend(Path("/dev/shm").glob(f"cpprb_impl-{others[0].pid}-*"))
        elif time.monotonic() > begin + 3:
            others[0].kill()

    try:
        ending = launch.run(python("import time; time.sleep(5)"), 60, tick)
        assert others[0].wait() < 0
        assert ending.trouble is None and ending.left == ""
        assert len(made) == 1 and made[0].exists()
    finally:
        for path in made:
            path.unlink(missing_ok=True)
