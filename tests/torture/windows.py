"""Check sequences from shared buffers while explorers that add to them are killed: make windows.

    python -m tests.torture.windows --windows 1e8 --kills 300 --record build/windows.jsonl

A row holds its number in its stream's life: a process, an environment, an episode and a step. So the steps of a
sequence of one episode have consecutive numbers. A killed explorer is replaced by a new process, whose streams are new.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, cycle, islice, product
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from tqdm import tqdm

from adapters.checks import chi_square
from adapters.child_process import exit_with_parent
from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

FORK = multiprocessing.get_context("fork")
SIZE, CAPACITY, EXPLORERS, BATCH = 16, 50_000, 6, 256
LONGEST = 100  # steps of an episode
EPISODE_AT, STREAM_AT = 12, 40  # bits of a step's number, and of these and an episode's number
FIELDS = {"row": {"dtype": np.int64}, "twin": {"dtype": np.int64, "shape": 5}, "done": {"dtype": np.bool_}}
ROUND = 20  # kills, after which another buffer has the next setting
DRAWS = 20  # of each sequence at rest, on average, for the chi-square test
SIGNIFICANCE = 1e-6


@dataclass(frozen=True)
class Setting:
    prioritized: bool
    n_envs: int
    rows: int  # per call and environment


@dataclass
class Outcome:
    setting: Setting
    windows: int = 0
    wrong: int = 0
    kills: int = 0  # of explorers, the last `EXPLORERS` of them after the last sequence
    valid: int = 0  # sequences that can be drawn, when all explorers have ended
    probability: float = 1.0  # of their draws, by a chi-square test, if all are equally likely; 1 with priorities

    def is_good(self) -> bool:
        return self.wrong == 0 and self.valid > 0 and self.probability > SIGNIFICANCE


def made(setting: Setting, seed: int):
    kind = MPPrioritizedReplayBuffer if setting.prioritized else MPReplayBuffer
    return kind(CAPACITY, FIELDS, n_envs=setting.n_envs, sequences={"size": SIZE}, seed=seed)


def numbers(process: int, environment: int, random: np.random.Generator) -> Iterator[tuple[int, bool]]:
    """Generate the steps of an environment."""
    for episode in count():
        steps = int(random.integers(1, LONGEST))
        for step in range(steps):
            yield (process * 8 + environment) << STREAM_AT | episode << EPISODE_AT | step, step == steps - 1


def adding(buffer, setting: Setting, process: int) -> Iterator[None]:
    """Add the next steps of a process, with each `next`."""
    random = np.random.default_rng(process)
    streams = [numbers(process, environment, random) for environment in range(setting.n_envs)]
    while True:
        steps = [next(stream) for _ in range(setting.rows) for stream in streams]
        row = np.array([number for number, _ in steps])
        buffer.add(row=row, twin=np.repeat(row[:, None], 5, axis=1), done=np.array([done for _, done in steps]))
        yield


def explore(buffer, setting: Setting, process: int) -> None:
    exit_with_parent(os.getppid())
    for _ in adding(buffer, setting, process):
        pass


def wrong(batch: dict[str, np.ndarray]) -> int:
    """Return how many sequences are not consecutive whole steps of one episode."""
    row, done = batch["row"][:, :, 0], batch["done"][:, :, 0]
    bad = (np.diff(row, axis=1) != 1).any(axis=1) | done[:, :-1].any(axis=1)
    bad |= (batch["twin"] != row[:, :, None]).any(axis=(1, 2))
    bad |= (batch["is_first"] != (row & ((1 << EPISODE_AT) - 1) == 0)).any(axis=1)
    return int(bad.sum())


def started(buffer, setting: Setting, processes: Iterator[int], own: Iterator[None]) -> BaseProcess:
    for _ in islice(own, SIZE):
        pass  # a child that went on with this process's streams would be noticed
    process = FORK.Process(target=explore, args=(buffer, setting, next(processes)), daemon=True)
    process.start()
    return process


def killed(process: BaseProcess) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    process.close()


def run(setting: Setting, seed: int, kills: int, windows: int, bar: tqdm, make=made) -> Outcome:
    """Draw at least so many sequences, while at least so many explorers are killed and replaced."""
    random, processes, outcome = np.random.default_rng(seed), count(1), Outcome(setting)
    buffer = make(setting, seed)
    own = adding(buffer, setting, next(processes))
    explorers = [started(buffer, setting, processes, own) for _ in range(EXPLORERS)]
    try:
        while buffer.get_stored_size() < CAPACITY // 2:
            time.sleep(0.01)
        next_kill = time.monotonic()
        while outcome.windows < windows or outcome.kills < kills:
            batch = buffer.sample_sequences(BATCH)
            outcome.windows += BATCH
            outcome.wrong += wrong(batch)
            bar.update(BATCH)
            if setting.prioritized:
                buffer.update_priorities(batch["indexes"], random.uniform(0.1, 1.0, BATCH))
            if time.monotonic() > next_kill and outcome.kills < kills:
                victim = int(random.integers(EXPLORERS))
                killed(explorers[victim])
                outcome.kills += 1
                explorers[victim] = started(buffer, setting, processes, own)
                next_kill = time.monotonic() + random.uniform(0.0, 0.2)
    finally:
        for each in explorers:
            killed(each)
    outcome.kills += EXPLORERS
    outcome.valid = buffer.get_valid_sequences()
    if not setting.prioritized:
        batches = range(DRAWS * outcome.valid // BATCH)
        ends = np.concatenate([buffer.sample_sequences(BATCH)["row"][:, -1, 0] for _ in batches])
        drawn = np.unique(ends, return_counts=True)[1]
        counts = np.pad(drawn, (0, outcome.valid - len(drawn)))  # fails if more are drawn than can be
        outcome.probability = chi_square(counts, np.ones(len(counts)))[1]
    buffer.close()
    return outcome


def settings() -> list[Setting]:
    return [Setting(*each) for each in product((False, True), (1, 4), (1, 16))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=float, default=1e8, help="sequences in all; default: %(default).0e")
    parser.add_argument("--kills", type=int, default=300, help="of explorers, in all; default: %(default)s")
    parser.add_argument("--record", type=Path, help="a JSON file that gets one line for each buffer")
    args = parser.parse_args()

    rounds = -(-args.kills // ROUND)
    outcomes: list[Outcome] = []
    with tqdm(total=int(args.windows), desc="sequences", unit_scale=True, disable=None) as bar:
        for seed, setting in zip(range(rounds), cycle(settings()), strict=False):
            outcomes.append(run(setting, seed, ROUND, int(args.windows) // rounds, bar))
            if args.record:
                args.record.parent.mkdir(parents=True, exist_ok=True)
                with args.record.open("a") as file:
                    file.write(json.dumps(asdict(outcomes[-1])) + "\n")
    print(f"sequences drawn: {sum(each.windows for each in outcomes):,}")
    print(f"wrong: {sum(each.wrong for each in outcomes)}")
    print(f"explorers killed meanwhile: {sum(each.kills - EXPLORERS for each in outcomes)}")
    bad = [each for each in outcomes if not each.is_good()]
    for each in bad:
        print(f"FAILED: {each}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
