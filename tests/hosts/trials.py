"""Crash trials over hosts: processes are killed or stopped, cables are pulled, hosts lose power, and links become slow.

    python -m tests.hosts.trials [--trials 300] [--seed N]

In each trial, a buffer is on two data hosts. One explorer is on the first of them, another on a host without data, and
a learner on a fourth host. Up to three random faults are injected. Then every stored row must be whole, and stored
once. Each acknowledged row must be stored, unless its shard was lost with its host, or because its supervisor was
killed and none was started in its place. Nothing may hang. Needs root and Linux.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from cpprb_impl.hosts.keys import Keys
from suites.lan import CHECKOUT, Lan
from suites.lan.worker import HostProcess, WorkerLost

SECONDS, DEADLINE = 3.0, 1.0
LEARNER, REMOTE, DATA = 1, 2, (3, 4)  # numbers of hosts
HANG_SECONDS = 30.0  # far longer than any step may take


@dataclass
class Trial:
    """One trial, on separate hosts."""

    seed: int
    lan: Lan
    stack: ExitStack
    directory: Path
    happened: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)  # shards that were lost with their rows
    off: set[int] = field(default_factory=set)  # hosts without power
    killed: set[str] = field(default_factory=set)  # names of processes that were killed on purpose

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.keys = pickle.dumps(Keys.make(encrypt=self.random.random() < 0.5)).hex()
        self.numbers = {host: number for number, host in enumerate(DATA)}
        self.known: dict[int, dict[str, Any]] = {}  # addresses of shards, by host
        self.supervisors: dict[int, HostProcess] = {}
        for host in DATA:
            self._supervise(host)
        self.explorers = {1: self._start("Explorer", DATA[0]), 2: self._start("Explorer", REMOTE)}
        for number, explorer in self.explorers.items():
            explorer.do("start", number=number, local=number == 1)
        self.learner = self._start("Student", LEARNER)
        self.learner.do("start", deadline=DEADLINE)

    def _start(self, kind: str, host: int) -> HostProcess:
        arguments = [kind, self.keys, self.lan.address(host), self.directory]
        worker = HostProcess(self.lan, host, "tests.hosts.trial_worker", arguments, {})
        self.stack.enter_context(closing(worker))
        return worker

    def _supervise(self, host: int) -> None:
        """Start a supervisor, which takes over the rows of an earlier one, and publish its address."""
        worker = self.supervisors[host] = self._start("Supervisor", host)
        self.known[host] = worker.do("start", number=self.numbers[host])
        written = self.directory.with_suffix(".new")
        written.write_text(json.dumps([*self.known.values()]))
        written.replace(self.directory)

    def run(self) -> tuple[list[str], dict[str, Any]]:
        """Return the faults that were found, and what the learner reported."""
        for explorer in self.explorers.values():
            # A slow explorer notices a lost connection only with its next batch.
            explorer.tell("explore", seconds=SECONDS, pause=self.random.choice((0.0, 0.05, 0.3)))
        self.learner.tell("learn", seconds=SECONDS)
        for event in self.random.choices(EVENTS, k=self.random.randint(1, 3)):
            time.sleep(self.random.uniform(0.05, 0.6))
            event(self)
        wrong: list[str] = []
        learned = self._hear(self.learner, "the learner", wrong) or {}
        explored = {number: self._hear(each, f"explorer {number}", wrong) for number, each in self.explorers.items()}
        wrong += [f"{learned['torn']} torn batches"] if learned.get("torn") else []
        stored = self._stored(wrong)
        twice = sum(count > 1 for count in stored.values())
        wrong += [f"{twice} rows were stored twice"] if twice else []
        for number, flushes in explored.items():
            wrong += self._missing(number, flushes or [], stored)
        return wrong, learned

    def _hear(self, worker: HostProcess, name: str, wrong: list[str]) -> Any:
        try:
            return worker.hear(HANG_SECONDS)
        except WorkerLost as error:
            if name not in self.killed:
                wrong.append(f"{name}: {error}")
            return None

    def _stored(self, wrong: list[str]) -> Counter[int]:
        stored: Counter[int] = Counter()
        for host, worker in self.supervisors.items():
            if self.numbers[host] in self.lost:
                continue
            try:
                stored.update(worker.do("ids", limit=HANG_SECONDS))
            except WorkerLost as error:
                wrong.append(f"shard {self.numbers[host]}: {error}")
        return stored

    def _missing(self, number: int, flushes: list[dict[str, Any]], stored: Counter[int]) -> list[str]:
        """Return which acknowledged rows of an explorer are missing although the shards that may have them exist."""
        missing = unconfirmed = 0
        for each in flushes:
            if not each["trouble"] and not self.lost & set(each["shards"]):
                missing += sum(row not in stored for row in range(each["first"], each["end"]))
                unconfirmed += each["unconfirmed"]
        if missing <= unconfirmed:
            return []
        return [f"explorer {number}: {missing} acknowledged rows are missing, and only {unconfirmed} are unconfirmed"]

    # Faults.

    def _data(self) -> int:
        return self.random.choice(DATA)

    def note(self, what: str) -> None:
        self.happened.append(what)

    def kill_server(self) -> None:
        self._server("killed")(SIGKILL)

    def stop_server(self) -> None:
        send = self._server("stopped")
        send(SIGSTOP)
        time.sleep(self.random.uniform(0.1, 2.0))
        send(SIGCONT)

    def _server(self, word: str) -> Callable[[Signals], None]:
        """Choose a server; return a function that sends it a signal, unless its supervisor is gone."""
        host, storing = self._data(), self.random.random() < 0.5
        self.note(f"{'storing' if storing else 'drawing'} server on host {host} {word}")

        def send(signal: Signals) -> None:
            if self.numbers[host] not in self.lost:
                self.supervisors[host].do("signal_server", storing=storing, number=signal)

        return send

    def kill_supervisor(self) -> None:
        host, again = self._data(), self.random.random() < 0.8
        self.note(f"supervisor on host {host} killed{', and another one started' if again else ''}")
        if self.numbers[host] in self.lost:
            return
        worker = self.supervisors[host]
        worker.tell("die")
        worker.process.wait(HANG_SECONDS)
        if again:
            self._supervise(host)
        else:
            self.lost.add(self.numbers[host])

    def kill_explorer(self) -> None:
        number = self.random.choice([*self.explorers])
        self.note(f"explorer {number} killed")
        self.killed.add(f"explorer {number}")
        self.explorers[number].process.kill()

    def cut(self) -> None:
        host = self.random.choice([REMOTE, *DATA])
        self.note(f"cable of host {host} pulled")
        self.lan.cut(host)
        time.sleep(self.random.choice((0.1, 0.5, 1.0, 2.0)))
        if host not in self.off:
            self.lan.mend(host)

    def power_off(self) -> None:
        host = self._data()
        self.note(f"power of host {host} lost")
        self.off.add(host)
        self.lost.add(self.numbers[host])
        if host == DATA[0]:
            self.killed.add("explorer 1")
        self.lan.power_off(host)

    def slow(self) -> None:
        self.note("links slowed to 10 Mbit/s for a while")
        self.lan.set_rate("10mbit")
        time.sleep(self.random.uniform(0.2, 1.0))
        self.lan.set_rate(None)


EVENTS: tuple[Callable[[Trial], None], ...] = (
    Trial.kill_server, Trial.stop_server, Trial.kill_supervisor, Trial.kill_explorer, Trial.cut, Trial.power_off,
    Trial.slow,
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.trials", description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    failed, worst, batches, events = 0, 0.0, 0, Counter()  # type: ignore[var-annotated]
    for seed in tqdm(range(args.seed, args.seed + args.trials), unit="trial", disable=not sys.stderr.isatty()):
        with Lan(4) as lan, TemporaryDirectory(dir=CHECKOUT / "build") as folder, ExitStack() as stack:
            trial = Trial(seed, lan, stack, Path(folder, "directory.json"))
            wrong, learned = trial.run()
        worst, batches = max(worst, learned.get("worst", 0.0)), batches + learned.get("batches", 0)
        events.update(each.partition(" of host")[0].partition(" on host")[0] for each in trial.happened)
        if wrong:
            failed += 1
            print(f"seed {seed}: {'; '.join(wrong)} after: {'; '.join(trial.happened)}", flush=True)
    print(f"{args.trials} trials from seed {args.seed}: {dict(events)}; {batches} batches, worst wait {worst:.2f} s")
    print(f"{failed} failed" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
