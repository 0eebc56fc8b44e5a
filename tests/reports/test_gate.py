"""The gate's table, its closing line, the commands it suggests, and its exit statuses."""

import dataclasses
import re

import pytest

from reports.gate import __main__ as program
from reports.gate import table
from reports.gate.again import commands
from results import save
from results.analysis.verdict import Status, Word, judge, status_of
from tests.results.test_verdict import counted_run, empty, fail_base, interrupt, lose_all_samples

from .synthetic_runs import gate_run


def test_a_count_that_varies_between_launches_is_not_measured_to_the_end():
    """Further launches could not decide it."""
    (verdict,) = judge(counted_run([100.0] * 2, [101.1, 100.0], "reads"))
    assert verdict.word is Word.CANT_TELL and not verdict.is_open
    assert status_of([verdict]) is Status.CANT_TELL and table.sentence([verdict]).startswith("CAN'T TELL for 1 of 1")


def test_a_count_that_was_0_has_no_change_in_percent():
    verdicts = judge(counted_run([0.0] * 3, [1.0] * 3, "futex_calls"))
    assert table.rows_of(verdicts)[0][5] == "was 0" and table.sentence(verdicts).endswith(": was 0")


def test_a_benchmark_that_fails_in_head_does_not_hide_the_worst_regression():
    run = gate_run(noise=0.01, launches=14, benchmarks=5)
    for times, record in zip((1.1, 1.2, None, 1.5, 1.4), run.records[1::2], strict=True):
        if times is None:
            record.fail("failed", "it crashed")
        else:
            record.samples = [dataclasses.replace(each, value=times * each.value) for each in record.samples]
    names = [command.split("'")[1].split()[1] for command in commands(run, judge(run))]
    assert names == ["3", "4", "5"]


def run_with_counts():
    run = gate_run(noise=0.01)
    for record in run.records[4:]:
        record.suite, record.benchmark, record.params["of"] = "counts", "reads", "add"
        record.samples = [dataclasses.replace(sample, value=100.0) for sample in record.samples[:3]]
    return run


def test_unchanged_counts_share_a_row():
    rows = table.rows_of(judge(run_with_counts()))
    assert len(rows) == 3 and rows[-1][1].startswith("10 counts of work")


def test_unavailable_counts_share_a_row_and_a_count_that_grew_has_a_row_of_its_own():
    run = run_with_counts()
    for record in run.records[4:20]:
        empty(record)
        record.fail("skipped", "install valgrind")
    run.records[-1].samples = [dataclasses.replace(sample, value=200.0) for sample in run.records[-1].samples]
    verdicts = judge(run)
    rows = table.rows_of(verdicts)
    assert [row[0] for row in rows].count(Word.PASS) == 3 and rows[0][0] == Word.REGRESSION
    assert any(
        row[1].startswith("8 counts of work") and row[9] == "base has no figure: install valgrind" for row in rows
    )
    assert status_of(verdicts) is Status.REGRESSION


@pytest.mark.parametrize(
    ("damage", "about", "status"),
    [
        (interrupt, {"noise": 0.01}, Status.HARNESS_ERROR),
        (fail_base, {"noise": 0.01}, Status.HARNESS_ERROR),
        (lose_all_samples, {"noise": 0.01}, Status.HARNESS_ERROR),
        (lose_all_samples, {"noise": 0.01, "slower": 0.3, "launches": 14}, Status.REGRESSION),
    ],
)
def test_verdicts_of_an_incomplete_run_are_printed(damage, about, status, tmp_path, capsys):
    run = gate_run(benchmarks=4, **about)
    damage(run)
    save(tmp_path / "gate.json", run)
    assert program.main([str(tmp_path / "gate.json")]) == status
    told = capsys.readouterr()
    assert re.search("^pass +add 4 on CartPole-v1", told.out, re.MULTILINE) and "not measured yet" not in told.out
    failed = status is Status.HARNESS_ERROR
    assert ("HARNESS ERROR" in told.err) is failed and ("REGRESSION in" in told.out) is not failed
    assert "PASS" not in told.out


def test_an_incomplete_run_is_not_a_regression_if_strict(tmp_path, capsys):
    run = gate_run(noise=0.5, benchmarks=4)
    interrupt(run)
    save(tmp_path / "gate.json", run)
    page = tmp_path / "gate.md"
    assert program.main([str(tmp_path / "gate.json"), "--strict", "--markdown", str(page)]) == Status.HARNESS_ERROR
    assert "HARNESS ERROR" in capsys.readouterr().err and page.read_text().startswith("**HARNESS ERROR: the run is")


def test_failures_with_one_cause_share_a_line():
    run = gate_run(noise=0.01, benchmarks=6)
    for number in (3, 5, 7):
        run.records[number].fail("wrong", f"uniform: row {number} was drawn {number}00 times\nat length")
    run.records[9].fail("failed", "killed by signal 9")
    rows = table.rows_of(judge(run))
    assert [row[1] for row in rows[:2]] == ["3 benchmarks: add", "add 5 on CartPole-v1"] and len(rows) == 4
    assert rows[0][9] == "wrong: uniform: row 3 was drawn 300 times"
    lines = table.text(judge(run)).splitlines()
    assert lines[3] == f"{'':12}  wrong: uniform: row 3 was drawn 300 times" and max(map(len, lines)) <= table.WIDTH


def test_an_infinite_interval_is_shown_as_not_yet_known():
    (row, *_) = table.rows_of(judge(gate_run(noise=0.5, benchmarks=1, launches=2)))
    assert row[6] == "not yet known" and "?" not in " ".join(row)


@pytest.mark.parametrize("status", ["failed", "wrong", "skipped"])
def test_a_benchmark_that_fails_only_in_head_is_a_regression(status, tmp_path, capsys):
    run = gate_run(noise=0.01, benchmarks=3)
    run.records[3].fail(status, "a row was never added")
    save(tmp_path / "gate.json", run)
    assert program.main([str(tmp_path / "gate.json")]) == Status.REGRESSION
    assert f"{status}: a row was never added" in capsys.readouterr().out.splitlines()[-1]


def test_a_benchmark_that_fails_in_base_is_not_judged(tmp_path, capsys):
    run = gate_run(noise=0.01, benchmarks=3)
    for record in run.records[2:4]:
        empty(record)
    run.records[2].fail("skipped", "not built yet")
    run.records[3].fail("left_out", "base has no figure")
    save(tmp_path / "gate.json", run)
    assert program.main([str(tmp_path / "gate.json")]) == Status.PASS
    assert capsys.readouterr().out.splitlines()[-1].endswith("; not judged: 1 benchmark for which base has no figure")


def test_the_program_prints_a_table_the_next_steps_and_a_closing_line(tmp_path, capsys):
    run = gate_run(slower=0.3, noise=0.01, benchmarks=3, launches=14)
    run.command = "python -m suites.gate --base main --only other --out results/runs/x.json"
    save(tmp_path / "gate.json", run)
    page = tmp_path / "gate.md"
    assert program.main([str(tmp_path / "gate.json"), "--markdown", str(page)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    head, first = lines[0], lines[2]
    assert first.index("regression") == head.index("verdict") == 0
    assert first.index("add 1 on") == head.index("benchmark") and max(map(len, lines[:5])) <= table.WIDTH
    assert lines[5] == ".venv/bin/python -m suites.gate --base main --only 'add 1 on CartPole-v1'"
    assert lines[6].startswith("REGRESSION in 1 of 3 benchmarks, worst add 1 on CartPole-v1: +")
    said = page.read_text()
    assert said.startswith(f"**{lines[6]}**") and lines[5] in said and "<details>" in said
    assert said.index("add 1 on CartPole-v1") < said.index("<details>") < said.index("add 2 on CartPole-v1")


@pytest.mark.parametrize(("about", "status", "start"), [({"noise": 0.01}, 0, "PASS: 12"), ({"noise": 0.5}, 2, "CAN'T")])
def test_each_verdict_has_its_closing_line(tmp_path, capsys, about, status, start):
    save(tmp_path / "gate.json", gate_run(**about))
    assert program.main([str(tmp_path / "gate.json")]) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(start)


def test_an_improvement_is_counted():
    verdicts = judge(gate_run(slower=-0.3, noise=0.01, launches=14))
    assert table.sentence(verdicts).endswith("; 1 improved") and not commands(gate_run(), verdicts)


def test_a_bad_file_is_a_harness_error(tmp_path, capsys):
    assert program.main([str(tmp_path / "none.json")]) == 3
    (tmp_path / "bad.json").write_text("{")
    assert program.main([str(tmp_path / "bad.json")]) == 3
    assert "bad.json: is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["run.json", "--markdown"], ["--wrong"]])
def test_bad_usage_is_not_mistaken_for_cant_tell(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        program.main(arguments)
    assert stopped.value.code == 3
