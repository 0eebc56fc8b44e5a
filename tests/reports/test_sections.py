"""Single things that the report says: memory, what jobs are called, and marks beside figures."""

import re

import pytest

from reports.build import build
from reports.figures.formatting import runnable
from reports.sections import jobs_of

from .synthetic_runs import add_apex, add_integrity, add_memory, add_sharing, throughput_cell, throughput_run

OURS, TIMES = "| cpprb_impl[lock=buffer] |", "\N{MULTIPLICATION SIGN}"


def test_memory_has_its_own_section_and_no_say_in_who_is_fastest(tmp_path):
    run = throughput_run()
    build(run, tmp_path / "without")
    add_memory(run)
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, tmp_path / "with"))
    answer, rest = markdown.split("\n## Throughput")
    assert answer == (tmp_path / "without" / "report.md").read_text(encoding="utf-8").split("\n## Throughput")[0]
    section = rest.split("\n## Memory")[1].split("\n## What each")[0]
    assert "CartPole-v1, capacity 16,384, 46 bytes per row" in section
    assert "| cpprb_impl | plain | 48.0 | 1.04\N{MULTIPLICATION SIGN} |" in section
    assert "| cpprb | plain | **46.0** | 1.00\N{MULTIPLICATION SIGN} |" in section
    assert "| baselines-style | next_of | skipped (1) | |" in section
    assert '<section id="memory">' in html and "1 launch per cell" in html
    assert (tmp_path / "with" / re.search(r"!\[memory: [^]]*\]\(([^)]+)\)", section)[1]).exists()


def test_sharing_has_its_own_section_with_ratios_to_the_shared_cpprb(tmp_path):
    run = throughput_run()
    add_sharing(run)
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, tmp_path / "with"))
    fastest, rest = markdown.split("\n## Which peer is fastest")[1].split("\n## Throughput")
    assert "add 1 from N" not in fastest
    section = rest.split("\n## Sharing")[1].split("\n## What each")[0]
    for row in (
        f"{OURS} N=4, add 1 | **8.08** | million rows/s | [8.00, 8.16] | 50.0{TIMES} |",
        "| cpprb[MP] | N=4, add 1 | 0.162 | million rows/s | [0.160, 0.163] |  |  |",
        f"{OURS} N=4, add 100 | **0.808** | of a fair share | [0.800, 0.816] |  |  |",
        f"{OURS} time at the last capacity relative to the first | 1.58{TIMES} | ratio |",
        f"{OURS} time relative to its library's unshared class | 2.00{TIMES} | ratio |",
        "- CartPole-v1, 4 explorers, 1 row per call: most rows added: cpprb_impl[lock=buffer], 8.08 million "
        f"rows/s (50.0{TIMES} cpprb[MP]); most samples drawn: cpprb_impl[lock=buffer], 126,000 samples/s",
        "This machine has 2 cores",
    ):
        assert row in section
    assert '<section id="sharing">' in html and "3 launches per cell" in html
    pictures = re.findall(r"!\[sharing: ([^]]*)\]\(([^)]+)\)", section)
    assert [name for name, _ in pictures] == [
        f"{who}, add {batch} on CartPole-v1" for batch in (1, 100) for who in ("explorers", "learner")
    ]
    assert all((tmp_path / "with" / file).exists() for _, file in pictures)


def test_a_figure_from_before_a_failure_is_shown_with_a_mark_and_its_reason(tmp_path):
    run = throughput_run(blocks=1)
    add_sharing(run, explorers=(4,))
    for record in run.records:
        if (record.peer, record.benchmark) == ("cpprb[MP]", "adds"):
            record.fail("failed", "4 of 4 explorers added no rows (synthetic)")
    markdown = build(run, tmp_path)[1].read_text(encoding="utf-8")
    assert "4 of 4 explorers added no rows (synthetic)" in markdown
    assert "| cpprb[MP] | N=4, add 1 | 0.162 ¶ (1) |" in markdown
    assert f"{OURS} N=4, add 1 | **8.08** | million rows/s | [8.00, 8.16] | 50.0{TIMES} |" in markdown
    assert "![sharing:" not in markdown  # lines over one number of explorers


def test_a_run_of_memory_alone_has_no_answer_and_says_where_to_look(tmp_path):
    run = throughput_run(blocks=1)
    run.records.clear()
    add_memory(run)
    html = build(run, tmp_path)[0].read_text(encoding="utf-8")
    assert "This run covers only memory; its section is below." in html


def test_jobs_are_named_by_what_they_do_and_by_capacity_where_there_are_two():
    run = throughput_run(peers=("cpprb",), blocks=1)
    for benchmark, batch in (("add_dicts", 1), ("add_lists", 100)):
        throughput_cell(run, benchmark, batch, "cpprb", "CartPole-v1")
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000)
    assert [job.label for job in jobs_of(run)] == [
        "add 1", "add 100", "add 1 from dicts", "add 100 from lists", "sample 32", "sample 256",
        "prioritized cycle 32", "prioritized cycle 32, capacity 1,000,000", "prioritized cycle 256",
    ]  # fmt: skip


def test_the_usual_capacity_is_said_once(tmp_path):
    run = throughput_run(peers=("cpprb",), blocks=1)
    assert "Measured with capacity 100,000." in build(run, tmp_path)[1].read_text(encoding="utf-8")
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000).add_sample(0, 1e-6)
    text = build(run, tmp_path)[1].read_text(encoding="utf-8")
    assert "Measured with capacity 100,000 unless stated otherwise." in text


def test_integrity_has_its_own_section_and_a_word_beside_every_speed(tmp_path):
    run = throughput_run()
    add_apex(run)
    add_sharing(run)
    build(run, tmp_path / "without")
    add_integrity(run)
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, tmp_path / "with"))
    section = markdown.split("\n## Integrity")[1].split("\n## What each")[0]
    assert "## What was found" in section
    for line in (
        "| cpprb_impl[lock=buffer] | sound | none in 480,000 rows read | none in 480,000 rows added | "
        "all continued after 480,000 kills | 0.750 of a fair share | ",
        "| cpprb[MP] | ✗ unsafe | 12 of 480,000 rows read were torn (3) | none in 480,000 rows added | "
        "the learner blocked for ever (4) | 0.750 of a fair share | ",
        "| reverb | ✗ unsafe | none in 480,000 rows read | 3 of 480,000 rows added were not stored (2) | ",
        "| rllib | not tested | failed (1) | failed (1) | failed (1) | failed (1) | ",
        "| cpprb[MP] | wrong: 12 of 480,000 rows read were torn | torn rows on certified | "
        "`.venv/bin/python -m suites.integrity --peer='cpprb[MP]' --seed=7`",
    ):
        assert line in section
    assert "Unsafe: reverb (lost rows) and cpprb[MP] (torn rows, hangs after a kill)." in markdown
    # Beside speeds of many processes and of one; in tables, answers and legends.
    assert re.search(r"\| cpprb\[MP\] \| real, N=4 \| [\d,.]+ ✗ \|", markdown)
    assert re.search(r"\| cpprb\[MP\] \| N=4, add 1 \| [\d,.]+ ✗ \|", markdown)
    assert re.search(r"\| add 1 \| reverb \| [\d,.]+ ✗ \|", markdown)
    assert not re.search(r"\| (cpprb|rllib|cpprb_impl\[lock=\w+\]) \| [\d,.*]+ ✗", markdown)
    assert html.count(">cpprb[MP] ✗</text>") == 2 + 4  # legends of Ape-X and of sharing
    assert html.count('<a href="#integrity">✗ unsafe</a><small>torn rows, hangs after a kill</small>') > 2
    assert "does not include the integrity suite" not in markdown
    assert "does not include the integrity suite" in (tmp_path / "without" / "report.md").read_text(encoding="utf-8")
    # A finding is no cell that could not be measured.
    assert "rows read were torn" not in markdown.split("## Missing figures")[1]
    assert "certified" not in markdown.splitlines()[0]


@pytest.mark.usefixtures("without_pictures")
def test_doing_it_again_makes_the_environments_of_its_peers(tmp_path):
    run = throughput_run(blocks=1)
    assert f"\nmake setup PROFILE={run.profile}\n" in build(run, tmp_path)[1].read_text(encoding="utf-8")
    run.command = "python -m suites.run --profile tiny --peers 'torchrl[naive],cpprb' --out x.json"
    page = build(run, tmp_path)[1].read_text(encoding="utf-8")
    assert f"\nmake setup PROFILE={run.profile} PEERS='torchrl[naive],cpprb'\n.venv/bin/python -m suites.run" in page


def test_a_command_names_the_interpreter_of_its_peer():
    assert runnable("python -m suites.conformance") == ".venv/bin/python -m suites.conformance"
    assert runnable(".peers/torch/bin/python -m x") == ".peers/torch/bin/python -m x"
