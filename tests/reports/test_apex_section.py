"""The section on Ape-X: which lock is in the way, and where the buffer matters."""

from __future__ import annotations

from reports.answer.heatmap import shared_columns
from reports.figures.formatting import TIMES
from reports.sections import apex, context_of
from results import Run

from .synthetic_runs import add_workload, empty_run

APEX_ARMS = {"cpprb_impl[lock=none]": 9.0, "cpprb[MP]": 3.0, "cpprb[MP behind one lock]": 1.0}


def apex_grid(arms: dict[str, float]) -> Run:
    """Explorers are as fast as `arms` say where steps cost nothing, and equally fast where they cost 2,000 us."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for name in arms:
        run.add_peer(name, "1", "invented")
    for name, factor in arms.items():
        for environment, cost in (("0 us", 0.0), ("2000 us", 2e-3), ("real", 2e-5)):
            for explorers in (1, 2, 4, 8):
                params = {"explorers": explorers, "rows": 100, "capacity": 1000, "environment": environment}
                rates = {
                    "explorers": explorers / (cost + (0 if cost == 2e-3 else 1e-5 / factor)),
                    "learner": 1e3 * factor,
                    "explorers_blocked": 0.5,
                }
                for benchmark, value in rates.items():
                    unit = "of their time" if benchmark.endswith("blocked") else "per second"
                    record = run.cell(
                        suite="apex", benchmark=benchmark, peer=name, workload="CartPole-v1", params=params, unit=unit,
                        better="lower" if benchmark.endswith("blocked") else "higher",
                    )  # fmt: skip
                    for block in range(5):
                        record.add_sample(block, value * (1 + 0.01 * block))
    return run


def apex_part(arms: dict[str, float]):
    (part,) = apex.parts(context_of(apex_grid(arms)))
    return part.body


def test_the_claim_is_answered_for_the_scope_of_the_lock():
    body = apex_part(APEX_ARMS)
    scope = [row for row in body.claim if row.changed == "the scope of the lock alone"]
    assert [row.side for row in scope] == ["explorers", "learner"]
    where = body.claim_columns.index("0 us, N=8")
    assert [row.cells[where].split()[0] for row in scope] == [f"3.00{TIMES}", f"3.00{TIMES}"]
    assert any("scope of the lock alone" in sentence and f"3.00{TIMES}" in sentence for sentence in body.verdict)
    assert not any("manager" in row.changed for row in body.claim)  # not measured


def test_environments_in_which_the_buffer_does_not_matter_are_named():
    body = apex_part(APEX_ARMS)
    assert body.verdict[-1].endswith("so the buffer does not matter to them: 2000 us.")


def test_the_map_names_the_fastest_arm_and_those_alike():
    body = apex_part({**APEX_ARMS, "cpprb_impl[lock=buffer]": 8.9})
    cells = dict(body.map)
    assert cells["0 us"][0].startswith(
        f"explorers: cpprb_impl[lock=none] = cpprb_impl[lock=buffer], 3.00{TIMES} cpprb[MP]"
    )
    assert "= cpprb[MP behind one lock] …" in cells["2000 us"][0] or cells["2000 us"][0].count("=") >= 4


def test_only_the_real_environment_is_on_the_first_screen():
    columns, _ = shared_columns(context_of(apex_grid(APEX_ARMS)).jobs)
    assert columns and {column.job.params["environment"] for column in columns} == {"real"}
