"""The section on Ape-X: which lock is in the way, and where the buffer matters."""

from __future__ import annotations

import re

import pytest

from reports.answer.heatmap import shared_columns
from reports.build import build
from reports.figures.formatting import TIMES
from reports.sections import apex, context_of
from results import Run
from results.record import Sample
from results.statistics import Figure

from .synthetic_runs import add_apex_job, add_workload, empty_run

APEX_ARMS = {"cpprb_impl[lock=none]": 9.0, "cpprb[MP]": 3.0, "cpprb[MP behind one lock]": 1.0}


def apex_grid(arms: dict[str, float], blocks_without_cost: int = 5) -> Run:
    """Explorers are as fast as `arms` say where steps cost nothing, and equally fast where they cost 2,000 us."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for name in arms:
        run.add_peer(name, "1", "invented")
    for name, factor in arms.items():
        for environment, cost in (("0 us", 0.0), ("2000 us", 2e-3), ("real", 2e-5)):
            for explorers in (1, 2, 4, 8):
                rates = {
                    "explorers": explorers / (cost + (0 if cost == 2e-3 else 1e-5 / factor)),
                    "learner": 1e3 * factor,
                    "explorers_blocked": 0.5,
                }
                blocks = 5 if cost else blocks_without_cost
                add_apex_job(run, name, rates, blocks, explorers=explorers, environment=environment)
    return run


def apex_part(arms: dict[str, float]):
    (part,) = apex.parts(context_of(apex_grid(arms)))
    return part.body


def test_the_claim_is_answered_for_the_scope_of_the_lock():
    body = apex_part(APEX_ARMS)
    scope = [row for row in body.claim if row.changed == "the scope of the lock alone"]
    assert [row.side for row in scope] == ["explorers", "learner"]
    where = body.claim_columns.index("0 µs, N=8")
    assert [row.cells[where].split()[0] for row in scope] == [f"3.00{TIMES}", f"3.00{TIMES}"]
    assert any("scope of the lock alone" in sentence and f"3.00{TIMES}" in sentence for sentence in body.verdict)
    assert not any("manager" in row.changed for row in body.claim)  # not measured


def test_the_verdict_says_where_the_claim_holds():
    explorers, learner = (said for said in apex_part(APEX_ARMS).verdict if said.startswith("The scope of the lock"))
    assert re.fullmatch(
        r".*, explorers \(N=8\): as claimed with steps of 0 µs \(3\.00. \[.*\]\); "
        r"less than claimed with steps of 2000 µs \(.*\) and CartPole-v1 \(.*\)\.",
        explorers,
    )
    assert re.fullmatch(
        r".*, learner \(N=8\): more than claimed with steps of 0 µs \(.*\), .* and CartPole-v1 \(.*\)\.", learner
    )


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (4.1, 9.0, apex.MORE),
        (1.0, 2.9, apex.LESS),
        (3.0, 4.0, apex.AS),
        (3.5, 4.1, apex.UNDECIDED),
        (0.9, 3.1, apex.UNDECIDED),
        (1.0, 9.0, apex.UNDECIDED),
    ],
)
def test_the_claim_is_confirmed_only_if_the_whole_interval_is_within_it(low, high, kind):
    assert apex._kind(Figure(3.5, low, high, 10), *apex.CLAIMED["explorers"]) == kind


def test_environments_in_which_the_buffer_does_not_matter_are_named():
    *_, spread, ties, unsteady = apex_part(APEX_ARMS).verdict
    assert "the fastest buffer's explorers are, relative to the slowest's, 9.0" in spread
    assert spread.endswith(
        f"{TIMES} as fast with steps of 0 µs, 1.0{TIMES} as fast with steps of 2000 µs and 1.4{TIMES} as fast with "
        "CartPole-v1."
    )
    assert ties.startswith(
        "With steps of 2000 µs, also with 8 explorers, the choice of a buffer changes this rate by at most"
    )
    assert unsteady.startswith("Ratios with steps of 0 µs do not carry over to another machine")


def test_the_map_names_the_fastest_buffer_and_those_alike():
    body = apex_part({**APEX_ARMS, "cpprb_impl[lock=buffer]": 8.9})
    cells = dict(body.map)
    assert cells["0 µs"][0].startswith(
        f"explorers: cpprb_impl[lock=none], cpprb_impl[lock=buffer] (3.00{TIMES} as fast as cpprb[MP])"
    )
    # Four are alike, and three are named.
    assert f" and others (1.00{TIMES} as fast as cpprb[MP]); learner: " in cells["2000 µs"][0]


def test_only_the_real_environment_is_on_the_first_screen():
    columns = shared_columns(context_of(apex_grid(APEX_ARMS)).jobs).all
    assert columns and {column.job.params["environment"] for column in columns} == {"real"}


def test_the_span_of_a_change_includes_every_setting():
    run = apex_grid(APEX_ARMS)
    for name, explorers in (("cpprb_impl[lock=none]", 45.0), ("cpprb[MP]", 1000.0)):
        rates = {"explorers": explorers, "learner": 1e3}
        add_apex_job(run, name, rates, explorers=1, environment="0 us", cores=1)
    (part,) = apex.parts(context_of(run))
    (said,) = (sentence for sentence in part.body.verdict if sentence.startswith("Our buffer without a lock"))
    assert re.search(r"explorers 0\.045. \[.*?\] \(0 µs, N=1, on 1 core\) to 3\.00. ", said)


def test_explorers_that_add_nothing_are_said_to():
    run = apex_grid(APEX_ARMS)
    for record in run.records:
        if (record.peer, record.params["environment"]) == ("cpprb[MP behind one lock]", "2000 us"):
            record.samples = [Sample(sample.block, 0.0) for sample in record.samples]
    (part,) = apex.parts(context_of(run))
    said = "With steps of 2000 µs and 8 explorers, the explorers of cpprb[MP behind one lock] added nothing."
    assert said in part.body.verdict
    assert not any("at most 10%" in sentence for sentence in part.body.verdict)


@pytest.mark.parametrize("side", ["explorers", "learner"])
def test_a_record_without_one_side_still_gives_a_page(side, tmp_path):
    run = apex_grid(APEX_ARMS)
    run.records[:] = [record for record in run.records if record.benchmark != side]
    _, markdown = build(run, tmp_path)
    assert "## Ape-X" in markdown.read_text(encoding="utf-8")
