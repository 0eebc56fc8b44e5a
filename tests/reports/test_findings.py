"""Faults of a peer are findings, marked next to its speeds; figures lost by the harness or the budget are none."""

import re

import pytest

from reports.page import page_of
from reports.tables.budget import left_out
from results import Run, load, save

from .conftest import figures_of, pages_of, section
from .synthetic_runs import add_conformance, throughput_run
from .synthetic_use import add_latency, add_shared

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.fixture(scope="module")
def pages():
    run = throughput_run(blocks=3)
    add_shared(run, blocks=3)
    add_latency(run, blocks=3)
    run.minutes = 10.0
    for status, benchmark, reason in (
        ("broken", "sample", "the recording could not be read"),
        ("left_out", "add", "no time in the budget"),
        ("invalidated", "prioritized", "counted twice"),
    ):
        record = next(each for each in run.records if (each.peer, each.benchmark) == ("rllib", benchmark))
        record.status, record.reason = status, reason
        record.samples = [] if status == "left_out" else record.samples
        record.invalidated_at = "fedcba9876543210" if status == "invalidated" else None
    return pages_of(run)


def test_torn_rows_in_ape_x_are_a_finding_and_its_figures_are_marked(pages):
    markdown = pages[1]
    assert (
        "| 1 | cpprb[MP] | wrong: 3 of 20,672 rows were torn (synthetic) | rows checked N=4 on CartPole-v1 | "
        "<code>.venv/bin/python -m suites.apex '--peer=cpprb[MP]'</code> |" in section(markdown, "What was found")
    )
    assert "| explorers N=4 |" in section(markdown, "Which peer is fastest")
    assert ("Sharing: CartPole-v1", "cpprb[MP] ✗") in {where[:2] for where in figures_of(markdown)}
    assert "rows checked" not in section(markdown, "Ape-X") + section(markdown, "Which peer is fastest")
    assert "torn" not in section(markdown, "Missing figures")


def test_a_broken_harness_and_a_withdrawn_record_have_no_figure(pages):
    told = section(pages[1], "Missing figures")
    assert "| rllib | broken | sample 32 on CartPole-v1 | the recording could not be read |" in told
    assert (
        "| rllib | withdrawn at revision fedcba987654 | prioritized cycle 32 on CartPole-v1 | counted twice |" in told
    )
    assert "no time in the budget" not in told
    shown = {job.partition(",")[0]: text for (_, peer, job), text in figures_of(pages[1]).items() if peer == "rllib"}
    assert (shown["prioritized cycle 32"], shown["add 1"]) == ("invalidated", "left out")


def test_the_page_says_what_the_budget_left_out(pages):
    said = "The run took 8 minutes of its 10-minute budget. 1 cell was left out because of the budget: 1 cell of rllib."
    assert said in pages[0] and said in pages[1]


def test_latencies_do_not_rank_peers(pages):
    told = figures_of(pages[1])
    assert re.match(r"[\d.]+ 0\.034. \(", told["Latency: CartPole-v1", "reverb", "add p50, µs/call"])
    assert told["Latency: CartPole-v1", "reverb", "add p99.9, µs/call"] == "skipped"
    assert "p99.9" not in section(pages[1], "Which peer is fastest")


def test_a_run_without_a_budget_does_not_mention_one():
    assert left_out(throughput_run(peers=("cpprb",), blocks=1)) == ""
    run: Run = throughput_run(peers=("cpprb",), blocks=1)
    run.minutes = 10.0
    assert left_out(run) == "The run took 8 minutes of its 10-minute budget; no cell was left out."


def test_a_finding_without_a_command_is_reproduced_by_its_suite():
    run = throughput_run(blocks=3)
    run.command = "python -m suites.run --profile apex --peers 'cpprb_impl,cpprb' --minutes 10"
    add_shared(run, blocks=3)
    for record in run.records:
        record.reason = record.reason and record.reason.partition("\n")[0]
    markdown = page_of(run).markdown
    (row,) = (line for line in markdown.splitlines() if line.startswith("| 1 | cpprb[MP]"))
    assert row.endswith(
        "<code>.venv/bin/python -m suites.run --profile apex '--peers=cpprb[MP]' --suites=apex</code> |"
    )


#: Invented: what was observed of each peer, whether it is wrong, and whether it is a hazard. None: has no priorities.
SEEN = {
    "cpprb_impl": {"round_trip": "bit for bit: 64 rows", "stale_update": "ignored: 40 draws"},
    "cpprb": {"round_trip": "bit for bit: 64 rows", "stale_update": "changes the new row: 40 | 40 draws"},
    "rllib": {"round_trip": "changed: obs 0.1 came back as 0.2 <b>", "stale_update": None},
}
HAZARD, WRONG = ("cpprb", "stale_update"), ("rllib", "round_trip")


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Return a run and its report, which is made from the saved run."""
    made = throughput_run(peers=tuple(SEEN))
    add_conformance(made, SEEN)
    for record in made.records:
        record.hazard = (record.peer, record.benchmark) == HAZARD
        if (record.peer, record.benchmark) == WRONG:
            record.fail("wrong", f"round_trip: {record.seen}\npython -m suites.conformance --peer={record.peer}")
    path = tmp_path_factory.mktemp("run") / "run.json"
    save(path, made)
    return made, *pages_of(load(path))


def test_each_observation_appears_in_its_table_without_its_markup(checked):
    _, html, markdown = checked
    assert "0.2 &lt;b&gt;" in html and "0.2 <b>" not in html
    told = figures_of(markdown)
    where, trip = "Conformance: numbered", "What is stored: round trip of a row"
    late = "Priorities: set for an overwritten row"
    assert told[where, "cpprb_impl", trip] == "bit for bit"
    assert told[where, "rllib ◊", trip] == "wrong: changed"
    assert told[where, "cpprb", late] == "! changes the new row"  # promised, but dangerous
    assert told[where, "rllib ◊", late] == "skipped"
    found = section(markdown, "What was found")
    assert "| 1 | rllib | wrong: round_trip: changed" in found
    assert "<code>.venv/bin/python -m suites.conformance --peer=rllib</code>" in found


def test_a_peer_that_failed_a_check_has_a_sign_with_an_explanation(checked):
    run, _, markdown = checked
    told = figures_of(markdown)
    peers = {peer for where, peer, _ in told if where.startswith("Throughput")}
    assert peers == {"cpprb_impl", "cpprb", "rllib ◊"}
    assert "◊ failed a conformance check" in markdown
    # A failed check is a result, not a missing figure.
    assert f"{run.declared - 1} of {run.declared} declared cells have a result" in markdown


def test_a_run_of_speeds_only_does_not_mention_conformance():
    markdown = page_of(throughput_run(blocks=1)).markdown
    assert "Conformance" not in markdown and "◊" not in markdown
