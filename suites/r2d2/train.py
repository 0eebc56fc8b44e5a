"""R2D2 on a task that needs memory, with explorers that share a prioritized buffer of sequences.

    python -m suites.r2d2.train [--seed 0] [--agent R2D2]
    python -m suites.r2d2.train --seeds 5 [--out FILE]      every agent with the seeds 0 to 4, and a record

A training ends when an evaluation of 100 greedy episodes reaches 0.9 of the best return, or after the last learner
step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cpprb_impl import MPPrioritizedReplayBuffer
from cpprb_impl.torch import TensorSampler
from results import machine
from suites.apex_dqn.dqn import flat_weights
from suites.apex_dqn.processes import Forked
from suites.r2d2.explorer import ENVIRONMENTS, EXPLORERS, LEAST_ROWS, ROWS, explore, score
from suites.r2d2.learner import AGENTS, Agent, SequenceLearner
from suites.r2d2.task import BEST, OBS, SOLVED

RUNS = Path(__file__).resolve().parents[2] / "results" / "runs"
CAPACITY, BATCH, ALPHA, BETA = 50_000, 32, 0.9, 0.6
PUBLISH_EVERY, EVALUATE_EVERY = 10, 50  # learner steps
LAST_STEP = 2_000


@dataclass(frozen=True)
class TaskOutcome:
    """The result of a training."""

    solved: bool
    steps: int  # of the learner
    transitions: int
    scores: list[float]  # the mean return of each evaluation, one per `EVALUATE_EVERY` learner steps


def buffer_for(agent: Agent, seed: int) -> MPPrioritizedReplayBuffer:
    return MPPrioritizedReplayBuffer(
        CAPACITY,
        {
            "obs": {"shape": OBS},
            "next_obs": {"shape": OBS},
            "act": {"shape": (), "dtype": np.int64},
            "rew": {"shape": ()},
            "done": {"shape": (), "dtype": bool},
            "state": {"shape": 2 * agent.units},
        },
        n_envs=ENVIRONMENTS,
        sequences={
            "size": agent.size,
            "burn_in": agent.burn_in,
            "period": agent.size // 2,
            "ends": "pad",
            "state": "state",
        },
        alpha=ALPHA,
        seed=seed,
    )


def train(agent: Agent, seed: int, last_step: int = LAST_STEP) -> TaskOutcome:
    """Train until the task is solved, or until the last learner step. Raises RuntimeError if an explorer dies."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    learner, scores = SequenceLearner(agent), []
    weights = flat_weights(learner.network)
    with closing(buffer_for(agent, seed)) as buffer, closing(Forked(EXPLORERS, len(weights))) as starter:
        starter.weights.publish(0, weights)
        progress, sampler = starter.progress, TensorSampler(buffer)
        explorers = [
            starter.start(explore, number, agent, seed, buffer, starter.weights, progress)
            for number in range(EXPLORERS)
        ]
        while learner.steps < last_step:
            while sum(progress.transitions) < LEAST_ROWS + ROWS * learner.steps:
                for number, each in enumerate(explorers):
                    if not each.is_alive():
                        raise RuntimeError(f"explorer {number} died with exit code {each.exitcode}")
                time.sleep(0.001)
            batch = sampler.sample_sequences(BATCH, beta=BETA)
            buffer.update_priorities(batch["indexes"], learner.step(batch))
            progress.steps.value = learner.steps
            if learner.steps % PUBLISH_EVERY == 0:
                starter.weights.publish(learner.steps, flat_weights(learner.network))
            if learner.steps % EVALUATE_EVERY == 0:
                scores.append(score(learner.network, agent, 1_000_000 * (seed + 1) + learner.steps))
                print(f"{learner.steps:6,} learner steps  score {scores[-1]:.2f} of {BEST:g}", flush=True)
                if scores[-1] >= SOLVED:
                    break
        return TaskOutcome(bool(scores) and scores[-1] >= SOLVED, learner.steps, sum(progress.transitions), scores)


def compare(seeds: int, out: Path) -> None:
    """Train every agent with the seeds 0 to `seeds` - 1, and write a record."""
    trainings: list[dict[str, Any]] = []
    record = {
        "command": f"python -m suites.r2d2.train --seeds {seeds}",
        "started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "revision": machine.revision(),
        "machine": machine.describe() | {"torch": torch.__version__},
        "agents": {name: asdict(agent) for name, agent in AGENTS.items()},
        "solved_at": SOLVED,
        "trainings": trainings,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(seeds):
        for name, agent in AGENTS.items():
            print(f"{name}, seed {seed}", flush=True)
            trainings.append({"agent": name, "seed": seed, **asdict(train(agent, seed))})
            out.write_text(json.dumps(record, indent=1) + "\n")
    for name in AGENTS:
        done = [each for each in trainings if each["agent"] == name]
        print(f"{name}: solved by {sum(each['solved'] for each in done)} of {seeds} seeds")
    print(f"record: {out}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.r2d2.train", description=__doc__.partition("\n")[0])
    parser.add_argument("--agent", choices=AGENTS, default="R2D2", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--seeds", type=int, help="train every agent with this many seeds, and write a record")
    parser.add_argument("--out", type=Path, help="of the record; default: a new file in results/runs/")
    args = parser.parse_args()
    if args.seed < 0:
        parser.error(f"--seed must be at least 0, got {args.seed}")
    if args.seeds is not None:
        compare(args.seeds, args.out or RUNS / f"r2d2-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json")
        return 0
    outcome = train(AGENTS[args.agent], args.seed)
    print(
        f"{'solved' if outcome.solved else 'not solved'} after {outcome.steps:,} learner steps, "
        f"{outcome.transitions:,} transitions"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
