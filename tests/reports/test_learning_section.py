"""The section on learning."""

from __future__ import annotations

import pytest

from reports import plots
from reports.build import build
from reports.figures.formatting import TIMES
from reports.sections import context_of, learning
from results import Run
from results.record import Sample

from .synthetic_runs import add_apex_job, add_workload, empty_run

SECONDS = {"cpprb_impl[lock=none]": 60.0, "cpprb[MP]": 90.0, "cpprb[PER behind one lock]": 200.0}
LIMIT = 300.0  # seconds


def trainings(seeds: int, transitions: dict[str, float], unsolved: str = "", solved_by: int = 0) -> Run:
    """Invented trainings. With the buffer `unsolved`, only the first `solved_by` seeds reach the target."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer, seconds in SECONDS.items():
        run.add_peer(peer, "1", "invented")
        params = {"target": 475.0, "explorers": 4}
        figures = {
            ("solved", None): (1.0, "of 1"),
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
                if benchmark == "seconds":
                    value = seconds * (1 + 0.001 * block)
                if peer == unsolved and block >= solved_by:
                    value = {"solved": 0.0, "seconds": LIMIT}.get(benchmark, value)
                record.add_sample(block, value)
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
    assert "No buffer clearly needs" in " ".join(found.notes)


def test_arms_that_learn_less_per_sample_are_named():
    found = task(trainings(5, {"cpprb_impl[lock=none]": 2e5}))
    assert "cpprb_impl[lock=none] needs 2.0 times as many transitions" in " ".join(found.notes)


def test_too_few_seeds_say_nothing_about_learning_per_sample():
    (said,) = task(trainings(3, {"cpprb_impl[lock=none]": 2e5})).notes
    assert said.startswith(
        "3 seeds are too few for a verdict on cpprb_impl[lock=none] and cpprb[PER behind one lock] relative to "
    )


def test_a_curve_may_begin_below_zero(monkeypatch):
    run = trainings(5, {})
    for record in run.records:
        if record.benchmark == "score" and record.params["second"] == 60:
            record.samples = [Sample(sample.block, -100.0 - sample.block) for sample in record.samples]
    drawn = {}
    monkeypatch.setattr(plots, "draw", lambda name, make: drawn.setdefault(name, make()))
    task(run)
    (picture,) = drawn.values()
    lowest, _ = picture.axes[0].get_ylim()
    assert lowest < -100 and [axes.get_title(loc="left") for axes in picture.axes[:3]] == list(SECONDS)


def test_a_training_that_was_never_solved_is_no_time_in_the_table():
    found = task(trainings(5, {}, unsolved="cpprb_impl[lock=none]"))
    rows = dict(found.table.rows)
    assert [cell.status for cell in rows["cpprb_impl[lock=none]"]] == [
        "not reached, > 300 s", "not reached, > 100,000 transitions", "not reached, > 10,000 learner steps",
    ]  # fmt: skip
    assert not any(cell.fastest for cell in rows["cpprb_impl[lock=none]"])
    assert all(cell.fastest for cell in rows["cpprb[MP]"][:1])
    assert "cpprb_impl[lock=none] needs" not in " ".join(found.notes)


def test_medians_and_ratios_leave_out_trainings_that_were_not_solved():
    found = task(trainings(5, {"cpprb_impl[lock=none]": 2e5}, unsolved="cpprb_impl[lock=none]", solved_by=2))
    cells = dict(found.table.rows)["cpprb_impl[lock=none]"]
    assert (cells[0].value, cells[0].interval) == ("60", "range 60 to 60 (2 of 5 reached it)")
    assert cells[0].ratio == f"~1.5{TIMES}" and not any(cell.fastest for cell in cells)
    assert "2 seeds are too few for a verdict on cpprb_impl[lock=none] relative to cpprb[MP]" in " ".join(found.notes)


def test_ratios_to_a_reference_that_never_solved_the_task_are_bounds():
    run = trainings(5, {}, unsolved="cpprb[MP]")
    found = task(run)
    cell = dict(found.table.rows)["cpprb_impl[lock=none]"][0]
    assert (cell.ratio, cell.ratio_interval) == (f">2{TIMES}", "")
    assert "cpprb[MP] never reached the target, so ratios to it are lower bounds." in found.notes
    assert not any("clearly needs" in note for note in found.notes)


@pytest.mark.parametrize("benchmarks", [{"solved"}, {"seconds"}, {"score"}, {"seconds", "score"}, {"steps"}])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("peers", [set(SECONDS), {"cpprb_impl[lock=none]"}])
def test_records_that_are_partly_withdrawn_still_give_a_page(benchmarks, drop, peers, tmp_path):
    run = trainings(2, {})
    withdrawn = [record for record in run.records if record.benchmark in benchmarks and record.peer in peers]
    if drop:
        run.records[:] = [record for record in run.records if record not in withdrawn]
    for record in withdrawn:
        record.status, record.reason, record.invalidated_at = "invalidated", "counted twice", "fedcba9876543210"
    _, markdown = build(run, tmp_path)
    assert "## Does it learn?" in markdown.read_text(encoding="utf-8")


def test_without_scores_there_is_no_picture():
    run = trainings(2, {})
    run.records[:] = [record for record in run.records if record.benchmark != "score"]
    assert task(run).picture is None


def test_a_time_without_its_outcome_is_not_shown():
    run = trainings(5, {})
    run.records[:] = [record for record in run.records if record.benchmark != "solved"]
    assert {cell.status for _, row in task(run).table.rows for cell in row} == {"not known whether reached"}


def test_the_markdown_page_says_which_ratio_is_better(tmp_path):
    _, markdown = build(trainings(5, {}), tmp_path)
    assert "and its ratio to cpprb[MP]: above 1 is better." in markdown.read_text(encoding="utf-8")


def test_the_curves_end_with_the_last_training(monkeypatch):
    shown = []
    run = trainings(5, {})
    for record in run.records:
        if record.benchmark == "seconds":
            record.samples = [Sample(sample.block, 70.0) for sample in record.samples]
    drawn = plots.curves
    monkeypatch.setattr(plots, "curves", lambda title, lines, *rest: shown.append(lines) or drawn(title, lines, *rest))
    task(run)
    assert {second for lines in shown for line in lines.values() for second in line} == {60, 120}


def test_the_page_does_not_describe_recorded_rows_that_no_training_uses(tmp_path):
    html, markdown = (path.read_text(encoding="utf-8") for path in build(trainings(2, {}), tmp_path))
    (row,) = (line for line in markdown.splitlines() if line.startswith("| CartPole-v1 | played by the explorers"))
    assert "done" not in row and "abab" not in html
    run = trainings(2, {})
    for peer in SECONDS:
        add_apex_job(run, peer, {"explorers": 1e3}, explorers=4)
    _, markdown = build(run, tmp_path)  # Ape-X uses the recording
    assert "| CartPole-v1 | synthetic: invented for tests |" in markdown.read_text(encoding="utf-8")


def test_names_of_variants_are_explained(tmp_path):
    pages = [path.read_text(encoding="utf-8") for path in build(trainings(2, {}), tmp_path)]
    for page, explained in zip(pages, ("<strong>cpprb[MP]:</strong> invented", "- cpprb[MP]: invented"), strict=True):
        assert explained in page
