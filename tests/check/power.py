"""How often the checks report a fault of a sound buffer.

    python -m tests.check.power [--runs 1000] [--only CHECKS] [--workers 2]

Each run makes all checks once, with a seed of its own, without the repetitions by which `suites.check.run` confirms a
fault: a run of the command raises at most as many false alarms. Every tenth run of a buffer has the draws of a usual
check, the others those of a quick one. An interrupted call goes on, on the same commit. When checks have changed, give
their names. The table of docs/check-controls.md is rewritten.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from reports.rendering import table
from results.machine import revision
from suites.check import checks, worker
from suites.check.__main__ import NORMAL, QUICK
from suites.check.outcome import CheckVerdict, outcome
from suites.check.subject import CheckSettings
from suites.check.target import target
from tests.check.detection import PAGE, between

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "records" / "false-alarms.json"
BEGIN = "<!-- measured by python -m tests.check.power -->"
HEADER = ("commit", "checks", "quick runs", "normal runs", "runs with a false report")
#: name -> what `suites.check` is given
SOUND = {
    "plain": str(FOLDER / "plain_functions.py"),
    "episodic": str(FOLDER / "episodic_functions.py"),
    "cpprb_impl, shared": "cpprb_impl:MPReplayBuffer",
    "cpprb_impl, prioritized": "cpprb_impl:PrioritizedReplayBuffer",
    "rlox": "peer:rlox",
}
EFFORTS = {"quick": QUICK, "normal": NORMAL}
BAD = (CheckVerdict.FAULT, CheckVerdict.UNCHECKED)


def buffer(run: int) -> str:
    return list(SOUND)[run % len(SOUND)]


def effort(run: int) -> str:
    return "normal" if run // len(SOUND) % 10 == 0 else "quick"


def found(run: int, only: frozenset[str]) -> dict[str, str]:
    """Return the faults that one run finds, and the checks that could not be made: check -> evidence."""
    settings = CheckSettings(draws=EFFORTS[effort(run)].draws, seed=run)
    reports: list[Any] = []
    worker.work(target(SOUND[buffer(run)], None, None, settings), checks.selected(only), reports.append)
    every = [outcome(check, each) for report in reports if isinstance(report, dict) for check, each in report.items()]
    return {each.check: f"{each.word}: {each.evidence}" for each in every if each.verdict in BAD}


def saved() -> list[dict[str, Any]]:
    """Return the studies of the record: commit, names of the checks, number of runs and what was found in them."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []


def save(studies: Sequence[Mapping[str, Any]]) -> None:
    RECORD.write_text(json.dumps(studies, indent=1) + "\n", encoding="utf-8")


def block(studies: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of docs/check-controls.md."""
    return f"\n{table(HEADER, list(map(_row, studies)))}"


def _row(study: Mapping[str, Any]) -> tuple[str, ...]:
    made = Counter(map(effort, range(study["runs"])))
    which = "all {}" if len(study["checks"]) == len(checks.SHOWN) else "{}"
    runs = [f"{made[each]:,}" for each in EFFORTS]
    return f"{study['commit']:.12}", which.format(len(study["checks"])), *runs, str(len(study["alarms"]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check.power")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--only", default="", metavar="CHECKS", help="comma-separated names of checks")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    only = checks.named(args.only)
    names, commit, studies = [each for part in checks.selected(only) for each in part.checks], revision(), saved()
    study = next((each for each in studies if (each["commit"], each["checks"]) == (commit, names)), None)
    if study is None:
        studies.append(study := {"commit": commit, "checks": names, "runs": 0, "alarms": []})
    wanted = range(study["runs"], args.runs)
    with ProcessPoolExecutor(args.workers) as pool:
        made = pool.map(partial(found, only=only), wanted)
        for run, alarms in tqdm(zip(wanted, made, strict=True), total=len(wanted), unit="run"):
            study["runs"] = run + 1
            if alarms:
                study["alarms"].append({"run": run, "buffer": buffer(run), "found": alarms})
                print(study["alarms"][-1], file=sys.stderr)
            save(studies)
    PAGE.write_text(between(BEGIN, PAGE.read_text(encoding="utf-8"), block(studies)), encoding="utf-8")
    return 1 if study["alarms"] else 0


if __name__ == "__main__":
    sys.exit(main())
