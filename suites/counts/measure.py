"""Exact counts of the work per call of the throughput benchmarks: instructions, memory accesses, system calls.

    python -m suites.counts --peer NAME --job JOB ... [--calls N] [--cells FILE]

instructions, reads, writes   what Callgrind counts; reads and writes are instructions that access memory
allocations                   calls of the C library's allocator and of mmap
system_calls, futex_calls     what strace sees, in all threads

Each tool runs one child process with the same interpreter, which measures all jobs. A count covers one call of a
benchmark's inner loop, which may add many rows, and excludes setting up the buffer and calls that warm it up. If a tool
is missing or may not trace processes here, its counts are skipped with a reason.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from suites.counts.spec import CALLS, OF_CALLGRIND, OF_STRACE, SUITE, params_of
from suites.counts.tools import run_callgrind, run_strace, under_callgrind, under_strace
from suites.runner import entry
from suites.runner.jobs import encoded
from suites.runner.results import NotMeasured, PeerTrouble, Result, failure
from suites.runner.timing import Stopwatch
from suites.throughput.buffers import Buffers
from suites.throughput.measure import BENCHMARKS
from suites.throughput.tasks import ThroughputJob

STRACE_TIMES = 10  # times as many calls under strace, which hardly slows a process down
WARM_CALLS = 10
IDLE = "idle"  # a job that does nothing, so that only the harness is counted
# Otherwise, counts would vary with the hashes of strings, with the number of NumPy's threads, and with whether bytecode
# files must be written. The C library would copy large blocks by an instruction that counts once per byte, but small
# blocks 32 bytes at a time.
STEADY = {
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GLIBC_TUNABLES": ":".join(f"glibc.cpu.x86_rep_{each}_threshold={1 << 40}" for each in ("movsb", "stosb")),
}
CHILDREN = {"callgrind": under_callgrind, "strace": under_strace}


# In the process that a tool runs.


class Counter(Stopwatch):
    """A stopwatch that counts `calls` calls, made in the context `counted`, rather than timing them."""

    def __init__(self, calls: int, counted: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(seconds=0)
        self.calls, self.counted = calls, counted

    def per_call(self, run: Callable[[int], object]) -> float:
        run(WARM_CALLS)
        gc.collect()
        gc.disable()
        try:
            with self.counted():
                run(self.calls)
        finally:
            gc.enable()
        return 0.0

    def rounds(self, seconds: float, fewest: int) -> int:
        raise NotMeasured("the number of calls it makes depends on the clock")


def make_calls(peer: str, jobs: Sequence[ThroughputJob], calls: int, under: str) -> Iterator[Result]:
    """Make the calls of each job under the tool that runs this process; the results have no values."""
    Counter(calls, partial(CHILDREN[under], IDLE)).per_call(lambda _calls: None)
    numbered = enumerate(jobs)
    for (workload, capacity), some in itertools.groupby(numbered, lambda each: (each[1].workload, each[1].capacity)):
        buffers = Buffers(peer, workload, capacity, fill_seconds=math.inf)
        for number, job in some:
            result = Result(job.benchmark, peer, workload, params_of(job), "ok")
            watch = Counter(calls, partial(CHILDREN[under], str(number)))
            try:
                BENCHMARKS[job.benchmark](buffers, dict(job.task.sizes), watch)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a Rust panic is not an Exception
                outcome, reason = failure(error)
                result = replace(result, outcome=outcome, reason=reason)
            yield result
        buffers.close()


# In the process that starts it.


def run_child(
    args: argparse.Namespace, calls: int, under: str, tool: Sequence[str], variables: Mapping[str, str]
) -> list[Result]:
    """Run this module under the tool, and return its results, in the order of the jobs."""
    fixed = ["setarch", "-R"]  # switches off the randomisation of addresses; some containers forbid that
    if not shutil.which("setarch") or subprocess.run([*fixed, "true"], capture_output=True).returncode:
        fixed = []
    python = [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "suites.counts.measure"]
    options = [
        f"--peer={args.peer}",
        f"--calls={calls}",
        f"--under={under}",
        *(f"--job={encoded(job)}" for job in args.jobs),
    ]
    if args.package_at:
        options.append(f"--package-at={args.package_at}")
    command = [*fixed, *tool, *python, *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **STEADY, **variables})
    results = [Result(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(results) != len(args.jobs):
        raise PeerTrouble(f"a process under {under} ended early, with status {done.returncode}: {done.stderr}")
    return results


TOOLS = ((OF_CALLGRIND, run_callgrind, 1), (OF_STRACE, run_strace, STRACE_TIMES))


def measure(args: argparse.Namespace) -> Iterator[Result]:
    for names, run, times in TOOLS:
        calls = times * args.calls
        try:
            with tempfile.TemporaryDirectory(prefix="counts-") as folder:
                results, counts = run(Path(folder), partial(run_child, args, calls))
        except Exception as error:
            outcome, reason = failure(error)
            results = [Result("", args.peer, job.workload, {}, outcome, reason=reason) for job in args.jobs]
        for number, (job, result) in enumerate(zip(args.jobs, results, strict=True)):
            for name in names:
                value = None
                if result.outcome == "ok":
                    value = (counts[str(number)][name] - counts[IDLE][name]) / calls
                yield replace(result, benchmark=name, params=params_of(job), value=value)


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, ThroughputJob)
    parser.add_argument("--calls", type=int, default=CALLS, help="counted per job; default: %(default)s")
    # The tool that runs this process. Set by the process of this module that starts it.
    parser.add_argument("--under", choices=CHILDREN, help=argparse.SUPPRESS)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return make_calls(args.peer, args.jobs, args.calls, args.under) if args.under else measure(args)

    return entry.main(SUITE, __doc__, options, figures)


if __name__ == "__main__":
    sys.exit(main())
