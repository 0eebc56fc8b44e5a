"""The section on learning."""

from __future__ import annotations

from reports.answer.headlines import headlines
from reports.figures.formatting import TIMES
from reports.sections import context_of, learning
from results import Run
from results.record import Sample

from .synthetic_runs import add_workload, empty_run

SECONDS = {"cpprb_impl[lock=none]": 60.0, "cpprb[MP]": 90.0, "cpprb[PER behind one lock]": 200.0}


def trainings(seeds: int, transitions: dict[str, float], unsolved: str = "") -> Run:
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer, seconds in SECONDS.items():
        run.add_peer(peer, "1", "invented")
        params = {"target": 475.0, "explorers": 4}
        figures = {
            ("solved", None): (float(peer != unsolved), "of 1"),
            ("seconds", None): (seconds, "s"),
            ("transitions", None): (transitions.get(peer, 1e5), "transitions"),
            ("steps", None): (1e4, "learner steps"),
            **{("score", second): (min(475.0, 475.0 * second / seconds), "mean return") for second in (60, 120, 180)},
        }
        for (benchmark, second), (value, unit) in figures.items():
            record = run.cell(
                suite="learning", benchmark=benchmark, peer=peer, workload="CartPole-v1", unit=unit,
                params=params if second is None else {**params, "second": second},
                better="higher" if benchmark in ("solved", "score") else "lower",
            )  # fmt: skip
            for block in range(seeds):
                record.add_sample(block, value * (1 + 0.001 * block) if benchmark == "seconds" else value)
    return run


def task(run: Run):
    (part,) = learning.parts(context_of(run))
    (found,) = part.body.tasks
    return found


def test_the_table_compares_times_to_the_target():
    found = task(trainings(5, {}, unsolved="cpprb[PER behind one lock]"))
    assert found.title == "CartPole-v1 to a mean return of 475"
    assert dict(found.solved)["cpprb_impl[lock=none]"] == "5 of 5"
    assert dict(found.solved)["cpprb[PER behind one lock]"] == "0 of 5"
    cells = {peer: row[0] for peer, row in found.table.rows}
    assert found.table.reference == "cpprb[MP]" and cells["cpprb_impl[lock=none]"].ratio.startswith("1.50")
    assert "No buffer clearly needs" in found.per_sample


def test_arms_that_learn_less_per_sample_are_named():
    found = task(trainings(5, {"cpprb_impl[lock=none]": 2e5}))
    assert "cpprb_impl[lock=none] needs 2.0 times as many transitions" in found.per_sample


def test_too_few_seeds_say_nothing_about_learning_per_sample():
    assert "With 3 seeds there is no verdict" in task(trainings(3, {"cpprb_impl[lock=none]": 2e5})).per_sample


def test_a_curve_may_begin_below_zero(monkeypatch):
    run = trainings(5, {})
    for record in run.records:
        if record.benchmark == "score" and record.params["second"] == 60:
            record.samples = [Sample(sample.block, -100.0 - sample.block) for sample in record.samples]
    drawn = {}
    monkeypatch.setattr(learning.plots, "draw", lambda name, make: drawn.setdefault(name, make()))
    task(run)
    (picture,) = drawn.values()
    lowest, _ = picture.axes[0].get_ylim()
    assert lowest < -100 and [axes.get_title(loc="left") for axes in picture.axes[:3]] == list(SECONDS)


def test_the_first_headline_is_a_whole_training():
    first = headlines(context_of(trainings(5, {})))[0]
    assert first.kind == "training"
    said = f"CartPole-v1 to a mean return of 475 in 60.1 s (5 of 5 seeds), 1.50{TIMES} as fast as cpprb[MP]"
    assert said in first.text and "fastest is" not in first.text


def test_the_headline_of_a_training_says_what_it_does_not_show():
    run = trainings(5, {})
    for record in run.records:
        if record.benchmark == "seconds" and record.peer == "cpprb_impl[lock=none]":
            record.samples = [Sample(sample.block, 70.0 + 10 * sample.block) for sample in record.samples]
        if record.benchmark == "seconds" and record.peer == "cpprb[PER behind one lock]":
            record.samples = [Sample(sample.block, 50.0) for sample in record.samples]
    said = headlines(context_of(run))[0].text
    assert "(5 of 5 seeds), not clearly different from cpprb[MP] (1.00" in said
    assert said.endswith("fastest is cpprb[PER behind one lock], 50.0 s.")


def test_a_training_that_was_never_solved_has_no_time():
    said = headlines(context_of(trainings(5, {}, unsolved="cpprb_impl[lock=none]")))[0].text
    assert said.endswith("CartPole-v1 to a mean return of 475 not reached (0 of 5 seeds).")


def test_the_curves_end_with_the_last_training(monkeypatch):
    shown = []
    run = trainings(5, {})
    for record in run.records:
        if record.benchmark == "seconds":
            record.samples = [Sample(sample.block, 70.0) for sample in record.samples]
    drawn = learning.plots.curves
    monkeypatch.setattr(
        learning.plots, "curves", lambda title, lines, *rest: shown.append(lines) or drawn(title, lines, *rest)
    )
    task(run)
    assert {second for lines in shown for line in lines.values() for second in line} == {60, 120}
