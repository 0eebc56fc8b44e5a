"""Learning: one Ape-X training run, until it has solved its task.

python -m suites.solve_time.measure --peer NAME [--env CartPole-v1] [--target 475] [--seconds 300] [--every 10]
       [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from suites.apex_dqn.progress import score_at
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.supervisor import Failed, TrainingOutcome, on_this_machine, train
from suites.runner import entry
from suites.runner.results import PeerTrouble, Result, failure
from suites.solve_time.spec import BENCHMARKS, EXPLORERS, SUITE, SolveTarget


def measure(peer: str, task: SolveTarget, seed: int) -> Iterator[Result]:
    """Yield the figures of one training run."""
    try:
        outcome = _train(peer, task, seed)
    except Exception as error:
        why, reason = failure(error)
        for name in BENCHMARKS:
            if name != "score":
                yield Result(name, peer, task.env, task.params, why, None, reason)
        for moment in task.moments:
            yield Result("score", peer, task.env, {**task.params, "second": moment}, why, None, reason)
        return
    figures = {
        "solved": float(outcome.solved),
        "seconds": outcome.seconds,
        "transitions": outcome.transitions,
        "steps": outcome.steps,
    }
    for name, value in figures.items():
        yield Result(name, peer, task.env, task.params, "ok", value)
    for moment in task.moments:
        score = score_at(outcome.evaluations, moment)
        yield Result("score", peer, task.env, {**task.params, "second": moment}, "ok", score)


def _train(peer: str, task: SolveTarget, seed: int) -> TrainingOutcome:
    settings = TrainingSettings(env=task.env, peer=peer, explorers=EXPLORERS, seed=seed)
    try:
        with on_this_machine(settings) as (adapter, starter):
            outcome = train(settings, adapter, starter, seconds=task.seconds, target=task.target)
    except Failed as error:
        raise PeerTrouble(str(error)) from error
    if not outcome.evaluations:
        raise PeerTrouble(f"no evaluation ended in {outcome.seconds:.0f} s")
    return outcome


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="CartPole-v1", help="default: %(default)s")
    parser.add_argument("--target", type=float, default=475.0, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=300, help="at most; default: %(default)s")
    parser.add_argument("--every", type=int, default=10, help="seconds between scores; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def main() -> int:
    def of(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, SolveTarget(args.env, args.target, args.seconds, args.every), args.seed)

    return entry.main(SUITE, __doc__, options, of)


if __name__ == "__main__":
    sys.exit(main())
