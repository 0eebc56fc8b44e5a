"""The contents of the page as plain values: runs, peers, jobs, and each cell's samples.

The page computes figures and ratios from them, by the rules of `results/frames.py`, because its reader chooses the
reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from reports.checks import conformance, integrity
from reports.commands import narrowed
from reports.figures.peers import without_evidence
from reports.sections import context_of
from reports.sections.section import Context
from results import Record, RecordedPeer, Run
from results.jobs import Job
from results.machine import processor
from results.record import first_line
from results.suites import SUITES, suite_of
from results.verdicts import FEWEST_CALLS, library_of

#: Significant digits of a sample, except a checksum.
DIGITS, CHECKSUM = 5, "CRC-32"
#: Placeholders for a peer and a suite, in a command that measures a cell again.
PEER, SUITE = "<peer>", "<suite>"


#: suite -> the figures and parameters that its table shows at first, for suites with too many columns.
VIEWS: Mapping[str, Mapping[str, Any]] = {
    "apex": {
        "benchmark": ["explorers", "learner"],
        "environment": "real",
        "learner": "0 us",
        "capacity": 1_000_000,
        "rows": 100,
    },
    "hosts": {"benchmark": ["learner", "explorer"]},
    "solve_time": {"benchmark": ["solved", "seconds", "transitions", "steps"]},
    "paired_training": {
        "benchmark": ["relative_speed", "steps", "in_buffer", "memory", "needed", "solved", "weights"],
    },
}


#: Suites of buffers that processes share.
SHARING = ("apex", "integrity", "solve_time", "hosts")
#: Whether the checks between processes were passed, in words, the worst outcome first.
SAFETY = {False: "unsafe", True: "sound", None: "not tested"}


class TextTable:
    """Texts that many cells share, each stored once. A cell stores the index of its text."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def index(self, text: str | None) -> int:
        """Return the index of this text, or -1 for none."""
        return -1 if text is None else self.texts.setdefault(text, len(self.texts))


def payload(runs: Mapping[str, Run], left_out: Iterable[str] = ()) -> dict[str, Any]:
    """Return the page's data. `runs` maps the name of each file to its run, the newest first; `left_out` names bad
    files."""
    contexts = {name: context_of(run) for name, run in runs.items()}
    texts = TextTable()
    peers = {peer.name: peer for run in reversed(runs.values()) for peer in run.peers}
    names = list(peers)
    shown = {job.suite for context in contexts.values() for job in context.jobs}
    return {
        "fewestCalls": FEWEST_CALLS,
        "suites": {name: _suite(name) for name in [*SUITES, *sorted(shown - SUITES.keys())] if name in shown},
        "workloads": {
            workload.name: {"bytes": workload.row_bytes, "source": workload.source}
            for run in runs.values()
            for workload in run.workloads
        },
        "peers": [_peer(peer, contexts.values()) for peer in peers.values()],
        "runs": [_run(name, context, names, texts) for name, context in contexts.items()],
        "texts": list(texts.texts),
        "leftOut": list(left_out),
    }


def _suite(name: str) -> dict[str, Any]:
    suite = suite_of(name)
    return {
        "title": suite.title,
        "reference": suite.reference,
        "kind": suite.kind.name,
        "counts": list(suite.counts),
        "note": suite.note,
        "about": dict(suite.meanings),
        "view": VIEWS.get(name, {}),
    }


def _peer(peer: RecordedPeer, contexts: Collection[Context]) -> dict[str, Any]:
    """Return what is known about a peer; for each of its checks, this is the worst outcome in any record."""
    here = [context for context in contexts if any(each.name == peer.name for each in context.run.peers)]
    safety = [found for context in here if (found := integrity.outcomes(context.run).get(peer.name))]
    contract = [found for context in here if (found := conformance.outcomes(context.run).get(peer.name))]
    shares = any(record.suite in SHARING and record.peer == peer.name for each in here for record in each.run.records)
    worst = min(safety, key=lambda each: list(SAFETY).index(each.passed), default=None)
    broken = next((found for found in contract if found.passed is False), None)
    return {
        "name": peer.name,
        "library": library_of(peer.name),
        "version": peer.version or "",
        "usage": peer.usage,
        "framework": without_evidence(peer.features.get("framework", "")),
        "keeps": peer.known.keeps_references or "never",
        "safety": SAFETY[worst.passed] if worst else "not tested" if shares else "one process",
        "fault": worst.found if worst else "",
        "contract": "broken" if broken else "kept" if any(found.passed for found in contract) else "not tested",
        "breach": broken.found if broken else "",
    }


def _run(name: str, context: Context, peers: Sequence[str], texts: TextTable) -> dict[str, Any]:
    run = context.run
    return {
        "name": name,
        "machine": f"{processor(run.machine)}, {run.machine['cores']} cores",
        "date": run.started[:16].replace("T", " "),
        "profile": run.profile,
        "revision": run.revision,
        "command": narrowed(run.command, PEER, [SUITE]) if run.kind == "bench" else "",
        "jobs": [_job(job) for job in context.jobs],
        "cells": [
            _cell(number, peers.index(peer), record, texts)
            for number, job in enumerate(context.jobs)
            for peer, record in job.cells.items()
        ],
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "suite": job.suite,
        "benchmark": job.benchmark,
        "workload": job.workload,
        "label": job.label,
        "params": dict(job.params),
        "unit": job.unit,
        "better": job.better,
    }


def _cell(job: int, peer: int, record: Record, texts: TextTable) -> list[Any]:
    """Return [job, peer, status, reason, seen, values, blocks, calls, hazard]; `blocks` is 0 instead of 0, 1, 2 ..."""
    samples = [] if record.status == "invalidated" else record.samples
    blocks = [sample.block for sample in samples]
    calls = [sample.calls for sample in samples if sample.calls is not None]
    return [
        job,
        peer,
        texts.index(record.status),
        texts.index(first_line(record.reason) or None),
        texts.index(record.seen),
        [sample.value if record.unit == CHECKSUM else float(f"{sample.value:.{DIGITS}g}") for sample in samples],
        0 if blocks == list(range(len(blocks))) else blocks,
        min(calls, default=0),
        int(record.hazard),
    ]
