"""The section on buffers over several hosts."""

from __future__ import annotations

import pytest

from reports.answer.headlines import headlines
from reports.build import build
from reports.figures.formatting import TIMES
from reports.sections import context_of, hosts
from results import Run

from .synthetic_runs import add_workload, empty_run

PEERS = ("cpprb_impl[Ray]", "cpprb[replay server]")
SPEED = {"data_hosts": 2, "link": "none", "batch": 32}
WAITS = "the learner waits for longer than 15 s"


def run_of(torn: bool = False) -> Run:
    """Invented figures. The replay server does not survive a kill."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer in PEERS:
        run.add_peer(peer, "1", "invented")
        add(run, peer, "learner", "batches/s", SPEED, 1000.0)
        add(run, peer, "staleness", "batches", SPEED, 2.0)
        add(run, peer, "whole", "rows checked", SPEED, 5000.0)
        for failure in ("killed", "cut", "power"):
            for benchmark, unit in (("longest_wait", "s"), ("rate_after", "of the rate before")):
                add(run, peer, benchmark, unit, {**SPEED, "failure": failure}, 0.5)
    for record in run.records:
        if record.peer == PEERS[1] and record.params.get("failure") == "killed":
            record.samples.clear()
            record.fail("failed", WAITS)
        if torn and record.peer == PEERS[1] and record.benchmark == "whole":
            record.fail("wrong", "1 of 5000 sampled rows are none of those that were added")
    return run


def add(run: Run, peer: str, benchmark: str, unit: str, params: dict, value: float) -> None:
    better = "lower" if unit in ("s", "batches") else "higher"
    about = {"suite": "hosts", "workload": "CartPole-v1", "params": params, "unit": unit, "better": better}
    run.cell(benchmark=benchmark, peer=peer, **about).add_sample(0, value)


def test_the_headline_has_the_rates_of_one_data_host_and_what_failures_do():
    run = run_of()
    for peer, rate in zip(PEERS, (1000.0, 500.0), strict=True):
        add(run, peer, "learner", "batches/s", {**SPEED, "data_hosts": 1}, rate)
        add(run, peer, "explorer", "rows/s", {**SPEED, "data_hosts": 1}, rate / 10)
    (headline,) = headlines(context_of(run))
    rates, failures, fastest = headline.points
    for rate in ("batches of 32: 1,000 batches/s", "explorer: 100 rows/s"):
        assert f"{rate}, ~2.0{TIMES} as fast as {PEERS[1]}" in rates
    assert "waits for at most 0.5 s" in failures
    assert "1 of 1 (link cut for 2 s), 0 of 1 (process killed) and 1 of 1 (power lost)" in failures
    assert fastest.startswith("Of 3 rates of a learner or an explorer alone, with up to 2 data hosts")
    assert fastest.endswith(f"{PEERS[0]} in 3.")


def test_there_is_no_headline_without_rates_of_one_data_host():
    assert headlines(context_of(run_of())) == []


def body(run: Run) -> hosts.Hosts:
    (part,) = hosts.parts(context_of(run))
    return part.body


@pytest.mark.parametrize(("variant", "says_so"), [("encrypted", True), ("unencrypted", False)])
def test_a_record_from_before_encryption_was_the_default_says_so(variant, says_so, tmp_path):
    run = run_of()
    for peer in (*PEERS, f"cpprb_impl[Ray, {variant}]"):
        for benchmark, unit in (("learner", "batches/s"), ("explorer", "rows/s")):
            add(run, peer, benchmark, unit, {**SPEED, "data_hosts": 1}, 100.0)
    run.add_peer(f"cpprb_impl[Ray, {variant}]", "1", "invented")
    sentence = "cpprb_impl[Ray] sent rows in clear text, which was its default when this was measured."
    (headline,) = headlines(context_of(run))
    assert (sentence in headline.not_shown) == says_so
    for page in build(run, tmp_path):
        assert (sentence in page.read_text()) == says_so


def test_a_failure_that_a_peer_does_not_survive_is_no_figure():
    (table,) = body(run_of()).failures
    assert [label for label, _ in table.columns] == [
        f"{failure}: {label}"
        for failure in ("process killed", "link cut for 2 s", "power lost")
        for label in ("longest wait", "rate after it")
    ]
    rows = dict(table.rows)
    assert [cell.status for cell in rows[PEERS[0]]] == ["ok"] * 6
    assert [cell.status for cell in rows[PEERS[1]]] == ["failed", "failed", "ok", "ok", "ok", "ok"]
    assert not any(cell.fastest for cell in rows[PEERS[1]][:2])


def test_failures_are_not_among_the_speeds():
    shown = body(run_of())
    assert [label for table in shown.tables for label, _ in table.columns] == ["batches", "staleness"]


def test_rows_drawn_beside_an_explorer_are_counted():
    assert body(run_of()).checked.endswith(
        "(5,000 of cpprb_impl[Ray] and 5,000 of cpprb[replay server]): none was wrong."
    )


def test_a_peer_with_wrong_rows_is_marked_as_unsafe():
    run = run_of(torn=True)
    assert "wrong ones were found of cpprb[replay server]." in body(run).checked
    signs = context_of(run).signs
    assert signs[PEERS[1]] and not signs[PEERS[0]]


def test_the_page_says_why_a_learner_has_no_figure(tmp_path):
    for page in build(run_of(), tmp_path):
        assert WAITS in page.read_text() and "longest wait" in page.read_text()
