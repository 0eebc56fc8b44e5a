"""The conformance section: observations with evidence, and a sign next to the speeds of peers that failed."""

import pytest

from reports.build import build
from results import load, save

from .conftest import figures_of
from .synthetic_runs import throughput_run

pytestmark = pytest.mark.usefixtures("without_pictures")

#: Invented: what was observed of each peer, whether it is wrong, and whether it is a hazard. None: has no priorities.
SEEN = {
    "cpprb_impl": {"round_trip": "bit for bit: 64 rows", "stale_update": "ignored: 40 draws"},
    "cpprb": {"round_trip": "bit for bit: 64 rows", "stale_update": "changes the new row: 40 | 40 draws"},
    "rllib": {"round_trip": "changed: obs 0.1 came back as 0.2 <b>", "stale_update": None},
}
HAZARD, WRONG = ("cpprb", "stale_update"), ("rllib", "round_trip")


@pytest.fixture(scope="module")
def run():
    made = throughput_run(peers=tuple(SEEN))
    made.add_workload(
        name="numbered", version="1", source="synthetic", transitions=1, row_bytes=41, sha256="cd" * 32,
        fields={"obs": {"shape": [4], "dtype": "float32"}},
    )  # fmt: skip
    for peer, words in SEEN.items():
        for check, seen in words.items():
            record = made.cell(
                suite="conformance", benchmark=check, peer=peer, workload="numbered", params={"draws": 40},
                unit="draws", better="higher",
            )  # fmt: skip
            if seen is None:
                record.fail("skipped", f"{peer} has no priorities (synthetic)")
                continue
            record.seen, record.hazard = seen, (peer, check) == HAZARD
            record.add_sample(0, 40)
            if (peer, check) == WRONG:
                record.fail("wrong", f"{check}: {seen}\npython -m suites.conformance --peer={peer}")
    return made


@pytest.fixture(scope="module")
def pages(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    save(folder / "run.json", run)
    return [path.read_text(encoding="utf-8") for path in build(load(folder / "run.json"), folder)]


def test_each_observation_appears_in_its_table(pages):
    told = figures_of(pages[1])
    where, trip = "Conformance: numbered", "What is stored: round trip of a row"
    late = "Priorities: set for an overwritten row"
    assert told[where, "cpprb_impl", trip] == "bit for bit"
    assert told[where, "rllib ◊", trip] == "wrong: changed"
    assert told[where, "cpprb", late] == "! changes the new row"  # promised, but dangerous
    assert told[where, "rllib ◊", late] == "skipped"
    found = pages[1].split("\n## What was found")[1].split("\n## ")[0]
    assert "| 1 | rllib | wrong: round_trip: changed" in found
    assert "<code>.venv/bin/python -m suites.conformance --peer=rllib</code>" in found


def test_an_observation_cannot_inject_markup_into_the_page(pages):
    assert "0.2 &lt;b&gt;" in pages[0] and "0.2 <b>" not in pages[0]


def test_a_peer_that_failed_a_check_has_a_sign_with_an_explanation(pages):
    told = figures_of(pages[1])
    peers = {peer for where, peer, _ in told if where.startswith("Throughput")}
    assert peers == {"cpprb_impl", "cpprb", "rllib ◊"}
    assert "◊ failed a conformance check" in pages[1]


def test_a_failed_check_is_a_result_not_a_missing_figure(pages, run):
    assert f"{run.declared - 1} of {run.declared} declared cells have a result" in pages[1]


def test_a_run_of_speeds_only_does_not_mention_conformance(tmp_path):
    markdown = build(throughput_run(blocks=1), tmp_path)[1].read_text(encoding="utf-8")
    assert "Conformance" not in markdown and "◊" not in markdown
