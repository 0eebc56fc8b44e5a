"""The section on trainings: until a target is reached in Ape-X, and with the learners of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from reports import plots
from reports.figures.formatting import TIMES
from reports.page import page_of
from reports.sections import context_of, trainings
from results import Run
from results.record import Sample

from .conftest import pages_of
from .synthetic_runs import add_workload, empty_run, throughput_cell

pytestmark = pytest.mark.usefixtures("without_pictures")
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
SPREAD = (-20.0, 10.0, 0.0, 15.0, -5.0)  # differences of scores between seeds
SECONDS = {"cpprb_impl[lock=none]": 60.0, "cpprb[MP]": 90.0, "cpprb[PER behind one lock]": 200.0}


def add(run: Run, benchmark: str, peer: str, values: Sequence[float], **params: object) -> None:
    unit, better = UNITS[benchmark]
    record = run.cell(
        suite="paired_training", benchmark=benchmark, peer=peer, workload="CartPole-v1", unit=unit, better=better,
        params={**TASK, **params},
    )  # fmt: skip
    for block, value in enumerate(values):
        record.add_sample(block, value)


def learners_run(
    speeds: Mapping[str, float] | None = None,
    scores: Mapping[str, float] | None = None,
    needed: Mapping[str, Sequence[float | None]] | None = None,
    seeds: int = SEEDS,
    **target: float,
) -> Run:
    """Return invented trainings. EXACT has the scores of the reference; None is a training that missed its target."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer in (OURS, EXACT, PRIORITIZED, REFERENCE):
        run.add_peer(peer, "1", f"how {peer} is used")
        speed = (speeds or {}).get(peer, 1_000.0)
        add(run, "steps", peer, [speed * (1 + 0.01 * block) for block in range(seeds)], **target)
        add(run, "in_buffer", peer, [9.0 if peer == REFERENCE else 3.0] * seeds, **target)
        add(run, "memory", peer, [56.0 if peer == REFERENCE else 28.0] * seeds, **target)
        if target:
            reached = (needed or {}).get(peer, [2_000.0] * SEEDS)[:seeds]
            add(run, "solved", peer, [float(value is not None) for value in reached], **target)
            add(run, "needed", peer, [4_000.0 if value is None else value for value in reached], **target)
        last = (scores or {}).get(peer, 400.0)
        for step in (2_000, 4_000):
            noise = SPREAD if peer in (REFERENCE, EXACT) else SPREAD[::-1]
            add(run, "score", peer, [last * step / 4_000 + each for each in noise[:seeds]], step=step, **target)
    for peer in (REFERENCE, EXACT):
        add(run, "weights", peer, (11.0, 12.0, 13.0, 14.0, 15.0)[:seeds], **target)
    return run


def apex_run(unsolved: str = "", solved_by: int = 0, seeds: int = SEEDS) -> Run:
    """Return invented trainings with Ape-X. With the buffer `unsolved`, only the first `solved_by` seeds succeed."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer, seconds in SECONDS.items():
        run.add_peer(peer, "1", "invented")
        figures = {
            ("solved", None): (1.0, "of 1"),
            ("seconds", None): (seconds, "s"),
            ("transitions", None): (1e5, "transitions"),
            **{("score", second): (min(475.0, 475.0 * second / seconds), "mean return") for second in (60, 120, 180)},
        }
        for (benchmark, second), (value, unit) in figures.items():
            params = {"target": 475.0, "explorers": 4} | ({"second": second} if second else {})
            record = run.cell(
                suite="solve_time", benchmark=benchmark, peer=peer, workload="CartPole-v1", unit=unit, params=params,
                better="higher" if benchmark in ("solved", "score") else "lower",
            )  # fmt: skip
            for block in range(seeds):
                missed = {"solved": 0.0, "seconds": 300.0} if peer == unsolved and block >= solved_by else {}
                record.add_sample(block, missed.get(benchmark, value))
    return run


def cells(run: Run) -> dict[str, dict[str, str]]:
    """Return column -> peer -> cell for the only task."""
    (part,) = trainings.parts(context_of(run))
    ((_, columns, rows, _),) = part.values["tasks"]
    return {column: {row[0]: row[place] for row in rows} for place, column in enumerate(columns)}


def test_each_column_has_the_ratio_to_the_librarys_own_buffer():
    found = cells(learners_run({OURS: 1_200.0}))
    assert list(found) == [
        "buffer", "speed of the training, steps/s", "in the buffer, % of the time", "memory, B/transition",
        "last score", "p", "would find", "differing seeds",
    ]  # fmt: skip
    assert found["speed of the training, steps/s"][OURS] == f"1,220 (1,200 to 1,250); 1.20{TIMES} (1.20 to 1.20)"
    assert found["memory, B/transition"][OURS] == f"28.0 (28.0 to 28.0); 2.00{TIMES} (2.00 to 2.00)"
    assert found["memory, B/transition"][REFERENCE] == "56.0 (56.0 to 56.0)"


def test_a_speed_measured_in_turns_has_no_ratio_and_appears_in_the_docs():
    run = learners_run({OURS: 1_200.0})
    for peer, speed in ((OURS, 1.02), (REFERENCE, 1.0)):
        add(run, "relative_speed", peer, [speed + 0.001 * block for block in range(SEEDS)], steps=1_000)
    assert cells(run)["relative speed, in turns"][OURS] == "1.02 (1.02 to 1.02)"
    rows = {row[1]: row for row in trainings.speed_rows(context_of(run))}
    assert rows[OURS] == ("DQN on CartPole", OURS, f"28.0 (2.00{TIMES})", "3.00", f"1.02{TIMES} (1.02 to 1.02)")
    assert rows[REFERENCE] == ("DQN on CartPole", REFERENCE, "56.0", "9.00", f"1.00{TIMES} (1.00 to 1.00)")
    assert rows[PRIORITIZED][-1] == ""


def test_without_turns_the_docs_state_the_speed_of_consecutive_trainings():
    rows = {row[1]: row for row in trainings.speed_rows(context_of(learners_run({OURS: 1_200.0})))}
    assert (rows[OURS][-1], rows[REFERENCE][-1]) == (f"1.20{TIMES} (1.20 to 1.20), one after the other", "")


def test_identical_trainings_are_reported_without_a_test():
    found = cells(learners_run())
    assert found["differing seeds"] == {REFERENCE: "", EXACT: "none", OURS: "", PRIORITIZED: ""}
    assert not found["p"][EXACT] and found["p"][OURS] == "1.0"


@pytest.mark.parametrize("different", ["weights", "score"])
def test_trainings_that_unexpectedly_differ_are_a_fault_on_both_pages(different):
    run = learners_run()
    next(each for each in run.records if (each.peer, each.benchmark) == (EXACT, different)).samples[2] = Sample(2, 1.0)
    assert cells(run)["differing seeds"][EXACT] == "2"
    for page in pages_of(run):
        assert f"Fault: {EXACT} should draw the rows that {REFERENCE} draws" in page


def test_different_returns_have_a_small_p_and_equal_returns_a_detectable_difference():
    found = cells(learners_run(scores={PRIORITIZED: 300.0}))
    assert (found["p"][PRIORITIZED], found["p"][OURS], found["would find"][OURS]) == ("0.016", "1.0", "28")
    assert "p" not in cells(learners_run(seeds=3))  # with three seeds, no difference could be significant


def test_only_trainings_that_reached_the_target_count_for_the_steps_to_it():
    found = cells(
        learners_run(needed={OURS: [None] * SEEDS, PRIORITIZED: [1_000.0, None, 900.0, 1_100.0, 1_000.0]}, target=300.0)
    )
    assert found["reached the target"] == {REFERENCE: "5 of 5", EXACT: "5 of 5", OURS: "0 of 5", PRIORITIZED: "4 of 5"}
    needed = found["steps to the target, steps"]
    assert needed[OURS] == "> 4,000"
    assert needed[PRIORITIZED] == f"1,000 (900 to 1,100); 2.00{TIMES} (1.82 to 2.22)"


def test_the_docs_state_the_outcomes_of_trainings_with_a_target():
    run = learners_run(needed={PRIORITIZED: [3_000.0, None, 1_000.0, None, None], OURS: [None] * SEEDS}, target=300.0)
    rows = list(trainings.outcome_rows(context_of(run)))
    name = "DQN on CartPole, 4,000 steps, target 300"
    assert rows[0] == (name, REFERENCE, "5 of 5", "2,000", "400 (380 to 415)")
    assert (name, PRIORITIZED, "2 of 5", "2,000", "400 (380 to 415)") in rows
    assert (name, OURS, "0 of 5", "", "400 (380 to 415)") in rows
    assert not list(trainings.outcome_rows(context_of(learners_run())))


def test_ape_x_times_are_compared_over_the_seeds_with_which_both_buffers_solved_the_task():
    found = cells(apex_run(unsolved="cpprb[PER behind one lock]", solved_by=2))
    times = found["time, s"]
    assert times["cpprb_impl[lock=none]"] == f"60.0 (60.0 to 60.0); 1.50{TIMES} (1.50 to 1.50)"
    assert times["cpprb[PER behind one lock]"] == f"200 (range 200 to 200); ~0.45{TIMES} (range 0.45 to 0.45)"


def test_ratios_to_a_reference_that_never_solved_the_task_are_bounds():
    found = cells(apex_run(unsolved="cpprb[MP]"))
    assert found["time, s"]["cpprb[MP]"] == "> 300"
    assert found["time, s"]["cpprb_impl[lock=none]"] == f"60.0 (60.0 to 60.0); more than 5{TIMES}"


def test_curves_end_with_the_last_training_run(monkeypatch):
    drawn: dict[str, Mapping[int, object]] = {}
    monkeypatch.setattr(plots, "curves", lambda title, lines, *_: drawn.update(lines))
    monkeypatch.setattr(plots, "draw", lambda name, make: make() or plots.Picture(name, "<svg></svg>", b""))
    run = apex_run()
    for record in run.records:
        if record.benchmark == "seconds":
            record.samples = [Sample(sample.block, 70.0) for sample in record.samples]
    list(trainings.parts(context_of(run)))
    assert [list(line) for line in drawn.values()] == [[60, 120]] * len(SECONDS)


def test_rows_played_by_explorers_are_not_described_as_recorded():
    run = apex_run()
    markdown = page_of(run).markdown
    assert "CartPole-v1 is played by" in markdown and "| CartPole-v1 | " not in markdown
    throughput_cell(run, "add", 1, "cpprb[MP]", "CartPole-v1").add_sample(0, 1e-6)
    markdown = page_of(run).markdown
    assert "| CartPole-v1 | " in markdown and "is played by" not in markdown


@pytest.mark.parametrize(
    ("run", "explained"),
    [
        (apex_run(), {"is the median over the seeds that reached it"}),
        (
            learners_run(target=300.0),
            {"is the median over the seeds that reached it", "exact permutation test"},
        ),
        (learners_run(seeds=3), {"no difference between scores could"}),
    ],
)
def test_only_the_shown_columns_are_explained(run, explained):
    markdown = page_of(run).markdown
    every = (
        "is the median over the seeds that reached it",
        "exact permutation test",
        "no difference between scores could",
    )
    assert {each for each in every if each in markdown} == explained


@pytest.mark.parametrize(
    "benchmarks", [set(UNITS) - {"score"}, {"score"}, {"solved"}, {"needed"}, {"weights"}, {"steps"}]
)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("peers", [{REFERENCE}, {OURS, EXACT}, {OURS, EXACT, PRIORITIZED, REFERENCE}])
def test_incomplete_records_still_yield_a_page(benchmarks, drop, peers):
    run = learners_run(seeds=2, target=300.0)
    withdrawn = [record for record in run.records if record.benchmark in benchmarks and record.peer in peers]
    if drop:
        run.records[:] = [record for record in run.records if record not in withdrawn]
    for record in withdrawn:
        record.status, record.reason, record.invalidated_at = "invalidated", "counted twice", "fedcba9876543210"
    markdown = page_of(run).markdown
    assert "## Paired trainings" in markdown
