"""The section on scaling recovers the costs behind synthetic figures, and predicts only what follows from the model."""

from __future__ import annotations

import pytest

from reports.figures.formatting import TIMES
from reports.queueing.model import CycleCosts, ModelledFleet
from reports.queueing.mva import predict
from reports.sections import context_of, scaling
from reports.sections.scaling import FIGURES
from results import Run
from results.record import Sample

from .synthetic_runs import MACHINE, add_apex_job, add_workload, empty_run

pytestmark = pytest.mark.usefixtures("without_pictures")

LOCKED = CycleCosts(add=1e-5, add_alone=1e-4, learn=2e-5, learn_alone=1e-4, row=1e-9)
ENVIRONMENTS = {"0 us": 0.0, "20 us": 2e-5, "200 us": 2e-4}


def modelled_run(peers: dict[str, float]) -> Run:
    """Return figures that follow the model, except that more than two explorers are `peers[name]` times as fast."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    cores = int(MACHINE["cores"])
    for name, factor in peers.items():
        run.add_peer(name, "1", "invented")
        for environment, step in ENVIRONMENTS.items():
            for explorers in (1, 2, 4, 8):
                for used in (1, cores):
                    rates = predict(LOCKED, ModelledFleet(explorers, 100, step, used, 1000))
                    figures = {each: getattr(rates, each) for each in FIGURES}
                    if explorers > 2:
                        figures["explorers"] *= factor
                        figures["learner"] *= factor
                    restricted = {} if used == cores else {"cores": used}
                    add_apex_job(
                        run, name, figures, blocks=1, explorers=explorers, environment=environment, **restricted
                    )
    return run


def values_of(run: Run) -> dict[str, object]:
    (part,) = scaling.parts(context_of(run))
    return dict(part.values)


def test_a_buffer_that_follows_the_model_is_predicted():
    values = values_of(modelled_run({"cpprb[MP]": 1.0}))
    assert values["columns"][6:] == [
        "explorers, N=4", "learner, N=4", "explorers, N=8", "learner, N=8", "explorers, one core", "learner, one core",
        "explorers, 0 µs, worst", "learner, 0 µs, worst",
    ]  # fmt: skip
    ((peer, *cells),) = values["rows"]
    assert peer == "cpprb[MP]"
    assert max(float(cell.removesuffix("%")) for cell in cells[-8:-2]) < 5
    assert cells[-2:] == [f"1.0{TIMES}"] * 2 and not values["fails"]
    ((_, *knees),) = values["knees"]
    # On any machine, calls pass the exclusive part one at a time: at most 100 rows per 100 us.
    assert all(knee.endswith(" M/s") and float(knee.rpartition(", ")[2].split()[0]) <= 1.0 for knee in knees)


def test_a_buffer_that_deviates_from_the_model_is_not_predicted_on_larger_machines():
    values = values_of(modelled_run({"cpprb[MP]": 1.0, "other": 3.0}))
    assert [row[0] for row in values["rows"]] == ["cpprb[MP]", "other"]
    assert [row[0] for row in values["knees"]] == ["cpprb[MP]"]


def test_a_buffer_that_is_faster_with_free_steps_than_the_model_allows_is_not_predicted():
    run = modelled_run({"cpprb[MP]": 1.0, "other": 1.0})
    for record in run.records:
        place = record.peer, record.benchmark, record.params["environment"], record.params["explorers"]
        if place == ("other", "explorers", "0 us", 8):
            record.samples = [Sample(sample.block, 3 * sample.value) for sample in record.samples]
    values = values_of(run)
    assert [row[0] for row in values["knees"]] == ["cpprb[MP]"]
    assert {row[0]: row[-2] for row in values["rows"]}["other"] == f"0.33{TIMES}" and values["fails"]


def test_without_enough_figures_there_is_no_section():
    run = empty_run()
    add_workload(run, "CartPole-v1")
    run.add_peer("cpprb[MP]", "1", "invented")
    add_apex_job(run, "cpprb[MP]", dict.fromkeys(FIGURES, 1.0), explorers=1, environment="0 us")
    assert not list(scaling.parts(context_of(run)))
