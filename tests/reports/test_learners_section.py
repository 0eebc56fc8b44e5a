"""The section on trainings of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from reports import learners_tables
from reports.build import build
from reports.figures.formatting import NOTHING, TIMES
from reports.sections import context_of, learners
from results import Run
from results.record import Sample
from results.statistics import detectable, least_p, p_equal

from .synthetic_runs import add_workload, empty_run

REFERENCE = "stable-baselines3[training]"
OURS, EXACT, PRIORITIZED = (f"ours[{name}]" for name in ("SB3", "exact", "PER"))
SEEDS = 5
TASK = {"task": "DQN on CartPole", "steps": 4_000, "episodes": 20}
UNITS = {
    "steps": ("steps/s", "higher"),
    "in_buffer": ("% of the time", "lower"),
    "memory": ("B/transition", "lower"),
    "solved": ("of 1", "higher"),
    "needed": ("steps", "lower"),
    "score": ("mean return", "higher"),
    "weights": ("CRC-32", "lower"),
    "relative_speed": ("times", "higher"),
}
SPREAD = (-20.0, 10.0, 0.0, 15.0, -5.0)  # of scores over seeds


def trainings(
    speeds: Mapping[str, float] | None = None,
    scores: Mapping[str, float] | None = None,
    needed: Mapping[str, Sequence[float | None]] | None = None,
    seeds: int = SEEDS,
    target: float | None = 300.0,
) -> Run:
    """Invented trainings. The scores of EXACT are the reference's; None is a training that missed the target."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    params = TASK if target is None else {**TASK, "target": target}

    def add(benchmark: str, peer: str, values: Sequence[float], step: int | None = None) -> None:
        unit, better = UNITS[benchmark]
        record = run.cell(
            suite="learners", benchmark=benchmark, peer=peer, workload="CartPole-v1", unit=unit, better=better,
            params=params if step is None else {**params, "step": step},
        )  # fmt: skip
        for block, value in enumerate(values[:seeds]):
            record.add_sample(block, value)

    for peer in (OURS, EXACT, PRIORITIZED, REFERENCE):
        run.add_peer(peer, "1", f"how {peer} is used")
        speed = (speeds or {}).get(peer, 1_000.0)
        add("steps", peer, [speed * (1 + 0.01 * block) for block in range(SEEDS)])
        add("in_buffer", peer, [9.0 if peer == REFERENCE else 3.0] * SEEDS)
        add("memory", peer, [56.0] * SEEDS)
        reached = (needed or {}).get(peer, [2_000.0] * SEEDS)
        if target is not None:
            add("solved", peer, [float(value is not None) for value in reached])
            add("needed", peer, [4_000.0 if value is None else value for value in reached])
        last = (scores or {}).get(peer, 400.0)
        for step in (2_000, 4_000):
            noise = SPREAD if peer in (REFERENCE, EXACT) else SPREAD[::-1]
            add("score", peer, [last * step / 4_000 + each for each in noise], step)
    for peer in (REFERENCE, EXACT):
        add("weights", peer, (11.0, 12.0, 13.0, 14.0, 15.0))
    return run


def task(run: Run):
    (part,) = learners.parts(context_of(run))
    (found,) = part.body.tasks
    return found


def notes(run: Run) -> str:
    return "\n".join(task(run).notes)


def test_the_table_has_ratios_to_the_librarys_own_buffer():
    found = task(trainings({OURS: 1_200.0}))
    assert found.title == "DQN on CartPole, 4,000 steps, score over 20 episodes, target 300"
    assert [label for label, _ in found.table.columns] == [
        label for name, label in learners.COLUMNS.items() if name != "relative_speed"
    ]
    speed, share, memory, needed, score = dict(found.table.rows)[OURS]
    assert speed.ratio == f"1.20{TIMES}" and share.ratio == f"3.00{TIMES}" and memory.ratio == f"1.00{TIMES}"
    assert (needed.value, score.value, score.ratio) == ("2,000", "400", "")
    assert not any(cells[-1].fastest for _, cells in found.table.rows)


def test_a_buffer_that_does_not_make_trainings_faster_is_named():
    said = notes(trainings({OURS: 1_200.0, EXACT: 1_030.0, PRIORITIZED: 950.0}))
    assert f"is clearly faster than with {REFERENCE}: {OURS} (1.20{TIMES} [1.20, 1.20])." in said
    assert (
        f"is not clearly faster than with {REFERENCE} (which needs an interval above 1.1): {EXACT} (1.03{TIMES}" in said
    )
    assert f"is slower than with {REFERENCE} (interval below 1): {PRIORITIZED} (0.950{TIMES}" in said


def in_turns(relative: Mapping[str, float]) -> Run:
    """The same with trainings that took turns, which are shorter."""
    run = trainings({OURS: 1_200.0, EXACT: 1_200.0})
    for peer, speed in relative.items():
        record = run.cell(
            suite="learners", benchmark="relative_speed", peer=peer, workload="CartPole-v1", unit="times",
            better="higher", params={**TASK, "steps": 1_000},
        )  # fmt: skip
        for block in range(SEEDS):
            record.add_sample(block, speed + 0.001 * block)
    return run


def test_the_stated_speed_is_that_of_trainings_in_turns():
    run = in_turns({OURS: 1.02, EXACT: 0.97, REFERENCE: 1.0})
    said = notes(run)
    assert f"(which needs an interval above 1.1): {OURS} (1.02{TIMES} [1.02, 1.02])." in said
    assert f"is slower than with {REFERENCE} (interval below 1): {EXACT} (0.972{TIMES}" in said
    assert f"Control: {REFERENCE}, in turns with itself, is 1.00{TIMES} [1.00, 1.00] as fast." in said
    found = task(run)
    assert found.title.startswith("DQN on CartPole, 4,000 steps")
    place = [label for label, _ in found.table.columns].index(learners.COLUMNS["relative_speed"])
    cells = {peer: row[place] for peer, row in found.table.rows}
    assert (cells[OURS].value, cells[OURS].ratio, cells[OURS].fastest) == ("1.02", "", False)
    assert cells[PRIORITIZED] is None
    table = "\n".join(learners_tables.table_lines(context_of(run)))
    assert f"| {OURS} | 56.0 (about as many) | 3.00% | 1.02{TIMES} [1.02, 1.02] |" in table
    assert f"| {REFERENCE} | 56.0 | 9.00% | 1.00{TIMES} [1.00, 1.00] against itself |" in table


def test_identical_results_are_stated():
    found = task(trainings())
    assert f"{EXACT} draws the rows that {REFERENCE} draws" in "\n".join(found.notes) and not found.faults
    assert "identical, with 5 seeds." in "\n".join(found.notes)


@pytest.mark.parametrize("different", ["weights", "score"])
def test_results_that_should_be_identical_and_are_not_are_a_fault(different, tmp_path):
    run = trainings()
    record = next(each for each in run.records if (each.peer, each.benchmark) == (EXACT, different))
    record.samples[2] = Sample(2, 1.0)
    (fault,) = task(run).faults
    assert fault.startswith(f"Fault: {EXACT} should draw the rows that {REFERENCE} draws") and "with seed 2." in fault
    assert "identical" not in notes(run)
    html, markdown = (path.read_text(encoding="utf-8") for path in build(run, tmp_path))
    assert f"**{fault}**" in markdown and f"<strong>{fault}</strong>" in html


def test_equal_returns_are_no_difference_and_the_section_says_what_it_could_have_found():
    (said,) = [note for note in task(trainings()).notes if "No difference of returns" in note]
    assert f"{OURS} (p = 1.0) and {PRIORITIZED} (p = 1.0)" in said and EXACT not in said
    assert "it finds a difference of 28 four times in five" in said


def test_different_returns_are_a_difference():
    said = notes(trainings(scores={PRIORITIZED: 300.0}))
    assert f"Returns with {PRIORITIZED} differ from those with {REFERENCE} (p = 0.016;" in said
    assert "300 [280, 315] against 400 [380, 415]" in said


def test_too_few_seeds_give_no_verdict():
    said = notes(trainings(seeds=3))
    assert "Too few seeds to compare the last scores" in said and "Too few seeds for a verdict on the speed" in said
    assert f"too few for a verdict on the steps that {OURS} needs to the target" in said
    assert "No difference" not in said and "clearly" not in said


def test_steps_to_the_target_are_compared():
    few = [1_000.0, 1_000.0, 1_000.0, 1_100.0, 900.0]
    said = notes(trainings(needed={PRIORITIZED: few}))
    assert f"{PRIORITIZED} needs 0.500 [0.450, 0.550] times as many steps to the target as {REFERENCE}." in said
    assert f"{OURS} needs 1.00 [1.00, 1.00] times" in said and f"as {REFERENCE}, which is no clear difference." in said


def test_a_training_that_missed_the_target_is_no_figure():
    found = task(trainings(needed={OURS: [None] * SEEDS, PRIORITIZED: [1_000.0, None, 1_000.0, 1_000.0, 1_000.0]}))
    cells = {peer: row[3] for peer, row in found.table.rows}
    assert cells[OURS].status == "not reached, > 4,000 steps"
    assert cells[PRIORITIZED].interval.endswith("(4 of 5 reached it)") and not cells[PRIORITIZED].fastest
    assert cells[REFERENCE].fastest or cells[EXACT].fastest
    said = "\n".join(found.notes)
    assert f"4 seeds are too few for a verdict on the steps that {PRIORITIZED} needs to the target" in said


def test_a_reference_that_missed_the_target_has_no_ratio_to_it():
    assert f"{REFERENCE} never reached the target" in notes(trainings(needed={REFERENCE: [None] * SEEDS}))


def test_a_task_without_a_target_has_no_steps_to_it():
    found = task(trainings(target=None))
    assert found.title == "DQN on CartPole, 4,000 steps, score over 20 episodes"
    assert "steps to the target" not in [label for label, _ in found.table.columns] and found.picture


def test_the_page_explains_each_buffer_and_its_limits(tmp_path):
    html, markdown = (path.read_text(encoding="utf-8") for path in build(trainings(), tmp_path))
    section = markdown.split("## In other libraries' learners")[1]
    assert f"- {OURS}: how {OURS} is used" in section and f"<strong>{OURS}:</strong>" in html
    assert "| CartPole-v1 | played by trainings" in markdown


@pytest.mark.parametrize(
    "benchmarks", [set(UNITS) - {"score"}, {"score"}, {"solved"}, {"needed"}, {"weights"}, {"steps"}]
)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("peers", [{REFERENCE}, {OURS, EXACT}, {OURS, EXACT, PRIORITIZED, REFERENCE}])
def test_records_that_are_partly_missing_still_give_a_page(benchmarks, drop, peers, tmp_path):
    run = trainings(seeds=2)
    withdrawn = [record for record in run.records if record.benchmark in benchmarks and record.peer in peers]
    if drop:
        run.records[:] = [record for record in run.records if record not in withdrawn]
    for record in withdrawn:
        record.status, record.reason, record.invalidated_at = "invalidated", "counted twice", "fedcba9876543210"
    _, markdown = build(run, tmp_path)
    assert "## In other libraries' learners" in markdown.read_text(encoding="utf-8")


def test_the_test_of_equality():
    apart = [1.0, 2.0, 3.0, 4.0, 5.0], [11.0, 12.0, 13.0, 14.0, 15.0]
    assert p_equal(*apart) == pytest.approx(2 / 252) == pytest.approx(least_p(5, 5))
    assert p_equal([1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0]) == 1
    assert least_p(3, 3) > 0.05 > least_p(4, 4)


def test_the_difference_that_a_test_can_detect_is_one_that_students_test_detects():
    import numpy as np
    from scipy import stats

    random = np.random.default_rng(0)
    least = detectable([-1.0, 1.0] * 3, [-1.0, 1.0] * 3)  # standard deviation: sqrt(6/5)
    one, other = (random.normal(mean, np.sqrt(1.2), (20_000, 6)) for mean in (0.0, least))
    assert np.mean(stats.ttest_ind(one, other, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)


def test_the_table_of_trainings_begins_with_the_librarys_own_buffer():
    lines = learners_tables.table_lines(context_of(trainings({OURS: 1_200.0, PRIORITIZED: 950.0})))
    assert lines[2] == f"| DQN on CartPole | {REFERENCE} | 56.0 | 9.00% | 1{TIMES} |"
    assert lines[3] == f"|  | {OURS} | 56.0 (about as many) | 3.00% | 1.20{TIMES} [1.20, 1.20] (one after the other) |"
    assert (
        lines[5]
        == f"|  | {PRIORITIZED} | 56.0 (about as many) | 3.00% | 0.950{TIMES} [0.950, 0.950] (one after the other) |"
    )
    assert learners_tables.table_lines(context_of(empty_run())) == []


def test_the_table_of_outcomes_says_how_many_trainings_reached_the_target():
    run = trainings(needed={PRIORITIZED: [3_000.0, None, 1_000.0, None, None], OURS: [None] * SEEDS})
    lines = learners_tables.outcome_lines(context_of(run))
    title = "DQN on CartPole, 4,000 steps, target 300"
    assert lines[2] == f"| {title} | {REFERENCE} | 5 of 5 | 2,000 | 400 [380, 415] |"
    assert f"|  | {PRIORITIZED} | 2 of 5 | 2,000 | 400 [380, 415] |" in lines
    assert f"|  | {OURS} | 0 of 5 | {NOTHING} | 400 [380, 415] |" in lines
    assert learners_tables.outcome_lines(context_of(trainings(target=None))) == []
