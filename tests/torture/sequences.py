"""Random sequences of calls on shared buffers by a tree of processes that fork, attach, close, stop and are killed.

    make sequences SECONDS=900  prints each sequence that fails, as a list of steps

Rows are certified, every step has a time limit, and no process or segment may remain at the end. The seed determines a
sequence but not how the system schedules its processes, so a failure may take several tries to reproduce.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from ast import literal_eval
from collections import Counter
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from .certified import FRAMED, NARROW, WIDE
from .fleet import HangError
from .member import BUFFERS, OWN, WRITERS, Kind
from .tree import SequenceError, Tree

STEPS = 40
LIMIT = 60.0  # seconds per step
PR_SET_CHILD_SUBREAPER = 36

Step = tuple
context = multiprocessing.get_context("fork")


@dataclass
class Result:
    steps: list[Step] = field(default_factory=list)  # the executed steps
    trouble: str = ""  # the fault that the last step, or the end, revealed


class Author:
    """Draws steps that are possible for the tree as it is; they depend on the seed alone, not on timing."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.members = self.buffers = 0

    def next(self, tree: Tree) -> Step:
        rng = self.rng
        able = [member for member in tree.members.values() if member.is_able()]
        if len(able) < 2:
            return self._new("new")
        if not any(member.buffers for member in able):
            return self._make(rng.choice(able).number)
        while True:
            kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            step = getattr(self, f"_{kind}")(tree, rng.choice(able))
            if step is not None and tree.can(step):
                return step

    def _new(self, how: str) -> Step:
        self.members += 1
        return how, self.members - 1

    def _spawn(self, tree, member):
        return self._new("spawn") if self.members < WRITERS // 2 else None

    def _fork(self, tree, member):
        inside = [m for m in tree.members.values() if m.is_able() and m.busy]  # another thread is in a call
        if inside and self.rng.random() < 0.7:
            member = self.rng.choice(inside)
        if len(tree.members) > 8 or self.members == WRITERS // 2:
            return None
        self.members += 1
        return "fork", member.number, self.members - 1

    def _make(self, number: int) -> Step:
        rng = self.rng
        width = rng.choices([NARROW, FRAMED, WIDE], [6, 3, 1])[0]
        steps = 3 if width == NARROW and rng.random() < 0.25 else 1
        lock = rng.choice(["none", "none", "none", "critical", "buffer", OWN])
        kind = Kind(
            capacity=rng.choice([16, 64]) if width == WIDE else rng.choice([16, 64, 100, 300]),
            width=width,
            prioritized=steps == 1 and lock != OWN and rng.random() < 0.6,
            lock=lock,
            steps=steps,
            files=lock != OWN and rng.random() < 0.25,
            objects=lock == OWN and rng.random() < 0.5,
        )
        self.buffers += 1
        return "make", number, self.buffers - 1, astuple(kind)

    def _another(self, tree, member):
        return self._make(member.number) if self.buffers < min(BUFFERS, 5) else None

    def _attach(self, tree, member):
        return ("attach", member.number, self.rng.choice([*tree.buffers])) if tree.buffers else None

    def _hand(self, tree, member):
        giver = self.rng.choice([*tree.members.values()])
        return ("hand", giver.number, member.number, self.rng.choice([*giver.buffers])) if giver.buffers else None

    def _call(self, number: int, buffer: int) -> Step:
        rng = self.rng
        name = rng.choices(["add", "sample", "late", "size", "look", "clear", "close"], [8, 8, 2, 2, 3, 1, 0.7])[0]
        args: tuple = ()
        if name == "add":
            args = rng.choice([1, 3, 20, 70]), rng.random() < 0.3
        elif name == "sample":
            args = rng.choice([1, 8, 32]), rng.choice(["update", "update", "keep", "nothing"])
        return number, name, buffer, *args

    def _calls(self, tree, member):
        """Draw simultaneous calls by several processes; a process may be killed or stopped meanwhile."""
        able = [m for m in tree.members.values() if m.is_able() and m.buffers]
        chosen = self.rng.sample(able, min(len(able), self.rng.choice([1, 2, 3])))
        calls = tuple(self._call(m.number, self.rng.choice([*m.buffers])) for m in chosen)
        if not calls:
            return None
        deed = self.rng.choices([None, "kill", "stop"], [16, 1, 1.5])[0]
        victim = self.rng.choice(able).number if self.rng.random() < 0.3 else calls[0][0]
        return "calls", calls, deed and (victim, deed, round(self.rng.uniform(0, 0.003), 5))

    def _busy(self, tree, member):
        if not member.buffers:
            return None
        what = self.rng.choices(["add", "sample", "size", "look"], [4, 3, 1, 1])[0]
        return "busy", member.number, self.rng.choice([*member.buffers]), what

    def _halt(self, tree, member):
        return "halt", member.number

    def _kill(self, tree, member):
        return "kill", self.rng.choice([*tree.members])

    def _stop(self, tree, member):
        return "stop", member.number

    def _cont(self, tree, member):
        stopped = [member.number for member in tree.members.values() if member.stopped]
        return ("cont", self.rng.choice(stopped)) if stopped else None

    def _end(self, tree, member):
        return "end", member.number, self.rng.random() < 0.5

    def _wait(self, tree, member):
        return "wait", round(self.rng.uniform(0, 0.02), 4)

    def _rest(self, tree, member):
        return ("rest", self.rng.choice([*member.buffers])) if member.buffers else None


# The relative frequency with which each step is tried.
WEIGHTS = {
    "calls": 20,
    "busy": 5,
    "halt": 1,
    "fork": 7,
    "spawn": 0.15,
    "another": 2,
    "attach": 3,
    "hand": 2,
    "kill": 1,
    "stop": 1.5,
    "cont": 2,
    "end": 0.7,
    "wait": 3,
    "rest": 3,
}


def run(seed: int, count: int, limit: float, given: list[Step] | None = None) -> Result:
    """Run a sequence in separate processes: `count` steps drawn from the seed, or the given steps."""
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_coordinate, args=(theirs, seed, count, limit, given))
    process.start()
    theirs.close()
    result = Result()
    try:
        while True:
            if not ours.poll(3 * limit):
                result.trouble = "the coordinator hangs"
                break
            kind, what = ours.recv()
            if kind == "step":
                result.steps.append(what)
            else:
                result.trouble = what
                break
    except EOFError:
        result.trouble = "the coordinator is gone"
    finally:
        if result.trouble:
            _kill_group(process.pid)
        process.join()
    return result


def _kill_group(number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(number, signal.SIGKILL)


def _coordinate(pipe: Any, seed: int, count: int, limit: float, given: list[Step] | None) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become our children
    author = Author(random.Random(seed))
    with tempfile.TemporaryDirectory(prefix="sequence-") as folder, Tree(Path(folder), limit) as tree:
        trouble = ""
        try:
            for i in range(count if given is None else len(given)):
                step = author.next(tree) if given is None else given[i]
                if not tree.can(step):
                    continue
                pipe.send(("step", step))
                tree.take(step)
            tree.end_all()
        except (SequenceError, HangError) as error:
            trouble = str(error)
            tree.kill_all()
    pipe.send(("end", trouble))
    pipe.close()


def shrunk(steps: list[Step], limit: float, tries: int = 3) -> list[Step]:
    """Return the steps without those that the failure does not need; each removal is tried several times."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            results = (run(0, 0, limit, fewer) for _ in range(tries))
            if any(result.trouble for result in results):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def described(seed: int, result: Result) -> str:
    steps = "\n".join(f"    {step!r}," for step in result.steps)
    return f"seed {seed}: {result.trouble}\nin the last of these steps, or at the end:\n[\n{steps}\n]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of one sequence, to be run alone")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a step")
    parser.add_argument("--given", type=Path, help="a file with a list of steps, to be run instead")
    parser.add_argument("--shrink", action="store_true", help="look for fewer steps that fail as well")
    parser.add_argument("--record", type=Path, help="a JSON file that gets a line")
    args = parser.parse_args()

    first = random.randrange(1 << 30) if args.seed is None else args.seed
    given = literal_eval(args.given.read_text()) if args.given else None
    taken: Counter[str] = Counter()
    failed, seed, until = 0, first, time.monotonic() + args.seconds
    while True:
        result = run(seed, args.steps, args.limit, given)
        taken.update(step[0] for step in result.steps)
        if result.trouble:
            failed += 1
            print(described(seed, result), flush=True)
            if args.shrink:
                result.steps = shrunk(result.steps, args.limit)
                print("as short as it was found to fail:\n" + described(seed, result), flush=True)
        seed += 1
        if args.seed is not None or time.monotonic() > until:
            break
    print(f"{seed - first} sequences from seed {first}, {taken.total()} steps {dict(taken)}; {failed} failed")
    if args.record:
        args.record.parent.mkdir(parents=True, exist_ok=True)
        record = {"sequences": seed - first, "seed": first, "steps": dict(taken), "failed": failed}
        with args.record.open("a") as file:
            file.write(json.dumps(record) + "\n")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
