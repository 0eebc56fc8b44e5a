"""How often a check is wrong: false alarms on sound buffers, and planted faults that it finds.

    python -m tests.check.power [--runs 1000] [--draws 2000] [--out FILE]

Each run makes all checks once, with a seed of its own, without the repetitions by which `suites.check.run` confirms a
fault; a run of the command raises at most as many false alarms.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

from suites.check import checks, worker
from suites.check.outcome import CheckVerdict, outcome
from suites.check.subject import CheckSettings
from suites.check.target import target

FOLDER = Path(__file__).resolve().parent
#: name -> what `suites.check` is given
SOUND = {
    "plain": str(FOLDER / "plain_functions.py"),
    "episodic": str(FOLDER / "episodic_functions.py"),
    "cpprb_impl, shared": "cpprb_impl:MPReplayBuffer",
    "cpprb_impl, prioritized": "cpprb_impl:PrioritizedReplayBuffer",
    "chainerrl-style": "peer:chainerrl-style",
}


def found(buffer: str, seed: int, draws: int) -> dict[str, str]:
    """Return the faults that one run finds, and the checks that could not be made: check -> evidence."""
    reports: list[Mapping[str, dict]] = []
    checked = target(buffer, None, None, CheckSettings(draws=draws, seed=seed))
    worker.work(checked, checks.PARTS, lambda said: reports.append(said) if isinstance(said, dict) else None)
    every = [outcome(check, each) for report in reports for check, each in report.items()]
    bad = (CheckVerdict.FAULT, CheckVerdict.UNCHECKED)
    return {each.check: f"{each.word}: {each.evidence}" for each in every if each.verdict in bad}


def _one(job: tuple[str, str, int, int]) -> tuple[str, int, dict[str, str]]:
    name, buffer, seed, draws = job
    return name, seed, found(buffer, seed, draws)


def runs(count: int, draws: int, workers: int) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield the results of `count` runs over the sound buffers in turn."""
    names = list(SOUND)
    jobs = [(name, SOUND[name], seed, draws) for seed in range(count) for name in [names[seed % len(names)]]]
    with ProcessPoolExecutor(workers) as pool:
        yield from tqdm(pool.map(_one, jobs), total=count, unit="run")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.check.power")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=FOLDER / "records" / "false-alarms.json")
    args = parser.parse_args()
    made, alarms = Counter(), []
    for name, seed, faults in runs(args.runs, args.draws, args.workers):
        made[name] += 1
        if faults:
            alarms.append({"buffer": name, "seed": seed, "faults": faults})
            print(name, seed, faults, file=sys.stderr)
    args.out.parent.mkdir(exist_ok=True)
    text = {"runs": made, "checks": sum(len(part.checks) for part in checks.PARTS), "draws": args.draws}
    args.out.write_text(json.dumps({**text, "runs with a false alarm": alarms}, indent=1) + "\n", encoding="utf-8")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
