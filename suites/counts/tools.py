"""Callgrind and strace, which run a process and count its work between two marks."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from suites.counts.spec import OF_CALLGRIND, OF_STRACE
from suites.runner.results import NotMeasured, Result

ALLOCATORS = {"malloc", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign", "mmap", "mmap64", "mremap"}
MARK = "/replaybench/counts/"  # the beginning of a path that the child looks up before and after the calls
Child = Callable[[str, Sequence[str], Mapping[str, str]], list[Result]]  # `run_child` with its first arguments bound
Counted = dict[str, dict[str, int]]  # counts by job
# Loaded into the child process under Callgrind. It replaces the system's random numbers by a fixed sequence: they seed
# the hash tables of libraries in Rust, and so determine which objects share a block of memory. Callgrind's totals are
# wrong unless they are zeroed after the start.
PRELOADED = """\
#include <stddef.h>
#include <sys/types.h>
#include <valgrind/callgrind.h>
void counts_start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void counts_stop(const char* job) { CALLGRIND_DUMP_STATS_AT(job); CALLGRIND_STOP_INSTRUMENTATION; }
ssize_t getrandom(void* to, size_t size, unsigned flags) {
  static unsigned long long state = 1;
  for (size_t i = 0; i < size; ++i) ((char*)to)[i] = (state = state * 6364136223846793005u + 1) >> 56;
  return size;
}
"""


# In the process that a tool runs.


@contextmanager
def under_callgrind(job: str) -> Iterator[None]:
    library, name = ctypes.CDLL(None), ctypes.c_char_p(job.encode())
    start, stop = library.counts_start, library.counts_stop
    start()
    try:
        yield
    finally:
        stop(name)


@contextmanager
def under_strace(job: str) -> Iterator[None]:
    os.access(MARK + job, os.F_OK)
    try:
        yield
    finally:
        os.access(MARK + job, os.F_OK)


# In the process that starts it.


def callgrind_counts(dump: str) -> tuple[str, dict[str, int]] | None:
    """Return the job that a dump of Callgrind names, and its counts; None if it names none."""
    job = re.search(r"^desc: Trigger: Client Request: (\S+)$", dump, re.MULTILINE)
    if not job:  # made when the process ended
        return None
    (events,) = re.findall(r"^events: (.+)$", dump, re.MULTILINE)
    (totals,) = re.findall(r"^totals: (.+)$", dump, re.MULTILINE)
    counted = dict(zip(events.split(), map(int, totals.split()), strict=False))  # zeros at the end are omitted
    called = re.findall(r"^cfn=(.+)\ncalls=(\d+)", dump, re.MULTILINE)
    allocations = sum(int(times) for name, times in called if name in ALLOCATORS)
    values = (*(counted.get(event, 0) for event in ("Ir", "Dr", "Dw")), allocations)
    return job[1], dict(zip(OF_CALLGRIND, values, strict=True))


def strace_counts(log: Iterable[str]) -> Counted:
    """Return the counts of each job in strace's output, in which two marks enclose the calls of a job."""
    found: Counted = {}
    current = None
    for line in log:
        call = re.match(r"\d+ +(\w+)\(", line)
        if not call:  # a signal, an exit, or the rest of a call that was interrupted
            continue
        if mark := re.search(rf'"{MARK}(\w+)"', line):
            current = None if current else mark[1]
            found.setdefault(mark[1], dict.fromkeys(OF_STRACE, 0))
        elif current:
            found[current]["system_calls"] += 1
            found[current]["futex_calls"] += call[1] == "futex"
    return found


def run_callgrind(folder: Path, child: Child) -> tuple[list[Result], Counted]:
    require("valgrind", "--tool=none", hint="install a version that knows this processor and C library")
    library = folder / "preloaded.so"
    compiler = [*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-O1", "-xc", "-", "-o", str(library)]
    try:
        subprocess.run(compiler, input=PRELOADED, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        raise NotMeasured(f"install a C compiler and the header valgrind/callgrind.h: {said}") from None
    caches = [
        "--cache-sim=yes",
        "--I1=32768,8,64",
        "--D1=32768,8,64",
        "--LL=8388608,16,64",
    ]  # fixed, not this machine's
    form = ["--compress-strings=no", "--compress-pos=no", "--dump-line=no", f"--callgrind-out-file={folder / 'dump'}"]
    tool = ["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no", *caches, *form]
    results = child("callgrind", tool, {"LD_PRELOAD": str(library)})
    dumps = (file.read_text(encoding="utf-8", errors="replace") for file in folder.glob("dump.*"))
    return results, dict(filter(None, map(callgrind_counts, dumps)))


def run_strace(folder: Path, child: Child) -> tuple[list[Result], Counted]:
    require("strace", "-f", "-o", os.devnull, hint="allow ptrace, in Docker by --cap-add=SYS_PTRACE")
    log = folder / "log"
    results = child("strace", ["strace", "-f", "-e", "signal=none", "-o", str(log)], {})
    with log.open(encoding="utf-8", errors="replace") as lines:
        return results, strace_counts(lines)


def require(*tool: str, hint: str) -> None:
    """Raise NotMeasured unless this tool can run a process."""
    try:
        done = subprocess.run([*tool, "true"], capture_output=True, text=True)
    except OSError:
        raise NotMeasured(f"install {tool[0]}, for example by `apt-get install {tool[0]}`") from None
    if done.returncode:
        raise NotMeasured(f"{tool[0]} cannot run a process here; {hint}: {done.stderr}")
