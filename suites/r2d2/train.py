"""R2D2 on a task that needs memory, with explorers that share a prioritized buffer of sequences.

    python -m suites.r2d2.train [--seed 0] [--agent R2D2]
    python -m suites.r2d2.train --seeds 5      every agent with the seeds 0 to 4, and a record in results/runs/

`suites.r2d2.with_reverb` runs this program where Reverb can be imported, too.

A training ends when an evaluation of 100 greedy episodes reaches 0.9 of the best return, or after the last learner
step.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from results import machine
from suites.apex_dqn.dqn import flat_weights
from suites.apex_dqn.processes import Forked
from suites.r2d2.explorer import EXPLORERS, LEAST_ROWS, ROWS, explore, score
from suites.r2d2.learner import AGENTS, Agent, SequenceLearner
from suites.r2d2.replay import REPLAYS
from suites.r2d2.task import BEST, SOLVED

RUNS = Path(__file__).resolve().parents[2] / "results" / "runs"
PUBLISH_EVERY, EVALUATE_EVERY = 10, 50  # learner steps
LAST_STEP = 2_000
OURS = "cpprb_impl"


@dataclass(frozen=True)
class TaskOutcome:
    """The result of a training."""

    solved: bool
    steps: int  # of the learner
    transitions: int
    scores: list[float]  # the mean return of each evaluation, one per `EVALUATE_EVERY` learner steps


def train(agent: Agent, seed: int, last_step: int = LAST_STEP, buffer: str = OURS) -> TaskOutcome:
    """Train until the task is solved, or until the last learner step. Raises RuntimeError if an explorer dies."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    learner, scores = SequenceLearner(agent), []
    weights = flat_weights(learner.network)
    with closing(REPLAYS[buffer](agent, seed)) as replay, closing(Forked(EXPLORERS, len(weights))) as starter:
        starter.weights.publish(0, weights)
        progress = starter.progress
        explorers = [
            starter.start(explore, number, agent, seed, replay.buffer, starter.weights, progress)
            for number in range(EXPLORERS)
        ]
        replay.begin()
        while learner.steps < last_step:
            while sum(progress.transitions) < LEAST_ROWS + ROWS * learner.steps:
                for number, each in enumerate(explorers):
                    if not each.is_alive():
                        raise RuntimeError(f"explorer {number} died with exit code {each.exitcode}")
                time.sleep(0.001)
            batch = replay.sample()
            replay.update(batch, learner.step(batch))
            progress.steps.value = learner.steps
            if learner.steps % PUBLISH_EVERY == 0:
                starter.weights.publish(learner.steps, flat_weights(learner.network))
            if learner.steps % EVALUATE_EVERY == 0:
                scores.append(score(learner.network, agent, 1_000_000 * (seed + 1) + learner.steps))
                print(f"{learner.steps:6,} learner steps  score {scores[-1]:.2f} of {BEST:g}", flush=True)
                if scores[-1] >= SOLVED:
                    break
        return TaskOutcome(bool(scores) and scores[-1] >= SOLVED, learner.steps, sum(progress.transitions), scores)


def compare(names: Sequence[str], seeds: int, out: Path, buffer: str) -> None:
    """Train these agents with the seeds 0 to `seeds` - 1, and write a record."""
    trainings: list[dict[str, Any]] = []
    record = {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "buffer": buffer,
        "started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "revision": machine.revision(),
        "machine": machine.describe() | {"torch": torch.__version__},
        "agents": {name: asdict(AGENTS[name]) for name in names},
        "solved_at": SOLVED,
        "trainings": trainings,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        for name in names:
            print(f"{name}, seed {seed}", flush=True)
            begin = time.monotonic()
            outcome = train(AGENTS[name], seed, buffer=buffer)
            trainings.append({"agent": name, "seed": seed, **asdict(outcome), "seconds": time.monotonic() - begin})
            out.write_text(json.dumps(record, indent=1) + "\n")
    for name in names:
        done = [each for each in trainings if each["agent"] == name]
        print(f"{name}: solved by {sum(each['solved'] for each in done)} of {seeds} seeds")
    print(f"record: {out}")


def main(default_buffer: str = OURS) -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.r2d2.train", description=__doc__.partition("\n")[0])
    parser.add_argument("--agent", choices=AGENTS, help="default: R2D2, or every agent with --seeds")
    parser.add_argument("--buffer", choices=REPLAYS, default=default_buffer, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, help="train with this many seeds, and write a record")
    args = parser.parse_args()
    if args.seed < 0:
        parser.error(f"--seed must be at least 0, got {args.seed}")
    if args.seeds is not None:
        names = [args.agent] if args.agent else list(AGENTS)
        out = RUNS / f"r2d2-{args.buffer}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        compare(names, args.seeds, out, args.buffer)
        return 0
    outcome = train(AGENTS[args.agent or "R2D2"], args.seed, buffer=args.buffer)
    print(
        f"{'solved' if outcome.solved else 'not solved'} after {outcome.steps:,} learner steps, "
        f"{outcome.transitions:,} transitions"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
