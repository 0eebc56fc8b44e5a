"""How the tests in this folder start launches, and look for what launches leave behind."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from tests.suites.fork_server import ForkServer

needs_atari = pytest.mark.skipif(find_spec("ale_py") is None, reason="ale-py has no wheel for this Python")

CHECKOUT = Path(__file__).resolve().parents[2]
SHIM = Path(__file__).resolve().parent / "shim"
#: The names of the faulty peers, read from the source, since only a launch may import what the module imports.
FAULTY = " ".join(re.findall(r'^    name = "(.+)"$', (SHIM / "faulty_peers.py").read_text(), re.MULTILINE))


def brief_run(blocks: int) -> tuple[str, str]:
    """Return the first arguments of Python for a bench run whose profile "tiny" has this many blocks, and spends hardly
    more time on timing and leak detection than one call takes."""
    return "-c", (
        "import sys; from dataclasses import replace; from suites import run;"
        "from suites.memory.spec import PROFILES as memory; from suites.throughput.spec import PROFILES as throughput;"
        "memory['tiny'] = replace(memory['tiny'], leak_seconds=0);"
        f"throughput['tiny'] = replace(throughput['tiny'], seconds=0.002, blocks={blocks});"
        "sys.exit(run.main(sys.argv[1:]))"
    )


@cache
def fork_server() -> ForkServer:
    """Return the server of this process, which knows the faulty peers."""
    variables = {"PYTHONPATH": f"{SHIM}{os.pathsep}{CHECKOUT}", "FAULTY_PEERS": FAULTY}
    server = ForkServer(CHECKOUT, os.environ | variables)
    atexit.register(server.close)
    return server


@dataclass
class Surroundings:
    """The environment of a test's launches: the faulty peers, and a mark by which their processes are found."""

    folder: Path
    mark: str

    @property
    def variables(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": f"{SHIM}{os.pathsep}{CHECKOUT}",
            "FAULTY_PEERS": FAULTY,
            "FAULTY_SEGMENT": self.mark,
            "FAULTY_FLAG": str(self.flag),
        }

    @property
    def flag(self) -> Path:
        return self.folder / "flag"

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        variables, python = self.variables | options.pop("more", {}), options.pop("python", sys.executable)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([python, *arguments], cwd=CHECKOUT, env=variables, **pipes, **options)

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        seconds = options.pop("timeout", 120)
        process = self.start(*arguments, **options)
        output, errors = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def fork(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess:
        """Do the same as `run` in a tenth of the time, by forking a process that has already imported the suites.
        Launches that measure memory or the start of a process need a fresh process."""
        return subprocess.CompletedProcess(arguments, *fork_server().run(arguments, self.variables, timeout))

    def leftovers(self) -> list[str]:
        found = [str(path) for path in Path("/dev/shm").glob(f"*{self.mark}*")]
        forked = fork_server().left()
        for process in {*forked, *psutil.process_iter()}:
            with suppress(psutil.Error):  # the process has ended
                if process in forked or process.environ().get("FAULTY_SEGMENT") == self.mark:
                    found.append(" ".join(process.cmdline()))
        return found


@pytest.fixture
def surroundings(tmp_path: Path) -> Iterator[Surroundings]:
    # Named like a segment of Python's own. The runner removes such segments of a launch that had to be killed.
    return Surroundings(tmp_path, f"psm_faulty-{uuid.uuid4().hex}")
