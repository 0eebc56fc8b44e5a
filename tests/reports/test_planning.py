"""Planning: costs are recovered, the simulation agrees with exact results, and plans agree with manual calculations."""

from __future__ import annotations

import inspect
import math
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cpprb_impl.hosts import explorer
from reports.planning import __main__ as program
from reports.planning import page, simulation, tables
from reports.planning.arguments import DEFAULTS, BadInput, plan_from
from reports.planning.costs import NEEDED, SENT_ROWS, Cost, Fit, RequestCosts, fit
from reports.planning.errors import FIGURES, Model, compare, model_of
from reports.planning.measured import COMMAND, Unmeasured, cells_of, link_speed
from reports.planning.plan import Plan, least_data_hosts, least_explorer_hosts, simulated, uses, verdict
from reports.planning.simulation import PREFETCH, WINDOW, HostCounts, Load, simulate
from reports.readme import Reference, generated, references
from results import REFERENCE, save
from suites import targets

from .synthetic_hosts import COSTS, hosts_run

ROOT = Path(__file__).resolve().parents[2]
FREE = RequestCosts(learn=Cost(1e-9), draw=Cost(1e-9), send=Cost(), store=Cost(), add=Cost(), wire=Cost(byte=1.0))
FAST = Load(row_bytes=100, batch=64, batches=math.inf, transitions=0)
ROOMY = HostCounts(1, cores=8)


def model(costs: RequestCosts) -> Model:
    return Model(Fit(costs, [costs], {}, (32, 512), (41, 56_457), 5), 0.0, 2)


@pytest.fixture
def short(monkeypatch):
    """Simulate few events, for tests of what is printed with any figures."""
    monkeypatch.setattr(simulation, "MOST_EVENTS", 2_000)


# The fit of costs.


def test_costs_are_recovered_from_the_figures_with_one_data_host():
    found = fit(hosts_run(data=(1,))).costs
    for name, cost in vars(COSTS).items():
        assert vars(getattr(found, name)) == pytest.approx(vars(cost), rel=1e-3, abs=1e-13), name


def test_figures_with_more_data_hosts_do_not_change_the_fit():
    assert fit(hosts_run(data=(1, 2))).costs == fit(hosts_run(data=(1,))).costs


def test_intervals_contain_the_costs_and_show_how_launches_differ():
    fitted = fit(hosts_run(data=(1,), factors=(0.8, 1.0, 1.2)))
    low, high = fitted.interval(lambda costs: costs.learn.of(512, 56_458))
    assert 0.75 < low / COSTS.learn.of(512, 56_458) < 0.95 and 1.05 < high / COSTS.learn.of(512, 56_458) < 1.25
    assert fitted.launches == 3


def test_the_error_for_a_record_that_lacks_cells_says_what_to_run():
    only_small = hosts_run(workloads=("CartPole-v1",))
    nothing = hosts_run(workloads=())
    several = hosts_run(data=(2, 3))
    for run in (only_small, nothing, several):
        with pytest.raises(Unmeasured, match=re.escape(COMMAND)):
            fit(run)


def test_plans_use_the_uncompressed_variant_of_the_first_peer_if_it_was_measured():
    run = hosts_run(data=(1,))
    first, *_ = run.peers
    name = first.name.removesuffix("]") + ", uncompressed]"
    run.peers = [first, replace(first, name="other[uncompressed]"), replace(first, name=name)]
    as_is = [cell.figures for cell in cells_of(run, NEEDED)]
    slower = [
        replace(record, peer=peer, samples=[replace(sample, value=factor * sample.value) for sample in record.samples])
        for record in run.records
        for peer, factor in ((name, 2), ("other[uncompressed]", 4))
    ]
    run.records = [*run.records, *slower]
    for before, now in zip(as_is, cells_of(run, NEEDED), strict=True):
        assert now.figures == {benchmark: [2 * value for value in values] for benchmark, values in before.items()}


def test_speeds_of_links_are_parsed():
    assert [link_speed(text) for text in ("10gbit", "500mbit", "none")] == [1.25e9, 62.5e6, math.inf]
    for bad in ("", "10", "gbit", "-1gbit", "0mbit"):
        with pytest.raises(ValueError, match=f"^{bad!r} is not the speed"):
            link_speed(bad)


# The simulation, in cases with known results.


def test_batches_and_windows_match_the_buffer():
    assert (SENT_ROWS, WINDOW) == (explorer.BATCH_ROWS, explorer.WINDOW)
    buffer = pytest.importorskip("cpprb_impl.ray", exc_type=ImportError).PrioritizedReplayBuffer
    assert inspect.signature(buffer).parameters["prefetch"].default == PREFETCH


@pytest.mark.parametrize("side", ["learn", "draw"])
def test_without_contention_the_slowest_process_determines_the_rate(side):
    reached = simulate(replace(FREE, **{side: Cost(2e-3)}), ROOMY, FAST, delay=0.0)
    assert reached.batches == pytest.approx(500, rel=0.1)


def test_hosts_of_one_machine_share_its_cores():
    costs = replace(FREE, learn=Cost(1e-3), draw=Cost(3e-3))
    assert simulate(costs, HostCounts(1, cores=1, one_machine=True), FAST, 0.0).batches == pytest.approx(250, rel=0.1)
    assert simulate(costs, HostCounts(1, cores=1), FAST, 0.0).batches == pytest.approx(333, rel=0.1)


def test_a_full_link_determines_the_rate():
    reached = simulate(FREE, replace(ROOMY, link=64 * 100 * 200), FAST, delay=0.0)
    assert reached.batches == pytest.approx(200, rel=0.03)


def test_three_batches_are_in_flight_during_long_delays():
    """One batch takes two delays. Exponential delays and the order of batches reduce the rate by less than half."""
    reached = simulate(FREE, ROOMY, FAST, delay=0.05)
    assert 0.5 * 3 / 0.1 < reached.batches < 3 / 0.1


def test_storing_processes_determine_the_rate_of_explorers():
    costs = replace(FREE, store=Cost(row=1e-4))
    load = replace(FAST, batches=0, transitions=1e6)
    for data in (1, 4):
        reached = simulate(costs, HostCounts(data, explorers=2, cores=8), load, delay=0.0)
        assert reached.rows == pytest.approx(1e4 * data, rel=0.15) and math.isnan(reached.p50)


def test_load_below_saturation_is_reached():
    costs = replace(FREE, draw=Cost(1e-3), store=Cost(row=1e-5))
    reached = simulate(costs, ROOMY, Load(100, 64, 50, 2_000), delay=1e-4)
    assert (reached.batches, reached.rows) == (pytest.approx(50, rel=0.05), pytest.approx(2_000, rel=0.1))
    assert reached.p50 < 1 / 50


def test_parts_of_a_batch_are_drawn_in_parallel():
    costs = replace(FREE, draw=Cost(row=1e-4))
    one, four = (simulate(costs, HostCounts(data, cores=8), FAST, 0.0).batches for data in (1, 4))
    assert 2 * one < four < 4.2 * one


def test_a_simulation_is_reproducible():
    assert simulate(COSTS, ROOMY, FAST, 1e-5) == simulate(COSTS, ROOMY, FAST, 1e-5)


def test_errors_are_reported_for_every_cell(short):
    run = hosts_run()
    compared = compare(run, model_of(run))
    assert [(each.cell.data, each.was_seen) for each in compared] == [(1, True), (1, True), (2, False), (2, False)] * 2
    assert all(each.ratios.keys() == set(FIGURES) for each in compared)
    cpu = [each.ratios[name] for each in compared for name in ("learner_cpu", "data_cpu")]
    assert cpu == pytest.approx([1.0] * len(cpu), rel=1e-3)
    assert "With 2 data hosts, which were not used in the fit" in "\n".join(tables.error_lines(compared))


# Plans.

STORING = model(replace(FREE, store=Cost(row=1e-4), add=Cost(row=1e-4)))


def plan(hosts: HostCounts, **load: float) -> Plan:
    return Plan(Load(**{"row_bytes": 100, "batch": 64, "batches": 10, "transitions": 20_000, **load}), hosts)


def test_the_least_number_of_data_hosts_is_planned():
    """At 0.1 ms per row, 20,000 rows per second keep 2 hosts busy; 3 hosts are then each at most 70% busy."""
    assert least_data_hosts(plan(HostCounts(1)), STORING) == 3
    busiest = uses(plan(HostCounts(3)), STORING)[0]
    assert (busiest.name, busiest.share) == ("each data host's process that stores", pytest.approx(2 / 3))
    assert verdict(plan(HostCounts(2)), STORING).startswith(
        "2 data hosts are not enough: the first to saturate is each data"
    )
    assert "it takes 3" in verdict(plan(HostCounts(2)), STORING)
    assert verdict(plan(HostCounts(3)), STORING).startswith(
        "3 data hosts are enough to keep everything at most 70% busy"
    )
    assert verdict(plan(HostCounts(5)), STORING).startswith("5 data hosts are enough (3 would be)")


def test_with_too_many_data_hosts_the_learner_is_saturated():
    """At 10 batches per second and 4 ms per batch and data host, 25 hosts would keep the learner fully busy."""
    costs = model(replace(FREE, store=Cost(row=1e-4), learn=Cost(message=0.004)))
    assert verdict(plan(HostCounts(25)), costs).startswith(
        "25 data hosts are too many for the learner: the first to saturate"
    )
    assert "it takes 3" in verdict(plan(HostCounts(25)), costs)


def test_explorers_on_the_data_hosts_need_their_processors_and_no_storing_process():
    """At 0.1 ms per row, 20,000 rows per second keep 2 processors busy, as many as a host has."""
    local = plan(HostCounts(1, explorers=0, cores=2))
    shares = {use.name: use.share for use in uses(local, STORING)}
    assert shares["each data host's 2 cores"] == pytest.approx(1)
    assert shares["each data host's process that stores"] == 0
    assert least_data_hosts(local, STORING) == 2 and least_explorer_hosts(local, STORING) == 0
    assert not any("explorer host" in use.name for use in uses(local, STORING))
    assert [reached.rows for reached in simulated(local, STORING)] == [0, 0]


def test_with_too_few_explorer_hosts_their_link_is_saturated():
    """20,000 rows of 100 bytes per second are 2 MB per second, and a link carries 1 MB per second."""
    few = plan(HostCounts(8, explorers=1, link=1e6), batches=0)
    assert least_explorer_hosts(few, model(FREE)) == 3
    assert verdict(few, model(FREE)).startswith("1 explorer host is not enough: the first to saturate is each explorer")


@pytest.mark.parametrize(
    ("costs", "link", "blocking"),
    [
        (replace(FREE, learn=Cost(row=1e-4)), math.inf, "the learner's thread that samples"),
        (FREE, 2048 * 100 * 5, "the learner's link in"),
        (replace(FREE, draw=Cost(message=0.2)), math.inf, "each data host's process that draws"),
    ],
)
def test_no_number_of_data_hosts_is_enough_if_something_else_is_saturated(costs, link, blocking):
    wanted = plan(HostCounts(4, link=link), transitions=0, batch=2048)
    assert least_data_hosts(wanted, model(costs)) is None
    assert f"No number of data hosts up to 1,024 is enough, because of {blocking}" in verdict(wanted, model(costs))


def test_a_plan_outside_the_measured_range_is_marked(short):
    run = hosts_run()
    wanted = plan_from({"BATCH": "4096", "ROW": "1000000", "DATA_HOSTS": "20"}, run, model(COSTS))
    lines = "\n".join(tables.plan_lines(wanted, model(COSTS), cells_of(run, NEEDED)))
    for each in ("rows are outside", "batches are outside", "data hosts are outside"):
        assert f"Careful: {each}" in lines


# The program that users call.


@pytest.mark.parametrize(
    "bad",
    ["TRANSITIONS=-1", "TRANSITIONS=many", "ROW=0", "ROW=Pong", "BATCH=0", "BATCH=1.5", "BATCHES=nan", "BATCHES=inf",
     "DATA_HOSTS=0", "DATA_HOSTS=2000", "EXPLORER_HOSTS=-1", "CORES=0", "LINK=fast", "LINK=10", "CAPACITY=0"],
)  # fmt: skip
def test_a_bad_value_names_its_variable(bad):
    name, _, value = bad.partition("=")
    with pytest.raises(BadInput, match=rf"^{name} must be .*, got '{re.escape(value)}'$"):
        plan_from({name: value}, hosts_run(), model(COSTS))


def test_a_plan_needs_a_load():
    with pytest.raises(BadInput, match="BATCHES or TRANSITIONS must be above 0"):
        plan_from({"BATCHES": "0", "TRANSITIONS": "0"}, hosts_run(), model(COSTS))


def test_the_program_prints_a_plan(tmp_path, capsys, short):
    path = tmp_path / "hosts.json"
    save(path, hosts_run())
    assert program.main(["DATA_HOSTS=3", "LINK=10gbit", "--record", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Service times: {os.path.relpath(path)}, ")
    assert (
        "12,500 rows/s of 56,458 bytes" in printed and "3 data hosts" in printed and "the first to saturate" in printed
    )
    assert program.main(["HOST=3", "--record", str(path)]) == 2
    assert "variables must be among TRANSITIONS, ROW" in capsys.readouterr().err
    assert program.main(["LINK=fast", "--record", str(path)]) == 2
    assert "LINK must be" in capsys.readouterr().err


def test_the_variable_of_make_apex_is_refused_without_reading_a_record(capsys):
    assert program.main(["HOSTS=3", "--record", "no_such.json"]) == 2
    assert "HOSTS is a variable of make apex; set DATA_HOSTS" in capsys.readouterr().err


def test_service_times_come_from_the_newest_committed_hosts_record():
    assert program._committed() == references()[page.PROFILE].paths[0]


@pytest.mark.parametrize("explorers", ["0", "1"])
def test_gaps_in_the_table_of_the_simulation_are_explained(explorers, monkeypatch):
    monkeypatch.setattr(simulation, "MOST_EVENTS", 20_000)
    run = hosts_run()
    chosen = plan_from({"EXPLORER_HOSTS": explorers, "ROW": "CartPole-v1"}, run, model(COSTS))
    *table, empty, explained = tables.plan_lines(chosen, model(COSTS), cells_of(run, NEEDED))
    assert empty == "" and explained.startswith("\N{EN DASH}: ")
    stored = next(line for line in table if line.startswith("| rows stored per second"))
    assert ("\N{EN DASH}" in stored) == (explorers == "0") and "explorers on the data hosts" in explained


def test_make_refuses_the_variable_of_make_apex():
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES")}
    planned = subprocess.run(
        ["make", "--dry-run", "plan", "HOSTS=3"], cwd=ROOT, env=alone, capture_output=True, text=True
    )
    assert planned.returncode == 0 and "'HOSTS=3'" in planned.stdout, planned.stderr


def test_without_measurements_the_program_says_what_to_run(capsys):
    other = next(REFERENCE.glob("*-quick.json"))
    assert program.main(["--record", str(other)]) == 1
    assert COMMAND in capsys.readouterr().err


def test_make_knows_every_variable():
    assert list(targets.PLANNED) == list(DEFAULTS)
    table = (ROOT / "docs/planning.md").read_text().split("## The model")[0]
    assert all(f"`{name}`" in table for name in DEFAULTS)


def test_the_tables_of_the_page_come_from_a_record(tmp_path, short):
    path = tmp_path / "hosts.json"
    run = hosts_run(data=(1,))
    save(path, run)
    blank = "".join(f"<!-- generated: {name} -->\n<!-- end -->\n" for name in page.PARTS)
    written = generated(blank, {page.PROFILE: Reference([path], run)})
    assert written.count("\nmake plan ") == len(page.CASES)
    assert written.count("the first to saturate") >= len(page.CASES) and "| learner, CPU" in written
    assert generated(written, {page.PROFILE: Reference([path], run)}) == written
    assert generated(blank, {}) == blank
