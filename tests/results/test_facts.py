"""Facts about a peer are values in new records, and are derived from sentences in old records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters import registry
from results import BadRecord, Run, load, save
from results.facts import Facts, facts_of

COPIES_SINGLE_ROWS = "one step: yes; a batch: no, keeps views of the caller's arrays"


def run_with(**peer: object) -> Run:
    machine = dict.fromkeys(("cpu", "kernel", "os", "python", "numpy", "compiler"), "x")
    run = Run("bench", "tiny", "unknown", "a command", machine | {"cores": 1, "memory_bytes": 1})
    run.add_peer("cpprb", "11.0.0", "as documented", **peer)
    return run


@pytest.mark.parametrize(
    ("features", "facts"),
    [
        ({}, Facts(adds_batches=True, returns_rows=False, keeps_references=None)),
        ({"batch_add": "yes, a list of episodes"}, Facts()),
        ({"batch_add": "no: a loop of single adds"}, Facts(adds_batches=False)),
        ({"batch_add": "only a row of each parallel environment a call"}, Facts(adds_batches=False)),
        ({"gives": "rows (stacked here)"}, Facts(returns_rows=True)),
        ({"gives": "columns"}, Facts()),
        ({"copies_on_add": "yes (a deep copy)"}, Facts(keeps_references="never")),
        ({"copies_on_add": "no: keeps references to the caller's arrays"}, Facts(keeps_references="always")),
        ({"copies_on_add": COPIES_SINGLE_ROWS}, Facts(keeps_references="batches")),
    ],
)
def test_an_old_record_has_its_facts_in_sentences(features: dict[str, str], facts: Facts, tmp_path: Path) -> None:
    save(tmp_path / "run.json", run_with(features=features))
    data = json.loads((tmp_path / "run.json").read_text())
    del data["peers"][0]["facts"]  # as in files from before there were facts
    (tmp_path / "run.json").write_text(json.dumps(data))
    assert load(tmp_path / "run.json").peer("cpprb").known == facts


def test_a_new_record_has_facts_as_values_that_do_not_depend_on_its_sentences(tmp_path: Path) -> None:
    facts = {"adds_batches": False, "returns_rows": True, "keeps_references": "batches"}
    save(tmp_path / "run.json", run_with(features={"batch_add": "yes", "gives": "columns"}, facts=facts))
    assert load(tmp_path / "run.json").peer("cpprb").known == Facts(**facts)


@pytest.mark.parametrize("facts", [{}, {"adds_batches": True}, {"keeps_references": "sometimes"}])
def test_incomplete_facts_are_refused(facts: dict, tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="facts"):
        save(tmp_path / "run.json", run_with(facts=facts))


@pytest.mark.parametrize("name", registry.every())
def test_a_peers_facts_can_be_stored(name: str) -> None:
    peer = registry.describe(name)
    assert peer.facts is not None and facts_of(peer.facts, {}) == Facts(**peer.facts)
