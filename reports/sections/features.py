"""What each peer can do, and how this is known: its adapter's statement, the evidence, and the observations of this
run."""

from __future__ import annotations

from collections.abc import Iterator

from reports.figures.peers import evidence_of, without_evidence
from reports.sections.section import Context, Part
from results import RecordedPeer, Run

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
#: feature -> its name in the tables, in this order; others follow.
NAMES = {
    "batch_add": "batch add",
    "flexible_fields": "flexible fields",
    "n_step": "n-step",
    "prioritized": "prioritized",
    "weights": "weights",
    "duplicates": "repeated rows in a batch",
    "gives": "a sample returns",
    "copies_on_add": "copies on add",
    "compression": "compression",
    "disk": "saving to disk",
    "processes": "across processes",
    "machines": "across machines",
    "framework": "framework",
    "licence": "licence",
    "last_release": "last release",
}
STATED = "stated by its adapter"


def parts(context: Context) -> Iterator[Part]:
    run = context.run
    stated = {name for peer in run.peers for name in peer.features}
    names = [name for name in NAMES if name in stated] + sorted(stated - NAMES.keys())
    columns = ["buffer", "version", *(NAMES.get(name, name.replace("_", " ")) for name in names), "how it is used here"]
    rows = [[peer.name, peer.version, *(_fact(run, peer, name) for name in names), peer.usage] for peer in run.peers]
    yield Part("features", "features", "What each peer can do", {"columns": columns, "rows": rows})


def _fact(run: Run, peer: RecordedPeer, feature: str) -> str:
    """Return the adapter's statement, followed by its evidence in parentheses."""
    stated = peer.features.get(feature, "")
    if not stated:
        return ""
    known = "; ".join(filter(None, [evidence_of(stated), _seen(run, peer, feature)]))
    return f"{without_evidence(stated)} ({known or STATED})"


def _seen(run: Run, peer: RecordedPeer, feature: str) -> str:
    """Name the cell of this run that demonstrates the feature. Only the peer's own records count, since a variant uses
    other classes of its library."""
    for suite, benchmark in SHOWN_BY.get(feature, ()):
        for record in run.records:
            if (record.peer, record.suite, record.benchmark) == (peer.name, suite, benchmark) and record.ok:
                return f"seen in this run: {suite}, {benchmark.replace('_', ' ')}"
    return ""
