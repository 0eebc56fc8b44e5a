"""The machine and the revision of the checkout that a run was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

HERE = Path(__file__).resolve().parent
#: Folders of the repository on which figures depend.
MEASURED_CODE = ("cpprb_impl", "adapters", "suites")
#: Flag of a processor -> its vector instructions, the widest first.
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "sse2": "SSE2"}


def describe() -> dict[str, Any]:
    """Return the "machine" object of the run file. Anything that cannot be determined is "unknown"."""
    return {
        "cpu": _cpu_model(),
        "cores": _usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release() or "unknown",
        "os": _os_name(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiler": _first_line_of([*os.environ.get("CXX", "c++").split(), "--version"]) or "unknown",
        "vectors": _vectors(),
    }


def processor(machine: Mapping[str, Any]) -> str:
    """Return the processor of a "machine" object, with its vector instructions if they are recorded.

    A host may hide instructions that a processor of the same name has elsewhere.
    """
    vectors = machine.get("vectors", "")
    return f"{machine['cpu']}, {vectors}" if vectors else machine["cpu"]


def kind(machine: Mapping[str, Any]) -> tuple[str, int]:
    """Return what two records must share to be of one kind of machine: processor, vector instructions, cores.

    Records from before 29 November 2026 name no vector instructions, and are of the same kind only among themselves.
    """
    return processor(machine), machine["cores"]


def revision(checkout: Path = HERE) -> str:
    """Return the commit's hash, with "+dirty" if there are uncommitted changes; "unknown" outside git.

    Uncommitted records do not count, since they do not affect what is measured.
    """
    commit = _first_line_of(["git", "rev-parse", "HEAD"], checkout)
    if not commit:
        return "unknown"
    measured = ["--", ":/", ":(top,exclude)results/machines", ":(top,exclude)tests/check/records"]
    changed = _first_line_of(["git", "status", "--porcelain", *measured], checkout)
    return commit + ("+dirty" if changed else "")


def changed_since(measured_at: str, folders: Sequence[str] = MEASURED_CODE, checkout: Path = HERE) -> list[str]:
    """Return the files in these folders that differ between this revision and the last commit.

    Empty outside git, and for a revision that is unknown in this checkout.
    """
    top = next(iter(_lines_of(["git", "rev-parse", "--show-toplevel"], checkout)), "")
    commit = measured_at.removesuffix("+dirty")
    return _lines_of(["git", "diff", "--name-only", commit, "HEAD", "--", *folders], Path(top)) if top else []


def _cpu_model() -> str:
    return _in_cpuinfo("model name") or platform.processor() or platform.machine() or "unknown"


def _vectors() -> str:
    """Return the widest vector instructions of x86-64, or "" for other processors."""
    flags = _in_cpuinfo("flags").split()
    return next((name for flag, name in VECTORS.items() if flag in flags), "")


def _in_cpuinfo(name: str) -> str:
    """Return the first value of this name; "" if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    values = [line.split(":", 1)[1].strip() for line in lines if line.startswith(name)]
    return next(filter(None, values), "")


def _usable_cores() -> int:
    """Return the number of cores that this process may run on, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME") or platform.system()
    except OSError:
        return platform.system() or "unknown"


def _first_line_of(command: list[str], folder: Path | None = None) -> str:
    return next(iter(_lines_of(command, folder)), "").strip()


def _lines_of(command: list[str], folder: Path | None = None) -> list[str]:
    """Return the lines that a command prints; none if it fails, hangs or is not installed."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()
