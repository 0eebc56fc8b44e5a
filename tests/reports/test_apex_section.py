"""The section on Ape-X: which lock limits it, and where the choice of buffer matters."""

from __future__ import annotations

import pytest

from reports.answer.heatmap import shared_columns
from reports.figures.formatting import TIMES
from reports.page import page_of
from reports.sections import apex, context_of
from results import Run
from results.record import Sample

from .synthetic_runs import add_apex_job, add_workload, empty_run

pytestmark = pytest.mark.usefixtures("without_pictures")
APEX_ARMS = {"cpprb_impl[lock=none]": 9.0, "cpprb[MP]": 3.0, "cpprb[MP behind one lock]": 1.0}


def apex_grid(arms: dict[str, float], blocks_without_cost: int = 5) -> Run:
    """Return a run whose explorers are as fast as in `arms` if steps cost nothing, but equally fast at 2,000 us."""
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


def apex_tables(
    arms: dict[str, float],
) -> tuple[dict[tuple[str, str], dict[str, str]], dict[tuple[str, str], list[str]]]:
    """Return (change, side) -> column -> cell, and (environment, side) -> the cells of the map."""
    (part,) = apex.parts(context_of(apex_grid(arms)))
    columns = [*part.values["columns"], "claimed"]
    claims = {(row[0], row[1]): dict(zip(columns, row[2:], strict=True)) for row in part.values["claims"]}
    return claims, {(row[0], row[1]): row[2:] for row in part.values["map"]}


def test_the_effect_of_the_lock_is_compared_with_the_claim_of_its_author():
    claims, _ = apex_tables(APEX_ARMS)
    for side, claimed in (("explorers", "3 to 4"), ("learner", "1.2 to 2")):
        row = claims["only the scope of the lock", side]
        assert row["0 µs, N=8"].startswith(f"3.00{TIMES} (") and row["claimed"] == claimed
    assert claims["our buffer without a lock instead of the reference", "learner"]["claimed"] == ""
    assert not any("manager" in change for change, _ in claims)  # the manager was not measured


def test_the_map_names_the_fastest_buffers_and_how_much_the_choice_matters():
    _, cells = apex_tables({**APEX_ARMS, "cpprb_impl[lock=buffer]": 8.9})
    assert cells["0 µs", "explorers"][0] == f"cpprb_impl[lock=none], cpprb_impl[lock=buffer] (9.0{TIMES})"
    assert cells["2000 µs", "explorers"][-1].endswith(f", ... (1.0{TIMES})")  # of four equal buffers, three are named


@pytest.mark.parametrize("unsafe", [["cpprb_impl[lock=none]"], [*APEX_ARMS]])
def test_only_sound_buffers_are_on_the_map(unsafe):
    run = apex_grid(APEX_ARMS)
    for peer in unsafe:
        run.cell(
            suite="integrity", benchmark="torn", peer=peer, workload="CartPole-v1", params={}, unit="rows",
            better="lower",
        ).fail("wrong", "12 rows were torn (synthetic)")  # fmt: skip
    (part,) = apex.parts(context_of(run))
    cells = {cell for row in part.values["map"] for cell in row[2:]}
    assert cells == {""} if len(unsafe) == len(APEX_ARMS) else not any(unsafe[0] in cell for cell in cells)


def test_only_the_real_environment_is_on_the_first_screen():
    columns = shared_columns(context_of(apex_grid(APEX_ARMS)).jobs).all
    assert columns and {column.job.params["environment"] for column in columns} == {"real"}


def test_explorers_that_add_nothing_have_no_ratio():
    run = apex_grid(APEX_ARMS)
    for record in run.records:
        if (record.peer, record.params["environment"]) == ("cpprb[MP behind one lock]", "2000 us"):
            record.samples = [Sample(sample.block, 0.0) for sample in record.samples]
    markdown = page_of(run).markdown
    (row,) = (line for line in markdown.splitlines() if "| 2000 µs | explorers" in line)
    assert TIMES not in row


@pytest.mark.parametrize("side", ["explorers", "learner"])
def test_a_record_without_one_side_still_yields_a_page(side):
    run = apex_grid(APEX_ARMS)
    run.records[:] = [record for record in run.records if record.benchmark != side]
    markdown = page_of(run).markdown
    assert "## Ape-X" in markdown
