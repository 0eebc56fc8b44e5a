"""The gate's page, and the history of main."""

import dataclasses
import re

import numpy as np
import pytest

from reports.gate import __main__ as program
from reports.gate import history
from reports.gate.history import IS_ZERO, WAS_ZERO, History, Series
from results import save
from results.analysis.rules import CALLS, SINGLE, WORK

from .synthetic_runs import gate_run


def test_the_page_shows_every_pair_of_every_timed_benchmark(tmp_path, capsys):
    run = gate_run(slower=0.30, noise=0.01, launches=14)
    save(tmp_path / "run.json", run)
    html = tmp_path / "run.html"
    assert program.main([str(tmp_path / "run.json"), "--html", str(html)]) == 1
    text = html.read_text()
    assert f"each benchmark's pairs: {html}" in capsys.readouterr().out
    assert text.count("<svg") == text.count("<figcaption") == 12
    assert text.index("<b>regression</b>") < text.index("<b>pass</b>")
    assert "REGRESSION in 1 of 12 benchmarks" in text and "--only &#39;add 1 on CartPole-v1&#39;" in text
    assert not re.search(r'(src|href)="http', text)


def series(*levels, noise=0.02, rule=SINGLE, seed=4):
    random = np.random.default_rng(seed)
    values = [level + noise * random.standard_normal() for level, count in levels for _ in range(count)]
    return Series(rule, [f"commit{number}" for number in range(len(values))], values)


def test_a_new_level_is_found_with_its_commit():
    assert series((0.0, 8), (0.2, 6)).steps == [8]
    ((commit, change),) = series((0.0, 8), (0.2, 6)).new_levels()
    assert commit == "commit8" and change == pytest.approx(0.2, abs=0.04)


def test_a_slow_drift_is_found_although_no_single_change_is_relevant():
    drift = series(*((0.02 * number, 1) for number in range(12)), noise=0.005)
    assert all(
        abs(after - before) < SINGLE.effect for before, after in zip(drift.values, drift.values[1:], strict=False)
    )
    assert drift.steps


def test_exact_counts_have_a_new_level_at_their_first_change():
    assert series((0.0, 5), (0.02, 4), noise=0, rule=WORK).steps == [5]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(IS_ZERO, 0.0, "was 0"), (0.0, IS_ZERO, "-100.0%"), (0.0, WAS_ZERO, "was 0"), (WAS_ZERO, 0.0, "-100.0%")],
)
def test_a_count_that_was_0_has_no_change_in_percent(before, after, said):
    found = series((before, 5), (after, 4), noise=0, rule=CALLS)
    lines = history.lines(History(found.commits, {"allocations": found}))
    assert lines == ["since commit5:", f"  {said:>8}  allocations"]


def test_a_history_of_few_commits_has_no_levels():
    assert series((0.0, 4), (0.5, 3)).steps == []


def test_levels_are_rarely_found_in_constant_series():
    """`PENALTY` was chosen to keep this rate low."""
    found = sum(bool(series((0.0, 20), seed=seed).steps) for seed in range(200))
    assert 0 < found <= 6


def test_commits_remain_in_order_if_a_benchmark_has_no_figure(tmp_path):
    for number in range(3):
        run = gate_run(noise=0.01, launches=3, seed=number)
        run.peers[1] = dataclasses.replace(run.peer("head"), version=str(number) * 40)
        if number == 1:
            run.records = run.records[2:]
        save(tmp_path / f"{number}.json", run)
    found = history.History.load(tmp_path)
    assert [commit[0] for commit in found.commits] == ["0", "1", "2"]
    assert [commit[0] for commit in found.series["add 1 on CartPole-v1"].commits] == ["0", "2"]


def test_the_committed_records_yield_a_page(tmp_path, capsys):
    for number in range(8):
        run = gate_run(slower=0.4 * (number > 3), noise=0.01, launches=3, seed=number)
        run.peers[1] = dataclasses.replace(run.peer("head"), version=str(number) * 40)
        save(tmp_path / f"{number}.json", run)
    assert history.main([f"--folder={tmp_path}", f"--out={tmp_path / 'history.html'}"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^since 4444444444:\n +\+[34]\d\.\d%  add 1 on CartPole-v1\neach benchmark", said)
    assert (tmp_path / "history.html").read_text().count("<svg") == 12
    assert history.main([f"--folder={tmp_path / 'empty'}"]) == 0
