"""The gate tells the truth: negative controls, its exit statuses, and its error rates by seeded simulation."""

import dataclasses

import pytest

from reports import verdict
from reports.verdict import HarnessError, exit_status, judge, launches_needed
from results import save

from .synthetic_runs import gate_run, throughput_run


def words(run, **options):
    return [judged.word for judged in judge(run, **options)]


def test_identical_sides_pass():
    run = gate_run(noise=0.02)
    for base, head in zip(run.records[::2], run.records[1::2], strict=True):
        head.samples = list(base.samples)
    assert set(words(run)) == {"pass"}


def test_a_slow_down_of_30_percent_is_a_regression_and_only_there():
    judged = judge(gate_run(slower=0.30, noise=0.02))
    assert [v.word for v in judged] == ["regression"] + ["pass"] * 11
    assert judged[0].slow_down == pytest.approx(0.30, abs=0.05)
    assert judged[0].low < 0.30 < judged[0].high


def test_higher_is_better_turns_the_direction():
    run = gate_run(slower=0.30, noise=0.02)
    for record in run.records:
        record.better, record.unit = "higher", "steps/s"
    assert judge(run)[0].slow_down == pytest.approx(1 / 1.3 - 1, abs=0.05)
    assert judge(run)[0].note == "improvement"


def test_noise_as_large_as_the_effect_can_not_be_told():
    judged = judge(gate_run(noise=0.4, launches=8, benchmarks=4))
    assert {v.word for v in judged} == {"can't tell"}


def test_an_improvement_passes_and_is_noted():
    judged = judge(gate_run(slower=-0.3, noise=0.02))
    assert (judged[0].word, judged[0].note) == ("pass", "improvement")


def test_a_small_but_certain_slow_down_is_within_the_limit():
    judged = judge(gate_run(slower=0.05, noise=0.005))
    assert (judged[0].word, judged[0].note) == ("pass", "slower, but within the limit")
    assert words(gate_run(slower=0.05, noise=0.005), effect=0.03)[0] == "regression"


def test_pure_noise_is_rarely_called_a_regression():
    """5% noise a launch, 5% of launches 1.5 to 3 times as slow, 12 benchmarks, 10 launches: alpha bounds it at 5%."""
    runs = [judge(gate_run(noise=0.05, outliers=0.05, seed=seed)) for seed in range(60)]
    assert sum(exit_status(judged) == verdict.REGRESSION for judged in runs) <= 3
    every = [v.word for judged in runs for v in judged]
    assert every.count("pass") / len(every) > 0.9


def test_an_unchanged_tree_passes_on_a_quiet_runner():
    runs = [gate_run(noise=0.03, outliers=0.03, seed=seed) for seed in range(30)]
    assert {exit_status(judge(run)) for run in runs} == {verdict.PASS}


def test_a_slow_down_of_30_percent_is_always_called_on_a_quiet_runner():
    assert all(words(gate_run(slower=0.30, noise=0.05, seed=seed))[0] == "regression" for seed in range(40))


@pytest.mark.slow
def test_with_outliers_a_slow_down_of_30_percent_is_mostly_called_and_never_passes():
    """What outliers cost is an answer, never a wrong one; the smaller alpha / 12 is to 2^-launches, the more."""
    for launches, at_least in ((10, 0.7), (12, 0.85)):
        about = {"slower": 0.30, "noise": 0.05, "outliers": 0.05, "launches": launches}
        called = [words(gate_run(**about, seed=seed))[0] for seed in range(60)]
        assert "pass" not in called
        assert called.count("regression") >= at_least * len(called)


def test_a_slow_down_as_large_as_the_effect_hardly_ever_passes():
    """ "pass" excludes it at alpha."""
    passed = [words(gate_run(slower=0.10, noise=0.03, seed=seed, benchmarks=1))[0] == "pass" for seed in range(150)]
    assert sum(passed) <= 150 * 0.05 + 3 * (150 * 0.05 * 0.95) ** 0.5


def test_exit_statuses():
    quiet, slower, noisy = (gate_run(**about) for about in ({"noise": 0.01}, {"slower": 0.3}, {"noise": 0.5}))
    assert exit_status(judge(quiet)) == 0
    assert exit_status(judge(slower)) == 1
    assert exit_status(judge(noisy)) == 2


def test_launches_needed():
    assert launches_needed(1) == 8
    assert launches_needed(12) == 8
    assert launches_needed(18) == 9


def lose_a_launch(run):
    run.records[3].samples.pop()


def fail_a_record(run):
    run.records[2].fail("failed", "the process was killed")


def skip_a_record(run):
    run.records[3].samples.clear()
    run.records[3].status = "interrupted"
    run.records[3].fail("skipped", "no such thing")


def drop_a_record(run):
    run.records.pop()


def drop_a_whole_pair(run):
    del run.records[-2:]


def interrupt(run):
    run.interrupted = True


def unfinish(run):
    run.finished = None


def give_a_reason(run):
    run.peers[0] = dataclasses.replace(run.peers[0], reason="did not build")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lose_a_launch, "only one side was launched in block 9"),
        (fail_a_record, r"failed: throughput add .*: the process was killed"),
        (skip_a_record, "was skipped: no such thing"),
        (drop_a_record, "1 declared cell"),
        (drop_a_whole_pair, "2 declared cell"),
        (interrupt, "interrupted"),
        (unfinish, "never finished"),
        (give_a_reason, "base could not be measured: did not build"),
    ],
)
def test_a_run_that_is_not_whole_is_a_harness_error(damage, message):
    run = gate_run()
    damage(run)
    with pytest.raises(HarnessError, match=message):
        judge(run)


def test_what_base_cannot_do_is_not_judged(tmp_path, capsys):
    run = gate_run(noise=0.01, benchmarks=3)
    for record in run.records[2:4]:
        record.samples.clear()
        record.status = "interrupted"
        record.fail("skipped", "not built yet")
    assert len(judge(run)) == 2
    save(tmp_path / "gate.json", run)
    assert verdict.main([str(tmp_path / "gate.json")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("not judged because base lacks it: 1 benchmark")


def test_nothing_to_judge_is_a_harness_error():
    run = gate_run(noise=0.01, benchmarks=1)
    for record in run.records:
        record.samples.clear()
        record.status = "interrupted"
        record.fail("skipped", "not built yet")
    with pytest.raises(HarnessError, match="nothing was measured"):
        judge(run)


def test_too_few_launches_is_a_harness_error():
    with pytest.raises(HarnessError, match=r"7 launches per side; at least 8 are needed$"):
        judge(gate_run(launches=7))
    with pytest.raises(HarnessError, match="8 launches per side; at least 9 are needed for any significance"):
        judge(gate_run(launches=8, benchmarks=18))


def test_a_bench_run_is_no_gate_run():
    with pytest.raises(HarnessError, match="this is a bench run"):
        judge(throughput_run())


def test_the_command_line_prints_an_aligned_table_and_one_closing_line(tmp_path, capsys):
    save(tmp_path / "gate.json", gate_run(slower=0.3, noise=0.02, benchmarks=3))
    assert verdict.main([str(tmp_path / "gate.json")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    head, first = lines[0], lines[2]
    assert first.index("regression") == head.index("verdict")
    assert first.index("µs/transition") == head.index("unit")
    assert lines[-1].startswith("REGRESSION in 1 of 3 benchmarks, worst add 1 on CartPole-v1: +")


@pytest.mark.parametrize(("about", "status", "start"), [({"noise": 0.01}, 0, "PASS: 12"), ({"noise": 0.5}, 2, "CAN'T")])
def test_the_other_closing_lines(tmp_path, capsys, about, status, start):
    save(tmp_path / "gate.json", gate_run(**about))
    assert verdict.main([str(tmp_path / "gate.json")]) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(start)


def test_a_bad_file_is_a_harness_error(tmp_path, capsys):
    assert verdict.main([str(tmp_path / "none.json")]) == 3
    (tmp_path / "bad.json").write_text("{")
    assert verdict.main([str(tmp_path / "bad.json")]) == 3
    assert "bad.json: is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["run.json", "--effect", "no"], ["run.json", "--alpha", "0"], ["--wrong"]])
def test_bad_usage_is_not_mistaken_for_cant_tell(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        verdict.main(arguments)
    assert stopped.value.code == 3
