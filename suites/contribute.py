"""Measure this machine for the project's page:  python -m suites.contribute

Writes one record to results/machines/. docs/contribute.md says how to send it. Exit status: 0 if the record can be
sent, 1 if it cannot or if measuring failed, 2 if this machine cannot be measured now, 130 if interrupted.
"""

from __future__ import annotations

import getpass
import itertools
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from adapters import registry
from results import MACHINES, RUNS, load, machine, save
from results.verdicts import REFERENCE
from suites import contribution, run
from suites.contribution import OPTIONS

#: The share of all processors that other programs may use, and the seconds for which it is measured.
BUSY, LOOK_SECONDS = 0.1, 5.0
#: The branch whose commits are measured, if this clone has it.
MAIN = "origin/main"
#: Names of users and machines that say nothing about a person.
COMMON = ("root", "user", "localhost", "runner", "ubuntu", "debian")


def obstacles() -> Iterator[str]:
    """Yield the reasons why this machine cannot be measured now."""
    if "REPLAYBENCH_ADAPTER" in os.environ:  # this adapter's buffer would be measured, too
        yield f"REPLAYBENCH_ADAPTER must not be set, got {os.environ['REPLAYBENCH_ADAPTER']}"
        return
    revision = machine.revision()
    if not contribution.COMMIT.fullmatch(revision):
        yield f"revision must be a commit without changes, got {revision}: use a fresh clone"
    elif contribution.is_commit(MAIN):
        yield from contribution.commit_faults(revision, MAIN)
    if reason := registry.describe(REFERENCE).reason:
        yield (
            f"{REFERENCE}, the reference of most ratios, must be installed, got: {reason}; run make clean, then "
            "make contribute PYTHON=python3.11"
        )
    for name in registry.chosen([]):
        version, wanted = registry.describe(name).version, contribution.pinned(name)
        if None not in (version, wanted) and version != wanted:
            yield f"version of {name} must be the pinned one, {wanted}, got {version}: run make clean, then this again"
    battery = psutil.sensors_battery()
    if battery and battery.power_plugged is False:  # None: not known
        yield "power must come from the mains, got the battery: processors are slower on battery"
    times = psutil.cpu_times_percent(LOOK_SECONDS)
    busy = 100 - times.idle - getattr(times, "iowait", 0.0)
    if busy > 100 * BUSY:
        yield f"other programs must use at most {BUSY:.0%} of the processors, got {busy:.0f}%: end them"


def anonymous(text: str) -> str:
    """Return a message without the home folder, and without the names of the user and of the machine."""
    # The longest first, since the host's name may contain the user's.
    for name, instead in sorted(_private(), key=lambda pair: len(pair[0]), reverse=True):
        begin = "" if name.startswith("/") else r"(?<!\w)"
        text = re.sub(rf"{begin}{re.escape(name)}(?!\w)", instead, text)
    return text


def _private() -> Iterator[tuple[str, str]]:
    """Yield each text that identifies the person or the machine, and its replacement."""
    with suppress(RuntimeError):  # HOME is not set, and the user has no entry in the password database
        home = str(Path.home())
        if home != "/":
            yield home, "~"
    host = os.uname().nodename
    names = [(host, "host"), (host.partition(".")[0], "host")]
    with suppress(KeyError, OSError):  # likewise
        names.append((getpass.getuser(), "user"))
    yield from ((name, instead) for name, instead in names if name and name not in COMMON)


def write(measured: Path, folder: Path = MACHINES) -> list[str]:
    """Write the record of this run to `folder`, or return the errors in it."""
    record = load(measured)
    for cell in record.records:  # the cells' reasons quote messages of the system
        cell.reason, cell.seen = cell.reason and anonymous(cell.reason), cell.seen and anonymous(cell.seen)
    record.peers = [replace(peer, reason=peer.reason and anonymous(peer.reason)) for peer in record.peers]
    stem = contribution.file_name(record).removesuffix(".json")
    names = (f"{stem}.json" if number == 1 else f"{stem}-{number}.json" for number in itertools.count(1))
    name = next(name for name in names if not (folder / name).exists())
    with TemporaryDirectory() as made:
        draft = Path(made) / name
        save(draft, record)
        if wrong := contribution.faults(draft):
            return wrong
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(draft, folder / name)
    print(f"{folder / name}: how to send it is in docs/contribute.md")
    return []


def main() -> int:
    if found := list(obstacles()):
        print("\n".join(["this machine cannot be measured now:", *found]), file=sys.stderr)
        return 2
    measured = RUNS / time.strftime(f"bench-{contribution.PROFILE}-%Y%m%dT%H%M%SZ.json", time.gmtime())
    status = run.main([*OPTIONS, "--out", str(measured)])
    if status not in (0, 1) or not measured.exists():  # 1: a buffer of this project failed, which is also a result
        return status or 1
    wrong = write(measured)
    for line in wrong:
        print(f"{measured} cannot be sent: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
