"""Conformance: does a peer do what it promises, and what every buffer must do?

    python -m suites.conformance --peer NAME [--draws N] [--patience S] [--seed N] [--cells FILE]

Each check drives the peer and observes one behaviour (`adapters.behaviours`), which is compared with the one that the
peer's contract states. The record stores the observed word and the evidence for it. A figure says how much was checked.
A wrong result is repeated up to twice with different seeds, and withdrawn only if both repetitions are sound. If a peer
does better than its contract states, this is no finding: the evidence then says that the adapter is out of date.

Some calls may never return, or may end the process, so a worker process makes the calls while another process watches.
The worker announces such a call in advance. If it then reports nothing within the patience, the observed behaviour is
"waits", and another worker continues with the next checks.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial

from adapters import registry, sequence_checks, venvs
from adapters.base import Adapter, Unavailable
from adapters.behaviours import Meaning
from adapters.child_process import exit_with_parent
from adapters.contract import Contract
from adapters.sequences import SequenceContract
from adapters.venvs import NotInstalled
from suites.check.checks import BY_PRIORITY, OVER_ADAPTER
from suites.check.probes import numbered
from suites.check.probes.probing import BufferPool, Seen
from suites.check.watching import RISK, Ended, Limits, Worker, watch
from suites.conformance.spec import BENCHMARKS, SEQUENCE, SUITE, ConformanceSettings
from suites.runner import entry
from suites.runner.results import Result, failure

REPETITIONS = 2  # of a wrong result, which is withdrawn if all of them are sound
PART_SECONDS = 120.0  # limit for a part that announces no risky call; it may start a server or compile code

STREAMS = 2  # of steps, in the checks of sequences
NOT_CONSECUTIVE = "the steps of its sequences are not consecutive"


def judge(contract: Contract | SequenceContract, check: str, seen: Seen, again: str) -> dict:
    """Return the fields of the result for this observation."""
    promised, observed = contract.behaviours[check], contract.CHECKS[check](seen.word)
    said = {"value": float(seen.looked_at), "seen": f"{seen.word}: {seen.evidence}"}
    if observed.meaning is Meaning.SOUND and promised.meaning is not Meaning.SOUND:
        said["seen"] += f"; better than {promised.value!r}: the adapter's contract is out of date"
    elif observed not in promised.kept_by:
        reason = f"{check}: {seen.word}, but the adapter promises {promised.value!r} ({seen.evidence})\n{again}"
        return {"outcome": "wrong", "reason": reason} | said
    if observed.meaning is Meaning.FAULT:
        return {"outcome": "wrong", "reason": f"{check}: {seen.word} ({seen.evidence})\n{again}"} | said
    return {"outcome": "ok", "hazard": observed.meaning is Meaning.HAZARD} | said


# The worker: runs the parts, starting with a given one, and reports to its parent line by line.


def work(peer: str, setting: ConformanceSettings, first: int, last: int, tell: Callable[[object], None]) -> None:
    kind = registry.adapter_class(peer)
    pool = BufferPool(kind, setting, announce_risk=lambda: tell(RISK))
    tell("ready")
    for part, checks in list(OVER_ADAPTER.items())[first : last + 1]:
        if not pool.has_priorities and set(checks) <= BY_PRIORITY:
            tell({})
            continue
        try:
            tell({check: asdict(seen) for check, seen in part(pool).items()})
        except Exception as error:
            outcome, reason = failure(error)
            tell({check: {"outcome": outcome, "reason": reason} for check in checks})
    pool.close()


# Sequences. No probe of them is known to hang a peer, so they need no worker.


def measure_sequences(peer: str, setting: ConformanceSettings) -> Iterator[Result]:
    """Yield the result of each check of a peer that draws sequences."""
    result = partial(Result, peer=peer, workload=numbered.WORKLOAD, params=setting.params)
    kind, every = registry.sequences_class(peer), SequenceContract.CHECKS
    again = shlex.join([venvs.shown(kind.venv), *SUITE.command(peer, setting.options())])
    for prioritized in (False, True):
        checks = [check for check in every if check.startswith("prioritized") is prioritized]
        try:
            found = sequence_checks.observed(
                kind, prioritized=prioritized, streams=STREAMS, seed=setting.seed, draws=setting.draws
            )
        except Exception as error:
            outcome, reason = failure(error)
            yield from (result(SEQUENCE + check, outcome=outcome, reason=reason) for check in checks)
            continue
        for check in checks:
            if check in found:
                seen = Seen(found[check].word, found[check].evidence, found[check].looked_at)
                yield result(SEQUENCE + check, **judge(kind.sequences, check, seen, again))
            else:
                yield result(SEQUENCE + check, outcome="skipped", reason=NOT_CONSECUTIVE)


# The watcher.


def _start(
    peer: str, setting: ConformanceSettings, limits: Limits, first: int, last: int = len(OVER_ADAPTER) - 1
) -> Worker:
    command = [sys.executable, *SUITE.command(peer, setting.options()), f"--first={first}", f"--last={last}"]
    return Worker(command, limits)


def _silent(check: str, ended: Ended, setting: ConformanceSettings) -> dict:
    """Return the report of a check whose part did not finish."""
    word = "waits" if ended.hung else "kills the process"
    if ended.announced and word in list(Contract.CHECKS[check]):
        patience = f"the call had not returned after {setting.patience:g} s"
        about = patience if ended.hung else f"the process ended with {ended.how}"
        return asdict(Seen(word, about, 1))
    return {"outcome": "failed", "reason": f"hung for {PART_SECONDS:.0f} s" if ended.hung else f"died with {ended.how}"}


def _observe_again(
    peer: str, setting: ConformanceSettings, limits: Limits, number: int, repetition: int
) -> Mapping[str, dict]:
    """Return the observations of one part, made with a different seed by a worker that runs no other part."""
    again = replace(setting, seed=setting.seed + repetition)
    start = partial(_start, peer, again, limits, last=number)
    (reports,) = watch(
        lambda _: start(number), [list(OVER_ADAPTER.values())[number]], limits, partial(_silent, setting=setting)
    )
    return reports


def measure(peer: str, setting: ConformanceSettings) -> Iterator[Result]:
    """Yield the result of each check as soon as it is known."""
    result = partial(Result, peer=peer, workload=numbered.WORKLOAD, params=setting.params)
    kind = registry.adapter_class(peer)
    try:
        kind.version()
    except (Unavailable, NotInstalled) as error:
        outcome, reason = failure(error)
        yield from (result(check, outcome=outcome, reason=reason) for check in BENCHMARKS)
        return
    judged = partial(_judged, kind, shlex.join([venvs.shown(kind.venv), *SUITE.command(peer, setting.options())]))
    doubtful: list[tuple[int, Mapping[str, dict]]] = []  # repeated after the first worker has ended
    limits, silent = Limits(setting.patience, PART_SECONDS, PART_SECONDS), partial(_silent, setting=setting)
    observed = watch(partial(_start, peer, setting, limits), list(OVER_ADAPTER.values()), limits, silent)
    for number, (checks, said) in enumerate(zip(OVER_ADAPTER.values(), observed, strict=True)):
        found = {check: judged(check, report) for check, report in said.items()}
        if any(each["outcome"] == "wrong" for each in found.values()):
            doubtful.append((number, found))
            continue
        yield from (result(check, **found[check]) for check in found)
        lacking = [check for check in checks if check not in found]
        yield from (result(check, outcome="skipped", reason=f"{peer} has no priorities") for check in lacking)
    for number, found in doubtful:
        repeat = partial(_observe_again, peer, setting, limits, number)
        yield from (result(check, **each) for check, each in _confirmed(found, judged, repeat).items())


def _judged(kind: type[Adapter], again: str, check: str, report: dict) -> dict:
    """Return the fields of the result for a worker's report about a check."""
    return judge(kind.contract, check, Seen(**report), again) if "word" in report else report


def _confirmed(
    found: Mapping[str, dict], judged: Callable[[str, dict], dict], repeat: Callable[[int], Mapping[str, dict]]
) -> Mapping[str, dict]:
    """Return the results. A wrong result is withdrawn only if every repetition is sound, and is then replaced by the
    last repetition; a repetition that crashes, hangs or fails confirms it."""
    doubtful, instead = {check for check, each in found.items() if each["outcome"] == "wrong"}, {}
    for repetition in range(1, REPETITIONS + 1):
        said = repeat(repetition) if doubtful else {}
        for check in sorted(doubtful):
            again = judged(check, said[check])
            if again["outcome"] == "ok":
                instead[check] = again
            else:
                doubtful.discard(check)
    return {**found, **{check: instead[check] for check in doubtful}}


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_settings(ConformanceSettings(), parser)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--last-call", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=0, help=argparse.SUPPRESS)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        settings = entry.settings_of(ConformanceSettings, args)
        if args.peer in registry.sequences():
            yield from measure_sequences(args.peer, settings)
            return
        if args.worker is None:
            yield from measure(args.peer, settings)
            return
        exit_with_parent(os.getppid())
        with os.fdopen(args.worker, "w") as pipe:
            tell = lambda said: print(json.dumps(said), file=pipe, flush=True)  # noqa: E731
            work(args.peer, settings, args.first, args.last, tell)

    return entry.main(SUITE, __doc__, options, figures, peers=registry.every())


if __name__ == "__main__":
    sys.exit(main())
