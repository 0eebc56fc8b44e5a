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
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import cast

from adapters import registry, sequence_checks, venvs
from adapters.base import Adapter, Unavailable
from adapters.behaviours import Meaning
from adapters.child_process import exit_with_parent
from adapters.contract import Contract
from adapters.sequences import SequenceContract
from adapters.venvs import NotInstalled
from suites.check.probes import draws as probes_draws
from suites.check.probes import edges as probes_edges
from suites.check.probes import numbered
from suites.check.probes import rows as probes_rows
from suites.check.probes.probing import BufferPool, Seen
from suites.conformance.spec import BENCHMARKS, SEQUENCE, SUITE, ConformanceSettings
from suites.runner import entry
from suites.runner.results import Result, failure

REPETITIONS = 2  # of a wrong result, which is withdrawn if all of them are sound
PART_SECONDS = 120.0  # limit for a part that announces no risky call; it may start a server or compile code

#: probe -> the checks that it observes; dangerous probes come last
PARTS: Mapping[Callable[[BufferPool], Mapping[str, Seen]], tuple[str, ...]] = {
    probes_rows.come_back: ("round_trip", "dtype", "shape"),
    probes_rows.ring: ("ring_order",),
    probes_rows.given_back: ("returned_batch",),
    probes_rows.kept_from_caller: ("references",),
    probes_draws.even: ("uniform",),
    probes_draws.by_priority: ("prioritized",),
    probes_draws.added: ("new_row_priority", "given_priority"),
    probes_draws.importance: ("weights",),
    probes_draws.repeats: ("replacement", "prioritized_replacement"),
    probes_draws.seeds: ("seed",),
    probes_edges.stale: ("stale_update",),
    probes_edges.too_many: ("batch_over_stored",),
    probes_edges.too_early: ("empty",),
    probes_edges.not_a_number: ("nan_priority",),
    probes_edges.negative: ("negative_priority",),
    probes_edges.infinite: ("infinite_priority",),
}
BY_PRIORITY = {
    *("prioritized", "new_row_priority", "given_priority", "weights", "prioritized_replacement"),
    *("stale_update", "nan_priority", "negative_priority", "infinite_priority"),
}
STREAMS = 2  # of steps, in the checks of sequences
NOT_CONSECUTIVE = "the steps of its sequences are not consecutive"
RISK = "risk"  # a worker's announcement of a call that may never return


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
    for part, checks in list(PARTS.items())[first : last + 1]:
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


class Worker:
    """A worker process, as seen by its watcher."""

    def __init__(self, peer: str, setting: ConformanceSettings, first: int, last: int = len(PARTS) - 1) -> None:
        self._reads, writes = os.pipe()
        arguments = [
            *SUITE.command(peer, setting.options()),
            f"--worker={writes}",
            f"--first={first}",
            f"--last={last}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=[writes]
        )
        os.close(writes)
        self._rest = b""

    def line(self, seconds: float) -> object:
        """Return the worker's next message. Raises TimeoutError if it is late, and EOFError if the worker ended."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._reads, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                part = os.read(self._reads, 1 << 16)
                if not part:
                    raise EOFError
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def end(self) -> str:
        """Kill the worker, and return a description of how it ended."""
        self._process.kill()
        status = self._process.wait()
        os.close(self._reads)
        return f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"


def watch(peer: str, setting: ConformanceSettings) -> Iterator[Mapping[str, dict]]:
    """Yield the observations of each part: check -> the fields of a `Seen`, or an outcome and its reason."""
    worker = Worker(peer, setting, 0)
    try:
        for number, checks in enumerate(PARTS.values()):
            said, ended = _observe(worker, checks, setting)
            if ended:
                worker = Worker(peer, setting, number + 1)
            yield said
    finally:
        worker.end()


def _observe_again(peer: str, setting: ConformanceSettings, number: int, repetition: int) -> Mapping[str, dict]:
    """Return the observations of one part, made with a different seed by a worker that runs no other part."""
    worker, ended = Worker(peer, replace(setting, seed=setting.seed + repetition), number, number), False
    try:
        said, ended = _observe(worker, list(PARTS.values())[number], setting)
    finally:
        if not ended:
            worker.end()
    return said


def _observe(worker: Worker, checks: Sequence[str], setting: ConformanceSettings) -> tuple[Mapping[str, dict], bool]:
    """Return the observations of the worker's next part, and whether the worker ended or had to be ended."""
    bold = False
    try:
        while (said := worker.line(setting.patience if bold else PART_SECONDS)) == RISK:
            bold = True
    except (TimeoutError, EOFError) as error:
        hung, ended = isinstance(error, TimeoutError), worker.end()
        return {check: _silent(check, hung, bold, ended, setting) for check in checks}, True
    return cast("Mapping[str, dict]", said), False


def _silent(check: str, hung: bool, bold: bool, ended: str, setting: ConformanceSettings) -> dict:
    word = "waits" if hung else "kills the process"
    if bold and word in list(Contract.CHECKS[check]):
        about = f"the call had not returned after {setting.patience:g} s" if hung else f"the process ended with {ended}"
        return asdict(Seen(word, about, 1))
    return {"outcome": "failed", "reason": f"hung for {PART_SECONDS:.0f} s" if hung else f"died with {ended}"}


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
    for number, (checks, said) in enumerate(zip(PARTS.values(), watch(peer, setting), strict=True)):
        found = {check: judged(check, report) for check, report in said.items()}
        if any(each["outcome"] == "wrong" for each in found.values()):
            doubtful.append((number, found))
            continue
        yield from (result(check, **found[check]) for check in found)
        lacking = [check for check in checks if check not in found]
        yield from (result(check, outcome="skipped", reason=f"{peer} has no priorities") for check in lacking)
    for number, found in doubtful:
        repeat = partial(_observe_again, peer, setting, number)
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
            work(
                args.peer, settings, args.first, args.last, lambda said: print(json.dumps(said), file=pipe, flush=True)
            )

    return entry.main(SUITE, __doc__, options, figures, peers=registry.every())


if __name__ == "__main__":
    sys.exit(main())
