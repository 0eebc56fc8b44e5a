"""What each peer can do, and how that is known: its adapter's statement, the evidence, and what this run observed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reports.figures.formatting import NOTHING
from reports.figures.peers import evidence_of, without_evidence
from reports.sections.section import Context, Part, Section
from reports.tables.crowding import is_scaling
from results import Peer, Run

PEERS_PER_TABLE = 6

#: feature -> the (suite, benchmark) cells that demonstrate it; the first with a result is named
SHOWN_BY = {
    "batch_add": [("throughput", "add")],
    "prioritized": [("conformance", "prioritized"), ("throughput", "prioritized")],
    "weights": [("conformance", "weights"), ("throughput", "prioritized")],
    "duplicates": [("conformance", "replacement")],
    "gives": [("conformance", "shape"), ("throughput", "sample")],
    "copies_on_add": [("conformance", "references")],
    "compression": [("throughput", "compressed_sample"), ("memory", "both")],
    "processes": [("integrity", "torn"), ("sharing", "adds"), ("apex", "explorers")],
}
ORDER = (
    "batch_add",
    "flexible_fields",
    "n_step",
    "prioritized",
    "weights",
    "duplicates",
    "gives",
    "copies_on_add",
    "compression",
    "disk",
    "processes",
    "machines",
    "framework",
    "licence",
    "last_release",
)
#: Names for features in the tables, if the key alone is not clear enough.
LABELS = {
    "n_step": "n-step",
    "duplicates": "repeated rows in a batch",
    "gives": "a sample returns",
    "disk": "saving to disk",
    "processes": "across processes",
    "machines": "across machines",
}
STATED = "stated by its adapter"
EXPLAINED = (
    "Each entry is followed by its evidence: seen in this run or by a test of this project, stated by the peer's "
    "documentation or its installed package, or stated only by its adapter."
)


@dataclass(frozen=True)
class Fact:
    """One cell: what the adapter states, and the evidence for it."""

    text: str
    evidence: str = ""


@dataclass(frozen=True)
class FeatureTable:
    peers: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Fact]]]


@dataclass(frozen=True)
class Features:
    tables: Sequence[FeatureTable]
    explained: str = EXPLAINED


def parts(context: Context) -> list[Part]:
    scaling = [jobs for jobs in context.ranking.values() if is_scaling(jobs)]
    apart = {peer for jobs in scaling for job in jobs for peer in job.cells}
    return [Part("features", "features", "What each peer can do", Features(feature_tables(context.run, apart)))]


def feature_tables(run: Run, apart: Collection[str]) -> list[FeatureTable]:
    """Return tables whose columns are peers, few enough per table to read without scrolling. The peers in `apart` get
    separate tables after the others."""
    groups = (
        [peer for peer in run.peers if peer.name not in apart],
        [peer for peer in run.peers if peer.name in apart],
    )
    tables = []
    for group in groups:
        # Split evenly: seven peers become four and three, not six and one.
        parts = math.ceil(len(group) / PEERS_PER_TABLE)
        width = math.ceil(len(group) / parts) if parts else 1
        tables += [_table(run, group[start : start + width]) for start in range(0, len(group), width)]
    return tables


def _table(run: Run, peers: Sequence[Peer]) -> FeatureTable:
    names = {name for peer in peers for name in peer.features}
    ordered = [name for name in ORDER if name in names] + sorted(names - set(ORDER))
    rows = [("version", [Fact(peer.version or NOTHING) for peer in peers])]
    rows += [(LABELS.get(name, name.replace("_", " ")), [_fact(run, peer, name) for peer in peers]) for name in ordered]
    rows.append(("how it is used here", [Fact(peer.usage or NOTHING) for peer in peers]))
    return FeatureTable([peer.name for peer in peers], rows)


def _fact(run: Run, peer: Peer, feature: str) -> Fact:
    stated = peer.features.get(feature, "")
    if not stated:
        return Fact(NOTHING)
    known = [evidence_of(stated), _seen(run, peer, feature)]
    return Fact(without_evidence(stated), "; ".join(filter(None, known)) or STATED)


def _seen(run: Run, peer: Peer, feature: str) -> str:
    """Name the cell of this run that demonstrates the feature. Only the peer's own records count, since a variant uses
    other classes of its library."""
    for suite, benchmark in SHOWN_BY.get(feature, ()):
        for record in run.records:
            if (record.peer, record.suite, record.benchmark) == (peer.name, suite, benchmark) and record.ok:
                return f"seen in this run: {suite}, {benchmark.replace('_', ' ')}"
    return ""


SECTION = Section(parts)
