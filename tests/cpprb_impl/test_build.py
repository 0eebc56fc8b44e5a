"""A build without a compiler or headers reports which is missing, before CMake's own messages about its variables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LACKING = {
    "no compiler": (
        {},
        [],
        r"needs a C\+\+20 compiler, and none was found\. Install one, such as g\+\+ .*apt install g\+\+",
    ),
    "no compiler that CXX names": (
        {"CXX": "no-such-compiler"},
        [],
        r"needs a C\+\+20 compiler, and none was found \(CXX is no-such-compiler\)\. Install one",
    ),
    "an old compiler": (
        {"PATH": "/usr/bin:/bin"},
        ["-DCMAKE_CXX_COMPILER={folder}/old"],
        r"needs a C\+\+20 compiler, such as GCC 10 or later, got GCC 9\.3\.0 \(.*/old\)",
    ),
    "no headers of Python": (
        {"PATH": "/usr/bin:/bin"},
        ["-DPython_INCLUDE_DIR=/nonexistent"],
        r"needs the headers of Python, and none were found for .*apt install python3-dev",
    ),
}
# A compiler that preprocesses CMake's test program to this; otherwise it is the real compiler.
OLD = """#!/bin/sh
exec /usr/bin/c++ -U__GNUC__ -U__GNUC_MINOR__ -U__GNUC_PATCHLEVEL__ -D__GNUC__=9 -D__GNUC_MINOR__=3 \
-D__GNUC_PATCHLEVEL__=0 "$@"
"""


@pytest.mark.parametrize(("env", "options", "message"), LACKING.values(), ids=LACKING)
def test_a_missing_tool_is_the_only_error(env, options, message, tmp_path):
    if not ((BIN / "cmake").exists() and (BIN / "ninja").exists()):
        pytest.skip("this environment has no CMake")
    (tmp_path / "old").write_text(OLD)
    (tmp_path / "old").chmod(0o755)
    empty = tmp_path / "empty"
    empty.mkdir()
    command = [
        BIN / "cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}", *(option.format(folder=tmp_path) for option in options),
    ]  # fmt: skip
    done = subprocess.run(command, env={"PATH": str(empty), **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(f"cpprb_impl {message}", " ".join(done.stderr.split())), done.stderr
    assert done.stderr.count("CMake Error") == 1 and "Call Stack" not in done.stderr
