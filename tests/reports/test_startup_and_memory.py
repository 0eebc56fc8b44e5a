"""What the report says of start-up, of memory beside bytes a transition, of what was left behind, and how it knows what
a peer can do."""

from __future__ import annotations

import re

import pytest

from reports.build import build
from reports.figures.formatting import NOTHING
from results.record import Left, Run

from .synthetic_runs import throughput_run

pytestmark = pytest.mark.usefixtures("without_pictures")

LEVELS = {"constructed": 0.0, "quarter": 12.0, "half": 24.0, "plain": 48.0}


def cell(run: Run, suite: str, benchmark: str, peer: str, unit: str):
    params = {"capacity": 100_000}
    return run.cell(
        suite=suite, benchmark=benchmark, peer=peer, workload="CartPole-v1", params=params, unit=unit, better="lower"
    )


def pages(run: Run, folder):
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, folder))
    return html, markdown


@pytest.mark.parametrize("nothing", [0.0, 1e-9])  # older records hold the latter
def test_start_up_has_a_section_of_its_own_and_no_say_in_who_is_fastest(nothing, tmp_path):
    run = throughput_run()
    before = pages(run, tmp_path / "before")[1].split("\n## Throughput")[0]
    for peer, seconds in (("cpprb_impl", (0.2, 0.001)), ("cpprb", (nothing, 0.004))):
        for benchmark, value in zip(("import", "fill"), seconds, strict=True):
            cell(run, "startup", benchmark, peer, "s").add_sample(0, value)
    cell(run, "startup", "fill", "baselines-style", "s").fail("skipped", "too slow for 100,000 rows")
    html, markdown = pages(run, tmp_path / "after")
    assert markdown.split("\n## Throughput")[0] == before and '<section id="startup">' in html
    section = markdown.split("\n## Start-up")[1].split("\n## ")[0]
    assert "| cpprb_impl | 200 ms | **1.0 ms** ~4.0\N{MULTIPLICATION SIGN} |" in section
    assert "| cpprb | **nothing** | 4.0 ms |" in section
    assert f"| baselines-style | {NOTHING} | skipped (1) |" in section


def test_fill_levels_peak_and_leaks_stand_beside_bytes_a_transition(tmp_path):
    run = throughput_run()
    for benchmark, value in LEVELS.items():
        cell(run, "memory", benchmark, "cpprb_impl", "B/transition").add_sample(0, value)
    cell(run, "memory", "peak", "cpprb_impl", "B/row drawn").add_sample(0, 4096.0)
    cell(run, "memory", "leak", "cpprb_impl", "B/round").add_sample(0, 12.5)
    leaking = cell(run, "memory", "leak", "cpprb", "B/round")
    leaking.fail("wrong", "leaks 9,000 B per round of 64 rows added and 32 drawn: 3.0 MiB in 300 rounds")
    html, markdown = pages(run, tmp_path)
    section = markdown.split("\n## Memory")[1].split("\n## ")[0]
    assert "| cpprb_impl | none | 12.0 | 24.0 | 48.0 | 1.00 MiB | none above 12.5 B |" in section
    assert f"| cpprb |{f' {NOTHING} |' * 5} leaks 9,000 B per round |" in section
    assert "leaks 9,000 B" not in markdown.split("## Missing figures")[1]  # it is a figure
    pictures = re.findall(r"!\[memory: [^]]*\]\(([^)]+)\)", section)
    assert len(pictures) == 2 and all((tmp_path / file).exists() for file in pictures)
    assert "Fill levels, peaks and leaks" in html


def test_what_was_left_behind_is_listed(tmp_path):
    run = throughput_run()
    assert "left something behind" not in "".join(pages(run, tmp_path / "before"))
    run.left.append(Left("cpprb", "throughput of cpprb, block 1", "1 process, 2 segments of 8.0 MiB"))
    html, markdown = pages(run, tmp_path / "after")
    assert "| cpprb | throughput of cpprb, block 1 | 1 process, 2 segments of 8.0 MiB |" in markdown
    assert "2 segments of 8.0 MiB" in html


def test_a_feature_says_how_it_is_known(tmp_path):
    run = throughput_run()
    peer = next(peer for peer in run.peers if peer.name == "cpprb")
    peer.features.update(n_step="yes, option Nstep [seen: a test]", machines="no", prioritized="yes", disk="")
    _, markdown = pages(run, tmp_path)
    table = markdown.split("\n## What each peer can do")[1].split("\n## ")[0]
    assert "yes, option Nstep (seen: a test)" in table and "no (stated by its adapter)" in table
    assert "yes (seen in this run: throughput, prioritized)" in table
