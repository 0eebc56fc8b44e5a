"""The table of the gate's error rates, from synthetic pools whose error rates are known."""

import numpy as np
import pytest

from reports.gate import power
from reports.gate.power import Pool, Share, alarms, undecided
from results import save
from results.analysis.rules import SINGLE
from results.analysis.studies import LEVELS, NEIGHBOUR, POWER
from results.analysis.verdict import Word

from .synthetic_runs import gate_run


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(power, "DRAWN_GATES", 20)
    monkeypatch.setattr(power, "DRAWN_BENCHMARKS", 10)


def pool(noise, shift=0.0, benchmarks=6):
    random = np.random.default_rng(8)
    return Pool(shift + noise * random.standard_normal((benchmarks, 60)), [SINGLE] * benchmarks)


def test_a_share_has_its_exact_interval():
    assert str(Share(0, 30)) == "0.0% (0.0% to 11.6%) of 30"
    assert str(Share(1, 1)) == "100.0% (2.5% to 100.0%) of 1"
    assert str(Share(0, 0)) == "not measured"


def test_equal_builds_raise_no_alarm_and_a_biased_pool_always_raises_one():
    quiet, biased = list(pool(0.02).gates()), list(pool(0.02, shift=0.2).gates())
    assert alarms(quiet).count == 0 and undecided(quiet).count == 0
    assert alarms(biased).count == alarms(biased).of == 20


def test_a_slow_down_added_to_a_pool_is_found_if_it_is_relevant():
    assert pool(0.02).found(0.20, SINGLE).count == 60
    assert pool(0.02).found(0.02, SINGLE).count == 0
    assert pool(0.5).found(0.20, SINGLE).count < 30


def test_benchmarks_without_a_verdict_are_not_counted_as_passed():
    noisy = list(pool(0.5).gates())
    assert undecided(noisy).count > 60


def test_the_table_is_made_from_the_records(tmp_path):
    save(tmp_path / "pool.json", gate_run(noise=0.02, launches=30))
    for number in (1, 2):
        save(tmp_path / f"equal-{number}.json", gate_run(noise=0.02, launches=30, seed=number))
        save(tmp_path / f"slowed-20-{number}.json", gate_run(slower=0.2, noise=0.02, launches=30, benchmarks=1))
    rows = {name: (drawn, real) for name, drawn, real in power.rows(tmp_path)}
    assert rows["gates with a false alarm"] == ("0.0% (0.0% to 16.8%) of 20", "0.0% (0.0% to 84.2%) of 2")
    assert rows["20% slower, one process: found"][1] == "100.0% (15.8% to 100.0%) of 2"
    assert rows["50% slower, several processes: found"] == ("not measured", "not measured")
    assert all(real == "not measured" for name, (_, real) in rows.items() if "another process" in name)
    save(tmp_path / f"{NEIGHBOUR}-pool.json", gate_run(noise=0.02, launches=30))
    assert any("another process" in name and drawn != "not measured" for name, drawn, _ in power.rows(tmp_path))


def test_a_slowed_benchmark_that_was_not_measured_does_not_count_as_missed(tmp_path):
    run = gate_run(slower=0.2, noise=0.02, launches=30)
    for record in run.records[2:]:
        record.samples.clear()
        record.status, record.reason = "interrupted", "not measured"
    save(tmp_path / "slowed-20-1.json", run)
    assert power.found(power.slowed_in(tmp_path), 0.2, SINGLE) == Share(1, 1)
    (gate,) = power.gates_of(tmp_path, "slowed-20")
    assert [each.word for each in gate].count(Word.CANT_TELL) == 11


def test_a_benchmark_counts_by_its_actual_slow_down(tmp_path):
    save(tmp_path / "slowed-20-1.json", gate_run(slower=0.1, noise=0.01, launches=30, benchmarks=1))
    verdicts = power.slowed_in(tmp_path)
    assert power.found(verdicts, 0.2, SINGLE) == Share(0, 0) and power.found(verdicts, 0.1, SINGLE) == Share(1, 1)


def test_an_unfinished_gate_does_not_count(tmp_path):
    run = gate_run(noise=0.02, launches=3)
    run.finished = None
    save(tmp_path / "equal-1.json", run)
    assert power.gates_of(tmp_path, "equal") == [] and power.minutes(tmp_path, "equal") == "not measured"


def test_the_fingerprint_covers_the_code_that_decides(monkeypatch, tmp_path):
    before = power.fingerprint()
    assert before == power.fingerprint()
    other = tmp_path / "rules.py"
    other.write_text("FALSE_ALARM = 0.5\n")
    monkeypatch.setattr(power.rules, "__file__", str(other))
    assert power.fingerprint() != before


def test_the_table_in_the_docs_matches_the_records_and_the_code_that_decides():
    """If it does not, run `python -m reports.gate.power`, which takes half a minute and measures no gate again."""
    said = power.PAGE.read_text().partition(power.BEGIN)[2].partition(power.END)[0]
    assert f"`{power.fingerprint()}`" in said
    rows = {
        name: real for line in said.splitlines() if line.count("|") == 4 for _, name, _, real, _ in [line.split("|")]
    }
    gates = power.gates_of(POWER, "equal")
    assert rows[" gates with a false alarm "].strip() == str(alarms(power.words(gates)))
    slowed = power.slowed_in(POWER)
    for level in LEVELS:
        assert rows[f" {level}% slower, one process: found "].strip() == str(power.found(slowed, level / 100, SINGLE))
