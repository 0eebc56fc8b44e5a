"""Single things that the report says: memory, what jobs are called, and marks beside figures."""

import re

from reports.build import build
from reports.jobs import jobs_of

from .synthetic_runs import add_memory, throughput_cell, throughput_run


def test_memory_has_its_own_section_and_no_say_in_who_is_fastest(tmp_path):
    run = throughput_run()
    build(run, tmp_path / "without")
    add_memory(run)
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, tmp_path / "with"))
    answer, rest = markdown.split("\n## Throughput")
    assert answer == (tmp_path / "without" / "report.md").read_text(encoding="utf-8").split("\n## Throughput")[0]
    section = rest.split("\n## Memory")[1].split("\n## What each")[0]
    assert "CartPole-v1, capacity 16,384, 46 bytes a row" in section
    assert "| cpprb_impl | plain | 48.0 | 1.04\N{MULTIPLICATION SIGN} |" in section
    assert "| cpprb | plain | **46.0** | 1.00\N{MULTIPLICATION SIGN} |" in section
    assert "| baselines-style | next_of | skipped (1) | |" in section
    assert '<section id="memory">' in html and "1 launch a cell" in html
    assert (tmp_path / "with" / re.search(r"!\[memory: [^]]*\]\(([^)]+)\)", section)[1]).exists()


def test_jobs_are_named_by_what_they_do_and_by_capacity_where_there_are_two():
    run = throughput_run(peers=("cpprb",), blocks=1)
    for benchmark, batch in (("add_dicts", 1), ("add_lists", 100), ("add_prioritized", 1)):
        throughput_cell(run, benchmark, batch, "cpprb", "CartPole-v1")
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000)
    assert [job.label for job in jobs_of(run)] == [
        "add 1", "add 100", "add 1 from dicts", "add 100 from lists", "add 1 with priority", "sample 32", "sample 256",
        "prioritized cycle 32", "prioritized cycle 32, capacity 1,000,000", "prioritized cycle 256",
    ]  # fmt: skip


def test_the_usual_capacity_is_said_once(tmp_path):
    run = throughput_run(peers=("cpprb",), blocks=1)
    assert "With capacity 100,000." in build(run, tmp_path)[1].read_text(encoding="utf-8")
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000).add_sample(0, 1e-6)
    text = build(run, tmp_path)[1].read_text(encoding="utf-8")
    assert "With capacity 100,000 where no other is named." in text


def test_a_peer_that_takes_no_priority_on_add_is_marked(tmp_path):
    run = throughput_run(blocks=1)
    run.peers[2].features["prioritized"] = "yes, none on add (set after it)"
    for peer in ("cpprb", "baselines-style"):
        throughput_cell(run, "add_prioritized", 1, peer, "CartPole-v1").add_sample(0, 1e-6)
    markdown = build(run, tmp_path)[1].read_text(encoding="utf-8")
    assert re.search(r"\| add 1 with priority \| baselines-style \| \**[\d.]+\** †¶ \|", markdown)
    assert re.search(r"\| add 1 with priority \| cpprb \| \**[\d.]+\** \|", markdown)
    assert "takes no priority with a step" in markdown
