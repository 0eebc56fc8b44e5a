"""Refuse values of make's variables before anything is installed:  python -m suites.variables TARGET [NAME=VALUE ...]

Prints what is wrong with the first value that cannot be used, and nothing if all can. Needs the standard library alone.
What takes a library to check, such as an environment's name, is checked later.
"""

from __future__ import annotations

import difflib
import math
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from adapters import catalog
from suites import SUITES

Check = Callable[[str], str]  # of a value: what is wrong with it, or ""


def number(least: float) -> Check:
    def check(text: str) -> str:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        return "" if least <= value < math.inf else f"must be a number, at least {least:g}, got {text!r}"

    return check


def file(example: str = "") -> Check:
    hint = f"; an example is {example}" if example else ""
    return lambda text: "" if Path(text).is_file() else f"must name a file, got {text!r}, which is none{hint}"


def one_of(known: Collection[str]) -> Check:
    def check(text: str) -> str:
        if text in known:
            return ""
        like = difflib.get_close_matches(text, known, 1)
        return f"cannot be {text!r}; " + (f"did you mean {like[0]!r}?" if like else f"known: {', '.join(known)}")

    return check


def some_of(known: Collection[str]) -> Check:
    one = one_of(known)

    def check(text: str) -> str:
        wrong = (one(name.strip()) for name in text.split(",") if name.strip())
        return next(filter(None, wrong), "")

    return check


def revision(text: str) -> str:
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}"]
    is_package = "==" in text or text.endswith(".whl")
    is_shallow = Path(".git/shallow").exists()  # and lacks most revisions: the gate says what to do
    if is_package or is_shallow or subprocess.run(command, capture_output=True).returncode == 0:
        return ""
    return f"cannot be {text!r}: name a revision, a wheel (dist/x.whl) or a release (name==1.0)"


PEERS = some_of([*catalog.classes(), catalog.ALL])
LOCKS = one_of(("none", "buffer", "critical"))
BUFFERS = one_of([catalog.OURS, *catalog.SHARED, *catalog.SHARED_ON_REQUEST, *catalog.SERVED, *catalog.OVER_HOSTS])
CHECKS: dict[str, dict[str, Check]] = {
    "setup": {"PEERS": PEERS},
    "bench": {
        "MINUTES": number(1),
        "PEERS": PEERS,
        "SUITES": some_of(SUITES),
        "WORKLOAD": file("examples/workload.toml"),
        "ADAPTER": file("examples/gate_adapter.py"),
        "RESUME": file(),
    },
    "apex": {"BUFFER": BUFFERS, "LOCK": LOCKS},
    "gate": {"BASE": revision, "HEAD": revision, "GATE_MINUTES": number(0.1), "ADAPTER": file()},
}


def problem(target: str, values: dict[str, str]) -> str:
    """Return what is wrong with the first of these values that cannot be used, or ""."""
    if values.get("ENV") and values.get("WORKLOAD"):
        return "give ENV or WORKLOAD, not both: each of them names the rows that are measured"
    checks = dict(CHECKS.get(target, {}))
    if values.get("ADAPTER"):  # whose buffer may be among the peers
        checks.pop("PEERS", None)
    if values.get("PROJECT"):  # whose revisions they are
        checks = {name: check for name, check in checks.items() if check is not revision}
    for name, value in values.items():
        if value and name in checks and (said := checks[name](value)):
            return f"{name} {said}"
    return ""


if __name__ == "__main__":
    print(problem(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])))
