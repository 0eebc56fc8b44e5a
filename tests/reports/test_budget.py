"""A cell left out by the time budget counts neither as a win nor as a passed check, and one line reports it."""

from dataclasses import replace

import pytest

from reports.answer.heatmap import heat_map
from reports.answer.sentences import sentences
from reports.page import page_of
from reports.sections import context_of, features
from reports.tables import notes

from .conftest import pages_of, section
from .synthetic_runs import add_conformance, add_integrity, throughput_run
from .synthetic_use import SHARED, add_shared, use_run

pytestmark = pytest.mark.usefixtures("without_pictures")


def leave_out(run, **which):
    """Remove the figures of the records with these attributes."""
    for record in run.records:
        if all(getattr(record, name) == value for name, value in which.items()):
            record.samples, record.seen, record.status, record.reason = [], None, "left_out", "no time in the budget"
    run.minutes = run.minutes or 10.0
    return run


def said(run):
    return {each.reader: each.text for each in sentences(context_of(run))}


SEEN = {peer: {"round_trip": "bit for bit: 64 rows"} for peer in ("cpprb_impl", "cpprb")}


def test_a_job_without_a_figure_of_the_leader_is_not_a_win_for_another_peer():
    told = said(leave_out(throughput_run(), peer="cpprb_impl", benchmark="prioritized"))["One process, small rows"]
    assert " at 4 of 4 jobs on CartPole-v1" in told
    assert told.endswith(". 2 more jobs were measured without it or without a rival.")
    assert "fastest elsewhere" not in told


def test_a_job_with_only_the_leader_is_not_a_win():
    run = throughput_run(peers=("cpprb_impl", "cpprb"))
    told = said(leave_out(run, peer="cpprb", benchmark="add"))["One process, small rows"]
    assert " at 3 of 4 jobs on CartPole-v1" in told
    assert told.endswith(
        "; as fast as its best rival, within 10%, at 1. 2 more jobs were measured without it or without a rival."
    )


def test_a_tie_is_not_a_win():
    told = said(throughput_run())["One process, small rows"]
    assert told.startswith("among the buffers that copy what they add, cpprb_impl is clearly the fastest at 5 of")
    assert "; as fast as its best rival, within 10%, at 1. baselines-style, which keeps references" in told


def test_one_launch_gives_no_verdict():
    told = said(throughput_run(blocks=1))["One process, small rows"]
    assert "cpprb_impl is ahead" in told and "with too few launches for a verdict" in told
    assert "likely" not in told


@pytest.mark.parametrize(("blocks", "minutes", "hint"), [(1, 2, "MINUTES=4"), (1, None, ""), (5, 2, "")])
def test_a_run_with_too_few_launches_suggests_more_minutes(blocks, minutes, hint):
    run = throughput_run(blocks=blocks)
    run.minutes = minutes
    run.finish()
    told = page_of(run).markdown
    assert hint in told and ("MINUTES=" in told) is bool(hint)
    assert ("For 6 jobs, the run could not tell which peer is fastest." in told) is bool(hint)


def test_an_unchecked_buffer_is_not_described_as_sound():
    run = use_run(blocks=3)
    for record in run.records:
        if (record.peer, record.benchmark) == ("cpprb_impl[lock=none]", "whole"):
            record.samples, record.status, record.reason = [], "left_out", "no time in the budget"
    run = leave_out(run, suite="integrity")
    told = said(run)["Many processes"]
    assert "cpprb_impl[lock=buffer] had the fastest learner of the buffers that returned no broken row, without" in told
    assert ". Not checked: cpprb_impl[lock=none]." in told
    run.records = [record for record in run.records if record.benchmark != "whole"]
    assert "no buffer's integrity was checked in this run" in said(run)["Many processes"]
    run = use_run(blocks=3)
    for peer in SHARED.keys() - {"cpprb[MP]"}:
        run = leave_out(run, suite="integrity", peer=peer)
    assert (
        "had the fastest learner of the buffers not found unsafe, without a verdict (too few launches)"
        in said(run)["Many processes"]
    )
    run = leave_out(use_run(blocks=3), suite="integrity", peer="reverb")
    assert ". Not checked: " in said(run)["Many processes"]


def test_without_integrity_figures_the_rows_checked_in_ape_x_are_cited():
    run = use_run(blocks=3)
    run.records = [record for record in run.records if record.suite != "integrity"]
    assert said(run)["Correctness first"] == (
        "Rows sampled in Ape-X: no fault found in reverb, 3 of cpprb_impl, cpprb[PER behind one lock], "
        "rllib[Ray actor] and torchrl[shared]; failed: cpprb[MP] (broken rows in 1 of 1 job)."
    )


def test_the_correctness_sentence_says_what_was_checked_for_each_peer():
    run = throughput_run(peers=("cpprb_impl", "cpprb", "rllib", "reverb"), blocks=1)
    add_conformance(run, SEEN)
    assert said(run)["Correctness first"] == "Conformance: no fault found in cpprb_impl and cpprb."
    leave_out(run, suite="conformance", peer="cpprb")
    assert said(run)["Correctness first"] == (
        "Conformance: no fault found in cpprb_impl; not fully checked: cpprb (time budget)."
    )
    leave_out(run, suite="conformance")
    assert said(run)["Correctness first"] == "Conformance: none of 2 peers was fully checked (time budget)."


def test_a_checked_variant_says_nothing_about_its_library():
    run = throughput_run(blocks=1)
    add_shared(run, blocks=1)
    add_integrity(run)
    (part,) = features.parts(context_of(run))
    at = part.values["columns"].index("across processes")
    facts = {row[0]: row[at] for row in part.values["rows"]}
    assert "seen in this run" not in facts["cpprb_impl"]
    assert "seen in this run: integrity, torn" in facts["cpprb_impl[lock=buffer]"]


def test_the_budget_is_shown_under_the_date():
    run = leave_out(use_run(blocks=1), suite="latency")
    leave_out(run, suite="integrity")
    html, markdown = pages_of(run)
    left = sum(record.status == "left_out" for record in run.records)
    line = (
        f"10-minute budget: {run.declared - left} of {run.declared} figures measured, {left} left out. "
        "Suites left out entirely: latency and integrity. Every ratio is based on one launch."
    )
    assert line in markdown.partition("## The answer")[0]
    assert line in html.partition("</header>")[0]
    assert "budget:" not in pages_of(use_run(blocks=3))[1]


def test_peers_without_any_figure_are_listed_under_the_date():
    run = leave_out(throughput_run(blocks=1), peer="rllib")
    assert "left out. No figures for rllib." in pages_of(run)[1].partition("## The answer")[0]


def test_a_suite_left_out_entirely_is_reported_in_one_sentence():
    run = leave_out(use_run(blocks=1), suite="latency")
    run.command = "python -m suites.run --profile survey --peers all"
    html, markdown = pages_of(leave_out(run, suite="integrity"))
    told = "This suite was left out because of the time budget. To measure it: `make bench PEERS=all SUITES=latency`"
    assert section(markdown, "Latency").strip() == told
    assert "The integrity suite was left out because of the time budget, so this page does not say" in markdown
    assert '<section id="latency">' in html and '<a href="#integrity">' in html


def test_the_counts_of_cells_without_a_figure_add_up():
    run = leave_out(throughput_run(blocks=1), peer="rllib")
    run.records[0].samples, run.records[0].status = [], "interrupted"
    run.records[0].fail("skipped", "no such thing (synthetic)")
    for page in pages_of(run):
        assert (
            "29 of 36 declared cells have a result; 6 were left out because of the time budget; 1 more has no figure:"
            in page
        )


def test_nouns_agree_with_their_numbers():
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    run.minutes, run.finished = 1.0, "2026-11-20T06:31:00Z"
    add_integrity_of_two(run)
    markdown = pages_of(run)[1]
    assert "This run has 1 launch per cell." in markdown
    assert "took 1 minute of its 1-minute budget." in markdown
    assert "no launch" not in markdown and "left_out" not in markdown


def add_integrity_of_two(run):
    """Add conformance and integrity of two peers, with some records left out and some without evidence."""
    add_conformance(run, SEEN)
    leave_out(run, suite="conformance", peer="cpprb")
    run.records[-2].seen = None


def test_an_unchecked_peer_is_distinguished_from_one_that_passed():
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    add_conformance(run, SEEN)
    assert not any(sign == "no ◊:" for sign, _ in heat_map(context_of(run)).notes)
    leave_out(run, suite="conformance", peer="cpprb")
    assert ("no ◊:", "conformance of cpprb was not checked in this run") in heat_map(context_of(run)).notes
    leave_out(run, suite="conformance")
    assert ("no ◊:", "conformance was not checked in this run") in heat_map(context_of(run)).notes


def test_a_mark_has_one_meaning_on_the_page_and_in_its_picture():
    run = throughput_run(blocks=1)
    run.records[-1].fail("wrong", "late (synthetic)")
    context = context_of(run)
    for mark, meaning in heat_map(context).notes:
        if mark in notes.MEANINGS:
            assert meaning == notes.MEANINGS[mark]
    below = dict(notes.footnotes(run, context.jobs))
    assert {"†", "¶"} <= below.keys() and all(text.startswith(notes.MEANINGS[mark]) for mark, text in below.items())


@pytest.mark.parametrize(("profile", "command", "is_said"), [
    ("quick", "python -m suites.run --profile quick --minutes 10", True),
    ("quick", "python -m suites.run --profile quick --peers=all", False),
    ("survey", "python -m suites.run --profile survey", False),
])  # fmt: skip
def test_a_run_of_the_usual_peers_says_how_to_compare_all_libraries(profile, command, is_said):
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    run.profile, run.command = profile, command
    told = said(run).get("Compared", "")
    assert told == ("cpprb_impl and cpprb. With PEERS=all, make bench compares all libraries." if is_said else "")


def test_no_lead_is_stated_if_two_others_are_too_close_to_call():
    """Reports said "cpprb at sample 256 (0.94 times as fast as the next library)", whose median led only by chance."""
    run = throughput_run(peers=("cpprb_impl", "cpprb", "rllib"))
    for record in run.records:
        if (record.benchmark, record.params["batch"]) == ("sample", 256):
            values = {"cpprb_impl": [2.0] * 5, "cpprb": [1.0] * 5, "rllib": [1.2, 1.1, 0.8, 0.9, 1.05]}[record.peer]
            record.samples[:] = [replace(each, value=value) for each, value in zip(record.samples, values, strict=True)]
    told = said(run)["One process, small rows"]
    assert "; fastest elsewhere: cpprb at sample 256." in told
