"""Check records that others contribute:  python -m suites.contribution RECORD.json ... [--base REVISION]

Prints the errors in each record, and exits with 1 if there are any. docs/contribute.md states the requirements.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from adapters import registry, venvs
from results import BadRecord, Run, frames, load
from results.verdicts import ENOUGH

PROFILE, MINUTES = "quick", 18
OPTIONS = ("--profile", PROFILE, "--minutes", str(MINUTES))
COMMAND = " ".join(["python", "-m", "suites.run", *OPTIONS])
NEEDED = ("throughput", "integrity", "conformance")  # suites
LARGEST = 2_000_000  # bytes
COMMIT = re.compile(r"[0-9a-f]{40}")
PRIVATE = re.compile(r"/(?:home|Users|root)/[\w.-]+")  # a folder with a person's name
COMMON_PINS = venvs.CHECKOUT / "constraints.txt"


def file_name(run: Run) -> str:
    """Return the name of a record: its processor, cores and date, such as amd-ryzen-9-7950x-16-20261127.json."""
    words = re.sub(r"\((?:r|tm|c)\)|@.*|\b\d+-core\b|\b(?:cpu|processor)\b", " ", run.machine["cpu"].lower())
    processor = "-".join(re.findall(r"[a-z0-9]+", words)) or "unknown"
    return f"{processor}-{run.machine['cores']}-{run.started[:10].replace('-', '')}.json"


def faults(path: Path) -> list[str]:
    """Return what is wrong with a record, one line per fault."""
    try:
        run = load(path)
    except BadRecord as error:
        return [str(error).removeprefix(f"{path}: ")]
    wanted = file_name(run)
    is_named_so = re.fullmatch(rf"{re.escape(Path(wanted).stem)}(-\d+)?\.json", path.name)
    size = path.stat().st_size
    private = PRIVATE.search(path.read_text(encoding="utf-8"))
    measured = {record.suite for record in run.records if record.samples}
    rules = [
        (is_named_so, f"file name must be {wanted}, got {path.name}"),
        (size <= LARGEST, f"size must be at most {LARGEST:,} bytes, got {size:,}"),
        (run.command == COMMAND, f"command must be that of make contribute, {COMMAND}, got {run.command}"),
        (run.is_whole, "run must be complete, got an interrupted one"),
        (COMMIT.fullmatch(run.revision), f"revision must be a commit without changes, got {run.revision}"),
        (not private, f"record must not name a person's folder, got {private and private.group()}"),
        *((suite in measured, f"figures of the suite {suite} must be present, got none") for suite in NEEDED),
    ]
    return [*(said for holds, said in rules if not holds), *control_faults(run)]


def control_faults(run: Run) -> list[str]:
    """Return the ways in which the machine's control failed: two identical sides must not differ."""
    found = frames.control(frames.table({"record": run}))
    blocks = min(found["launches"], default=0)
    if blocks < ENOUGH:
        return [f"control must have both sides in at least {ENOUGH} blocks, got {blocks}: measure again"]
    return [
        f"interval of the control must contain 1, got {each.low:.3f} to {each.high:.3f}: the machine did other work or "
        "changed its speed, or it was chance; measure again"
        for each in found.itertuples()
        if not each.low <= 1 <= each.high
    ]


def is_commit(name: str) -> bool:
    """Return whether this clone knows a commit of this name."""
    return _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def commit_faults(revision: str, base: str) -> list[str]:
    """Return a fault if `base` does not contain the measured commit."""
    if _git("merge-base", "--is-ancestor", revision, base):
        return []
    return [f"revision must be a commit that {base} contains, got {revision}: measure again there"]


def _git(*command: str) -> bool:
    return subprocess.run(["git", *command], cwd=venvs.CHECKOUT, capture_output=True).returncode == 0


def version_faults(run: Run) -> list[str]:
    """Return the libraries whose versions differ from those that this checkout pins."""
    found = []
    for peer in run.peers:
        wanted = pinned(peer.name) if peer.name in registry.every() else None
        if None not in (wanted, peer.version) and peer.version != wanted:
            found.append(f"version of {peer.name} must be the pinned one, {wanted}, got {peer.version}")
    return found


def pinned(name: str) -> str | None:
    """Return the version of a peer's library in this checkout, or None if it is not another project's library."""
    peer = registry.peer_class(name)
    if peer.distribution is None:
        return None
    pins = venvs.PINS / f"{peer.venv}.txt" if peer.venv else COMMON_PINS
    found = re.search(rf"^{re.escape(peer.distribution)}==([^\s;]+)", pins.read_text(encoding="utf-8"), re.M | re.I)
    return found.group(1) if found else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.contribution", description="Check contributed records.")
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD.json")
    parser.add_argument("--base", metavar="REVISION", help="a commit that contains the measured ones")
    options = parser.parse_args(arguments)
    if options.base and not is_commit(options.base):
        parser.error(f"--base must be a revision of this clone, got {options.base}")
    wrong = 0
    for path in options.records:
        said = faults(path)
        if not said:
            run = load(path)
            said = [*version_faults(run), *(commit_faults(run.revision, options.base) if options.base else [])]
        wrong += bool(said)
        for line in said:
            print(f"{path}: {line}", file=sys.stderr)
    print(f"{len(options.records) - wrong} of {len(options.records)} records are valid")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
