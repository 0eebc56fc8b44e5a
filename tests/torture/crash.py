"""Kill and stop explorers and learners at each failpoint (docs/protocol.md) and at random moments.

    .ci/crash --trials 1000  builds the native module with failpoints first

After each trial a sample returns whole rows, the surviving processes continue, rows added from then on are all stored,
and every slot is reused within a lap. One trial in four begins with a new ring, most of whose slots were never written.
With "buffer" and "critical" no process is stopped, since one that is stopped while it holds the lock blocks the others
by design.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from cpprb_impl.layout.options import LOCKS

from . import arena, failpoints
from .arena import RANDOM_MOMENT, Outcome, Plan
from .certified import Findings

TRIALS_A_BUFFER = 20
NEW_ONES = 5  # this many of those trials have a new buffer each, which is in its first lap
NOT_WITH = {
    "none": ("G1", "G2", "G3", "G4", "G5", "G6"),
    "buffer": ("G3", "G4", "G5", "G6"),
    "critical": (),
}
OF_FRAMES = ("F1", "F2", "F3", "F4", "F5", "B0", "L4")
BOUND = 60  # seconds without a message, after which an arena counts as hanging

context = multiprocessing.get_context("fork")


def places(lock: str, prioritized: bool, framed: bool) -> list[str]:
    """Return where processes are killed or stopped: failpoints that are reached with this lock and these options."""
    named = failpoints.names() if failpoints.are_built_in() else []
    missing = {*NOT_WITH[lock], *(() if framed else OF_FRAMES), *failpoints.OF_MAKING, *failpoints.OF_GIVING_WAY}
    here = [name for name in named if (prioritized or name[0] not in "TU") and name not in missing]
    return [*here, RANDOM_MOMENT]


def trials(lock: str, count: int, seed: int) -> Iterator[Outcome]:
    """Run trials on several buffers; each place is equally likely."""
    rng = random.Random(seed)
    while count > 0:
        prioritized, framed = rng.random() < 0.6, rng.random() < 0.4
        known = places(lock, prioritized, framed)
        chosen = [rng.choice(known) for _ in range(min(TRIALS_A_BUFFER, count))]
        count -= len(chosen)
        if chosen[NEW_ONES:]:
            yield from _in_an_arena(lock, prioritized, framed, chosen[NEW_ONES:], rng.getrandbits(32))
        for failpoint in chosen[:NEW_ONES]:
            yield from _in_an_arena(lock, prioritized, framed, [failpoint], rng.getrandbits(32), first_lap=True)


def _in_an_arena(
    lock: str, prioritized: bool, framed: bool, chosen: list[str], seed: int, first_lap: bool = False
) -> Iterator[Outcome]:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=arena.run, args=(theirs, lock, prioritized, framed, chosen, seed, first_lap))
    process.start()
    theirs.close()
    plan, segment = None, _hear(ours)
    try:
        for _ in chosen:
            plan = _hear(ours)
            outcome = _hear(ours)
            yield outcome
            if not outcome.is_clean():
                return
        process.join(BOUND)
        if os.path.exists(f"/dev/shm/{segment.lstrip('/')}"):
            yield Outcome(plan, trouble=[f"{segment} was left in /dev/shm"])
    except EOFError:
        yield Outcome(plan, trouble=[f"the trials ended, with {process.exitcode}; seed {seed}"])
    except TimeoutError:
        yield Outcome(plan, trouble=[f"a hang; seed {seed}"])
    finally:
        _end(process)


def _hear(pipe) -> Plan | Outcome | str:
    if not pipe.poll(BOUND):
        raise TimeoutError
    return pipe.recv()


def _end(process) -> None:
    """Kill the process and its children, including stopped ones."""
    for _ in range(2):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            break
        process.join()


def table(outcomes: list[Outcome]) -> str:
    at = defaultdict(list)
    for outcome in outcomes:
        at[outcome.plan.failpoint].append(outcome)
    lines = [f"{'at':8} {'killed':>7} {'stopped':>8} {'missed':>7} {'first lap':>10} {'longest sample ms':>18}"]
    for failpoint, there in sorted(at.items()):
        kinds = Counter("missed" if not o.hit else "stopped" if o.plan.stop else "killed" for o in there)
        kinds["first lap"] = sum(o.hit and o.plan.first_lap for o in there)
        longest = max(o.longest_sample_ms for o in there)
        lines.append(
            f"{failpoint:8} {kinds['killed']:7} {kinds['stopped']:8} {kinds['missed']:7} "
            f"{kinds['first lap']:10} {longest:18.1f}"
        )
    return "\n".join(lines)


def never_reached(outcomes: list[Outcome]) -> list[str]:
    hit = {outcome.plan.failpoint for outcome in outcomes if outcome.hit}
    return sorted({outcome.plan.failpoint for outcome in outcomes} - hit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", choices=LOCKS, action="append", help="may be given again; default: all")
    parser.add_argument("--trials", type=int, default=1000, help="for each discipline")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--record", type=Path, help="a JSON file that gets one line for each discipline")
    args = parser.parse_args()
    if not failpoints.are_built_in():
        return "this native module has no failpoints: see .ci/crash"

    bad = []
    for lock in args.lock or LOCKS:
        every = trials(lock, args.trials, args.seed)
        outcomes = []
        for outcome in tqdm(every, desc=f"crash {lock}", total=args.trials, file=sys.stderr, disable=None):
            outcomes.append(outcome)
            if not outcome.is_clean():
                bad.append(str(outcome))
                tqdm.write(bad[-1])
        print(f'lock="{lock}", {len(outcomes)} trials, seed {args.seed}\n{table(outcomes)}')
        bad += [f'lock="{lock}": no process reached {failpoint}' for failpoint in never_reached(outcomes)]
        total = sum((outcome.findings for outcome in outcomes), Findings())
        due = sum(outcome.due for outcome in outcomes)
        print(f"{total.rows:,} rows read, {due:,} due; faults: {total.faults() or 'none'}\n", flush=True)
        if args.record:
            args.record.parent.mkdir(parents=True, exist_ok=True)
            hits = Counter((o.plan.failpoint, "stopped" if o.plan.stop else "killed") for o in outcomes if o.hit)
            hits = {f"{failpoint} {how}": count for (failpoint, how), count in sorted(hits.items())}
            record = {
                "lock": lock,
                "first_lap": sum(o.hit and o.plan.first_lap for o in outcomes),
                "seed": args.seed,
                "trials": len(outcomes),
                "hits": hits,
                "due": due,
                **asdict(total),
            }
            with args.record.open("a") as file:
                file.write(json.dumps(record) + "\n")
    print("\n".join(bad) or "nothing found")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
