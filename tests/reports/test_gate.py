"""The gate's verdicts and when they are reached, its exit statuses, and its error rates in seeded simulations."""

import dataclasses
import math
import re

import numpy as np
import pytest

from reports.gate import __main__ as program
from reports.gate import table
from reports.gate.again import commands
from results import save
from results.analysis.rules import CALLS, MANY, MISSED, SINGLE, WORK, rule_of
from results.analysis.verdict import HarnessError, Status, Word, check_kind, decide, incomplete, judge, status_of

from .synthetic_runs import gate_run, throughput_run

TIMED = 30


def words(run):
    return [judged.word for judged in judge(run)]


def first_decisions(shift, spread, runs=200, pairs=60, effect=0.05, seed=5):
    random = np.random.default_rng(seed)
    noise = spread * random.standard_t(3, (runs, pairs))
    return [decide(list(each), effect, TIMED) for each in math.log1p(shift) + noise]


def share(decisions, word):
    return sum(each[0] is word for each in decisions) / len(decisions)


def test_identical_sides_pass():
    run = gate_run(noise=0.02)
    for base, head in zip(run.records[::2], run.records[1::2], strict=True):
        head.samples = list(base.samples)
        head.samples[0] = dataclasses.replace(head.samples[0], value=1.0001 * head.samples[0].value)
    assert set(words(run)) == {Word.PASS}


def test_only_the_benchmark_slowed_by_30_percent_is_a_regression():
    judged = judge(gate_run(slower=0.30, noise=0.01, launches=14))
    assert [v.word for v in judged] == [Word.REGRESSION] + [Word.PASS] * 11
    assert judged[0].change == pytest.approx(0.30, abs=0.05)
    low, high = judged[0].bounds
    assert low < 0.30 < high


def test_higher_is_better_reverses_the_direction():
    run = gate_run(slower=0.30, noise=0.02, launches=14)
    for record in run.records:
        record.better, record.unit = "higher", "steps/s"
    assert judge(run)[0].change == pytest.approx(1 / 1.3 - 1, abs=0.05)
    assert judge(run)[0].note == "faster"


def test_later_pairs_do_not_change_the_verdict_on_a_benchmark():
    """The gate stops measuring it there, so the verdict from the whole record must be the same."""
    run = gate_run(noise=0.01, launches=20, benchmarks=1)
    (many,) = judge(run)
    for record in run.records:
        del record.samples[many.pairs :]
    (few,) = judge(run)
    assert few.pairs == many.pairs < 20 and few.differences == many.differences and few.word is Word.PASS
    decided = decide([0.0] * 8 + [0.5] * 30, 0.05, TIMED)
    assert decided[0] is Word.PASS and decided[2] < 8


def test_noise_as_large_as_the_effect_leaves_the_verdict_open():
    judged = judge(gate_run(noise=0.4, launches=8, benchmarks=4))
    assert {v.word for v in judged} == {Word.CANT_TELL}
    assert all(
        "pair" in v.note or v.note in ("too noisy", "its change is close to the smallest relevant one") for v in judged
    )


def test_the_number_of_missing_pairs_is_estimated():
    word, note, _ = decide([0.0, 0.001], 0.05, TIMED)
    assert word is Word.CANT_TELL and note == "needs about 3 more pairs"


def test_an_unchanged_benchmark_passes_after_few_pairs_and_is_not_a_regression():
    decided = first_decisions(shift=0.0, spread=0.02)
    assert share(decided, Word.REGRESSION) == 0 and share(decided, Word.PASS) == 1
    assert np.mean([pairs for _, _, pairs in decided]) < 10


def test_a_relevant_slow_down_is_found():
    assert share(first_decisions(shift=0.10, spread=0.02), Word.REGRESSION) >= 0.98
    assert share(first_decisions(shift=0.20, spread=0.04), Word.REGRESSION) >= 0.98


def test_the_smallest_relevant_slow_down_rarely_passes():
    passed = share(first_decisions(shift=0.05, spread=0.02), Word.PASS)
    assert passed <= MISSED + 3 * math.sqrt(MISSED * (1 - MISSED) / 200)


def test_a_small_but_certain_slow_down_passes_and_is_noted():
    word = decide([0.02] * 40, 0.05, 1)[0]
    assert word is Word.PASS
    decided = [each for each in first_decisions(shift=0.04, spread=0.004) if each[0] is Word.PASS]
    assert any(note == "slower, but by less than the smallest relevant change" for _, note, _ in decided)


@pytest.mark.slow
def test_gates_of_unchanged_benchmarks_rarely_raise_a_false_alarm():
    """Each gate has 30 benchmarks, a fifth of them very noisy. At most 1% of the gates may raise an alarm."""
    random = np.random.default_rng(6)
    alarms = 0
    for _ in range(300):
        spreads = np.where(np.arange(TIMED) % 5 == 0, 0.2, 0.02)
        runs = spreads[:, None] * random.standard_t(2, (TIMED, 40))
        alarms += any(decide(list(each), 0.05, TIMED)[0] is Word.REGRESSION for each in runs)
    assert alarms <= 3 + 3 * math.sqrt(3)


def job(run, **about):
    for record in run.records[:2]:
        for name, value in about.items():
            setattr(record, name, value)
    return judge(run)[0].job


def test_figures_of_competing_processes_may_differ_by_more():
    assert rule_of(job(gate_run(benchmarks=1))) == SINGLE
    assert rule_of(job(gate_run(benchmarks=1), params={"explorers": 4})) == MANY
    assert rule_of(job(gate_run(benchmarks=1), suite="counts", benchmark="reads")) == WORK
    assert rule_of(job(gate_run(benchmarks=1), suite="counts", benchmark="futex_calls")) == CALLS


def counted_run(base, head, counter):
    run = gate_run(benchmarks=1, launches=len(base))
    for record, values in zip(run.records, (base, head), strict=True):
        record.suite, record.benchmark = "counts", counter
        record.samples = [
            dataclasses.replace(sample, value=value) for sample, value in zip(record.samples, values, strict=True)
        ]
    return run


@pytest.mark.parametrize(
    ("counter", "base", "head", "word"),
    [
        ("reads", [100.0], [100.9], Word.PASS),
        ("reads", [100.0], [101.1], Word.CANT_TELL),
        ("reads", [100.0] * 3, [101.1] * 3, Word.REGRESSION),
        ("reads", [100.0] * 3, [101.1, 101.1, 100.0], Word.CANT_TELL),
        ("reads", [100.0], [50.0], Word.PASS),
        ("futex_calls", [0.0], [0.05], Word.PASS),
        ("futex_calls", [0.0] * 3, [1.0] * 3, Word.REGRESSION),
        ("futex_calls", [10.0] * 3, [10.2] * 3, Word.REGRESSION),
        ("futex_calls", [1.0], [0.0], Word.PASS),
    ],
)
def test_counts_are_compared_without_statistics(counter, base, head, word):
    assert words(counted_run(base, head, counter)) == [word]


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


def test_the_verdicts_determine_the_exit_status():
    quiet = judge(gate_run(noise=0.01))
    slower = judge(gate_run(slower=0.3, noise=0.01, launches=14))
    noisy = judge(gate_run(noise=0.5))
    assert [status_of(each) for each in (quiet, slower, noisy)] == [0, 1, 2]
    assert [status_of(each, strict=True) for each in (quiet, slower, noisy)] == [0, 1, 1]


def empty(record):
    record.samples.clear()
    record.status, record.reason = "interrupted", "not measured"


def fail_base(run):
    run.records[2].fail("failed", "the process was killed")


def break_head(run):
    run.records[3].fail("broken", "no such module")


def drop_a_record(run):
    run.records.pop()


def drop_a_whole_pair(run):
    del run.records[-2:]


def lose_all_samples(run):
    for record in run.records[2:4]:
        empty(record)


def interrupt(run):
    run.interrupted = True


def unfinish(run):
    run.finished = None


def give_a_reason(run):
    run.peers[0] = dataclasses.replace(run.peers[0], reason="did not build")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (fail_base, r"the process was killed"),
        (break_head, "no such module"),
        (drop_a_record, "1 declared cell"),
        (drop_a_whole_pair, "2 declared cell"),
        (lose_all_samples, "never measured: throughput add"),
        (interrupt, "interrupted"),
        (unfinish, "never finished"),
        (give_a_reason, "base could not be measured: did not build"),
    ],
)
def test_an_incomplete_run_is_a_harness_error(damage, message):
    run = gate_run(noise=0.01)
    damage(run)
    with pytest.raises(HarnessError, match=message):
        check_kind(run)
        if lacking := incomplete(run):
            raise HarnessError(lacking)
        judge(run)


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


@pytest.mark.parametrize(("base", "head", "word"), [(1e6, 1.09e6, Word.PASS), (1e7, 1.09e7, Word.REGRESSION)])
def test_installed_files_may_grow_by_100_kilobytes(base, head, word):
    run = gate_run(noise=0.0, benchmarks=1, launches=3)
    for record, value in zip(run.records, (base, head), strict=True):
        record.suite, record.benchmark, record.unit = "startup", "installed", "B"
        record.samples = [dataclasses.replace(sample, value=value) for sample in record.samples]
    assert words(run) == [word]


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


def test_a_run_without_anything_to_judge_is_a_harness_error():
    run = gate_run(noise=0.01, benchmarks=1)
    for record in run.records:
        empty(record)
        record.fail("skipped", "not built yet")
    with pytest.raises(HarnessError, match="no benchmark that both base and head can run"):
        status_of(judge(run))


def test_a_bench_run_is_not_a_gate_run():
    with pytest.raises(HarnessError, match="this is a bench run"):
        check_kind(throughput_run())


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
