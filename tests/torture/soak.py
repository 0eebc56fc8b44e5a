"""Run explorers and learners at full speed; check every row that is read and, at each pause, every row that is due.

    python -m tests.torture.soak --lock none --seconds 60 --writers 8 --learners 2 --record tests/torture/records/x.json

A round is a storm, in which explorers overtake each other, followed by a burst of at most as many rows as the ring has
slots. No slot is claimed twice within a burst, so each of its rows must be stored afterwards, exactly once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path

from tqdm import tqdm

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.layout.options import LOCKS

from . import certified
from .certified import FRAMED, NARROW, WIDE, Findings
from .fleet import HangError, fleet

LARGE = {NARROW: 1_000_000, WIDE: 2048, FRAMED: 20_000}
TINY = 64
SEQUENCE = 4  # steps
BATCH = {NARROW: 4096, WIDE: 64, FRAMED: 512}
BURST = 20_000  # rows of all explorers together, at most


@dataclass(frozen=True)
class Setting:
    lock: str
    capacity: int
    width: int
    rows_a_call: int
    prioritized: bool
    sequence: int = 0  # steps of the sequences that are drawn; 0: rows are

    def __str__(self) -> str:
        kind = ("prioritized" if self.prioritized else "uniform") + (" sequences" if self.sequence else "")
        rows = "framed" if self.width == FRAMED else f"{8 * self.width + 25:4} B"
        return f"{self.lock:8} ring {self.capacity:7} rows {rows} add {self.rows_a_call:3} {kind}"


@dataclass
class Outcome:
    setting: Setting
    added: int = 0
    due: int = 0  # rows that had to be stored, over all bursts
    bursts: int = 0
    longest_sample_ms: float = 0
    slowest_share: float = 0  # rows of the slowest explorer during the storms, divided by the mean
    trouble: str = ""
    findings: Findings = field(default_factory=Findings)

    def is_clean(self) -> bool:
        return not self.findings.faults() and not self.trouble and self.findings.rows > 0 and self.due > 0


def settings(locks: list[str]) -> Iterator[Setting]:
    for lock, width, rows_a_call, prioritized in product(locks, (NARROW, WIDE, FRAMED), (1, 100), (False, True)):
        for capacity in (TINY, LARGE[width]):
            yield Setting(lock, capacity, width, rows_a_call, prioritized)
            yield Setting(lock, capacity, width, rows_a_call, prioritized, SEQUENCE)


def soak(setting: Setting, seconds: float, writers: int = 8, learners: int = 2) -> Outcome:
    made_with = {"lock": setting.lock}
    kind = MPPrioritizedReplayBuffer if setting.prioritized else MPReplayBuffer
    if setting.prioritized:
        made_with |= {"alpha": 1.0, "eps": 0.0}  # so that the stored priority is the one that was passed to add
    buffer = kind(
        setting.capacity,
        certified.env_dict(setting.width),
        **certified.options(setting.width, setting.sequence),
        **made_with,
    )
    outcome = Outcome(setting)
    at_rest = Findings()
    try:
        with fleet(
            buffer,
            writers,
            learners,
            setting.width,
            setting.rows_a_call,
            BATCH[setting.width] // (setting.sequence or 1),
            setting.prioritized,
        ) as ships:
            board, stormed = ships.board, 0
            until = time.monotonic() + seconds
            try:
                while time.monotonic() < until:
                    before = board.done.copy()
                    ships.start()
                    time.sleep(min(0.2, seconds / 4))
                    ships.wait_for_rows()
                    ships.wait_for_samples()
                    ships.halt()
                    stormed = stormed + board.done - before
                    before = board.done.copy()
                    ships.start(quota=min(setting.capacity, BURST) // writers)
                    ships.wait_until_idle()
                    due = [(i, int(n) + 1, int(board.done[i] - n)) for i, n in enumerate(before)]
                    with ships.learners_at_rest():
                        everything = buffer.get_all_transitions()
                        certified.look_at_all(everything, board.begun, due, at_rest)
                        if setting.sequence and setting.capacity <= BURST:
                            certified.look_at_sequences(buffer, everything, at_rest)
                    outcome.due += sum(count for _, _, count in due)
                    outcome.bursts += 1
            except (HangError, RuntimeError) as error:
                outcome.trouble = repr(error)
            outcome.findings = ships.findings() + at_rest
            outcome.added = int(board.done.sum())
            outcome.longest_sample_ms = board.longest.max() / 1e6
            outcome.slowest_share = float(stormed.min() / stormed.mean()) if outcome.bursts else 0.0
    finally:
        buffer.close()
    return outcome


HEADINGS = f"{'setting':61} {'added':>10} {'read':>12} {'due':>9} {'faults':>7} {'slowest':>7} {'sample ms':>9}"


def line(outcome: Outcome) -> str:
    found = outcome.findings
    return (
        f"{outcome.setting!s:61} {outcome.added:10} {found.rows:12} {outcome.due:9} "
        f"{sum(found.faults().values()):7} {outcome.slowest_share:7.2f} {outcome.longest_sample_ms:9.1f}"
        + (f" {found.faults()}" if found.faults() else "")
        + (f" {outcome.trouble}" if outcome.trouble else "")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", choices=LOCKS, action="append", help="may be given again; default: all")
    parser.add_argument("--seconds", type=float, default=60, help="over all settings")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--record", type=Path, help="a JSON file that gets one line for each setting")
    args = parser.parse_args()

    chosen = list(settings(args.lock or list(LOCKS)))
    outcomes = []
    print(HEADINGS)
    for setting in tqdm(chosen, desc="soak", file=sys.stderr, disable=None):
        outcome = soak(setting, args.seconds / len(chosen), args.writers, args.learners)
        outcomes.append(outcome)
        tqdm.write(line(outcome))
        if args.record:
            args.record.parent.mkdir(parents=True, exist_ok=True)
            machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
            with args.record.open("a") as file:
                file.write(
                    json.dumps({**asdict(outcome), "writers": args.writers, "learners": args.learners, **machine})
                )
                file.write("\n")
    total = sum((outcome.findings for outcome in outcomes), Findings())
    print(f"{total.rows:,} rows read, {sum(o.added for o in outcomes):,} added, {sum(o.due for o in outcomes):,} due;")
    print(", ".join(f"{name}: {getattr(total, name)}" for name in Findings.FAULTS))
    bad = [outcome for outcome in outcomes if not outcome.is_clean()]
    if bad:
        print("not clean, or nothing shown:\n" + "\n".join(line(outcome) for outcome in bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
