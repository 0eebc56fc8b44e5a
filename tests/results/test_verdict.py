"""The gate's verdicts and when they are reached, and its error rates in seeded simulations."""

import dataclasses
import math

import numpy as np
import pytest

from results.analysis.rules import CALLS, MANY, MISSED, SINGLE, WORK, rule_of
from results.analysis.verdict import HarnessError, Word, check_kind, decide, incomplete, judge, status_of
from tests.reports.synthetic_runs import gate_run, throughput_run

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


@pytest.mark.parametrize(("base", "head", "word"), [(1e6, 1.09e6, Word.PASS), (1e7, 1.09e7, Word.REGRESSION)])
def test_installed_files_may_grow_by_100_kilobytes(base, head, word):
    run = gate_run(noise=0.0, benchmarks=1, launches=3)
    for record, value in zip(run.records, (base, head), strict=True):
        record.suite, record.benchmark, record.unit = "startup", "installed", "B"
        record.samples = [dataclasses.replace(sample, value=value) for sample in record.samples]
    assert words(run) == [word]


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
