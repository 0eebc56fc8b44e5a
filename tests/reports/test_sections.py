"""Details of the report: memory, names of jobs, and marks next to figures."""

import pytest

from reports.figures.formatting import runnable
from reports.page import page_of

from .conftest import figures_of, pages_of, section
from .synthetic_runs import add_apex, add_integrity, add_memory, add_sharing, throughput_cell, throughput_run

pytestmark = pytest.mark.usefixtures("without_pictures")
OURS, TIMES = "cpprb_impl[lock=buffer]", "\N{MULTIPLICATION SIGN}"


def test_memory_and_sharing_figures_do_not_rank_peers():
    run = throughput_run()
    without = page_of(run).markdown
    add_memory(run)
    add_sharing(run)
    markdown = page_of(run).markdown
    for page in (without, markdown):
        assert "from N=" not in section(page, "Which peer is fastest")
    assert without.split("One process")[1].splitlines()[0] == markdown.split("One process")[1].splitlines()[0]
    told = figures_of(markdown)
    assert told["Memory: CartPole-v1", "cpprb_impl", "memory, plain, B/transition"].startswith("48 ")
    assert told["Memory: CartPole-v1", "baselines-style", "memory, next_of, B/transition"] == "skipped"
    assert told["Sharing: CartPole-v1", OURS, "add 1 from N=4, rows/s"].startswith(f"8,080,000 50.0{TIMES} (")
    assert told["Sharing: CartPole-v1", "cpprb[MP]", "add 1 from N=4, rows/s"] == "162,000"


def test_a_figure_from_before_a_failure_is_shown_with_a_mark_and_its_reason():
    run = throughput_run(blocks=1)
    add_sharing(run, explorers=(4,))
    for record in run.records:
        if (record.peer, record.benchmark) == ("cpprb[MP]", "adds"):
            record.fail("failed", "4 of 4 explorers added no rows (synthetic)")
    markdown = page_of(run).markdown
    assert "4 of 4 explorers added no rows (synthetic)" in markdown
    told = figures_of(markdown)
    assert told["Sharing: CartPole-v1", "cpprb[MP]", "add 1 from N=4, rows/s"] == "162,000 ¶"
    assert told["Sharing: CartPole-v1", OURS, "add 1 from N=4, rows/s"].startswith(f"8,080,000 50.0{TIMES} (")


def test_a_run_of_memory_alone_refers_to_its_section():
    run = throughput_run(blocks=1)
    run.records.clear()
    add_memory(run)
    html = page_of(run).html
    assert "This run covers only memory: see all figures, below." in html


def test_the_usual_capacity_is_stated_once():
    run = throughput_run(peers=("cpprb",), blocks=1)
    assert page_of(run).markdown.count("Usual parameters: capacity 100,000.") == 1
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000).add_sample(0, 1e-6)
    text = page_of(run).markdown
    assert text.count("Usual parameters: capacity 100,000.") == 1


def test_the_integrity_suite_has_figures_and_marks_each_unsafe_buffer():
    run = throughput_run()
    add_apex(run)
    add_sharing(run)
    without = page_of(run).markdown
    add_integrity(run)
    markdown = page_of(run).markdown
    told = figures_of(markdown)
    assert told["Integrity: certified", OURS, "torn rows"] == "passed"
    assert told["Integrity: certified", "cpprb[MP] ✗", "torn rows"] == "wrong"
    assert told["Integrity: certified", "rllib", "torn rows"] == "failed"
    found = section(markdown, "What was found")
    assert (
        "| cpprb[MP] | wrong: 12 of 480,000 rows read were torn | torn rows on certified | "
        "<code>.venv/bin/python -m suites.integrity --peer='cpprb[MP]' --seed=7</code>" in found
    )
    # Marks appear with speeds of many processes and of one.
    assert ("Sharing: CartPole-v1", "cpprb[MP] ✗", "add 1 from N=4, rows/s") in told
    assert ("Throughput: CartPole-v1", "reverb ✗", "sample 32, µs/call") in told
    assert not any("✗" in peer for _, peer, _ in told if peer.startswith(("cpprb_impl", "rllib")))
    assert "✗ failed a check between processes" in markdown
    assert "does not include the integrity suite" not in markdown
    assert "does not include the integrity suite" in without
    # A finding is not listed as a cell that could not be measured.
    assert "rows read were torn" not in markdown.split("## Missing figures")[1]
    assert "certified" not in markdown.splitlines()[0]


def test_names_of_jobs_omit_exactly_the_usual_parameters():
    run = throughput_run(peers=("cpprb",), blocks=1)
    run.cell(
        suite="latency", benchmark="add_p50", peer="cpprb", workload="CartPole-v1",
        params={"batch": 32, "capacity": 100_000, "prioritized": True}, unit="s/call", better="lower",
    ).add_sample(0, 1e-6)  # fmt: skip
    markdown = page_of(run).markdown
    assert "Usual parameters: batch 32, capacity 100,000, prioritized=True.\n" in markdown
    assert "Usual parameters: capacity 100,000.\n" in markdown.split("### Throughput: ")[1].split("### ")[0]


def test_a_count_has_no_ratio():
    run = throughput_run(peers=("cpprb", "rllib"), blocks=1)
    for peer, staleness in (("cpprb", 1.0), ("rllib", 3.0)):
        run.cell(
            suite="hosts", benchmark="staleness", peer=peer, workload="CartPole-v1", params={"batch": 32},
            unit="batches", better="lower",
        ).add_sample(0, staleness)  # fmt: skip
    told = figures_of(page_of(run).markdown)
    assert told["Hosts: CartPole-v1", "rllib", "staleness, batches"] == "3.0"


def test_the_command_to_repeat_a_run_makes_the_venvs_of_its_peers():
    run = throughput_run(blocks=1)
    assert f"\n    make setup PROFILE={run.profile}\n" in page_of(run).markdown
    run.command = "python -m suites.run --profile tiny --peers 'torchrl[naive],cpprb' --out x.json"
    page = page_of(run).markdown
    setup = f"    make setup PROFILE={run.profile} PEERS='torchrl[naive],cpprb'"
    assert f"\n{setup}\n    .venv/bin/python -m suites.run" in page


def test_a_printed_command_uses_the_interpreter_of_its_peer():
    assert runnable("python -m suites.conformance") == ".venv/bin/python -m suites.conformance"
    assert runnable(".peers/torch/bin/python -m x") == ".peers/torch/bin/python -m x"


@pytest.mark.parametrize(
    ("first", "blocks", "warned"), [(1.0, 5, False), (1.2, 5, True), (1.2, 4, False)], ids=["even", "apart", "few"]
)
def test_a_control_whose_sides_differ_in_enough_blocks_causes_a_warning(first, blocks, warned):
    run = throughput_run(peers=("cpprb",), blocks=1)
    for side, seconds in (("first", first), ("second", 1.0)):
        record = run.cell(
            suite="control", benchmark="add", peer="cpprb", workload="CartPole-v1",
            params={"batch": 1, "side": side}, unit="s/transition", better="lower",
        )  # fmt: skip
        for block in range(blocks):
            record.add_sample(block, seconds * (1 + 0.01 * block * (1 if side == "first" else -1)))
    for told in pages_of(run):
        assert f"In each of {blocks} blocks, cpprb was launched twice" in told
        assert ("The range does not contain 1" in told) is warned
