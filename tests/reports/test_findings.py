"""Faults of a peer are findings; figures lost by the harness, the budget or a withdrawal are reported separately."""

import re

import pytest

from reports.build import build
from reports.tables.budget import left_out
from results import Run

from .conftest import figures_of
from .synthetic_runs import throughput_run
from .synthetic_use import add_latency, add_shared

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
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
    return [path.read_text(encoding="utf-8") for path in build(run, tmp_path_factory.mktemp("report"))]


def section(page, title):
    return page.split(f"\n## {title}")[1].split("\n## ")[0]


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


def test_a_finding_without_a_command_is_reproduced_by_its_suite(tmp_path):
    run = throughput_run(blocks=3)
    run.command = "python -m suites.run --profile apex --peers 'cpprb_impl,cpprb' --minutes 10"
    add_shared(run, blocks=3)
    for record in run.records:
        record.reason = record.reason and record.reason.partition("\n")[0]
    _, markdown = build(run, tmp_path)
    (row,) = (line for line in markdown.read_text(encoding="utf-8").splitlines() if line.startswith("| 1 | cpprb[MP]"))
    assert row.endswith(
        "<code>.venv/bin/python -m suites.run --profile apex '--peers=cpprb[MP]' --suites=apex</code> |"
    )
