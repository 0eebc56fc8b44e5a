"""The order of launches, with and without a time budget, in simulated launches on a simulated clock."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from results.facts import Facts
from results.record import Run
from suites.control.spec import PROFILES, SUITE
from suites.runner import contests, needs, plan
from suites.suite import Launch
from tests.suites.test_driver import a_run


def launches(run: Run, *peers: str, cells: int = 1, benchmark: str = "add") -> list[Launch]:
    def launch(peer: str) -> Launch:
        about = {"suite": "throughput", "peer": peer, "workload": "CartPole-v1", "unit": "s", "better": "lower"}
        records = [run.cell(benchmark=benchmark, params={"batch": number}, **about) for number in range(cells)]
        return Launch(f"{benchmark} of {peer}", records, lambda _records, _cells, _block: [])

    return [launch(peer) for peer in peers]


def simulate(
    costs: dict[str, float], minutes: float, noise: dict[str, float] | None = None, share=1.0, speeds=None, first=None,
    named=(), once=None,
):  # fmt: skip
    """Return (run, [(block, peer)]) of a run with a budget. The launches of a peer take `costs` seconds, and its first
    launch possibly `first`. Launches in suites measured once take `once` seconds, and appear as "once NAME"."""
    run, now, random_numbers, once = a_run(), [0.0], random.Random(1), once or {}
    parts = [needs.SuiteLaunches(launches(run, *costs), 3, named=named)]
    parts += [needs.SuiteLaunches(launches(run, *once, benchmark="plain"), 1, repeated=False)] if once else []
    budgeted = plan.Budgeted(parts, minutes, 60 * minutes, lambda: now[0], share)
    seen = []
    for block, launch in budgeted:
        cost = costs[launch.peer] if block else (first or costs).get(launch.peer, costs[launch.peer])
        is_once = launch.records[0].benchmark == "plain"
        cost = once[launch.peer] if is_once else cost
        took = min(cost, budgeted.limit(launch, 1e9))
        now[0] += took
        if took < cost:
            budgeted.cut_short(launch, took)
        for record in budgeted.records(launch, block):
            spread = random_numbers.lognormvariate(0, (noise or {}).get(launch.peer, 0.1))
            record.add_sample(block, spread / (speeds or {}).get(launch.peer, 1.0))
        budgeted.ended(launch, took)
        seen.append((block, f"once {launch.peer}" if is_once else launch.peer))
    budgeted.leave_out()
    assert now[0] <= 60 * minutes + 1
    return run, seen


def test_every_block_launches_every_peer_once_and_every_other_block_is_reversed():
    made = launches(a_run(), *"abcdef")
    schedule = plan.in_blocks(made, 6)
    blocks = [[launch.name for block, launch in schedule if block == number] for number in range(6)]
    assert all(sorted(block) == sorted(launch.name for launch in made) for block in blocks)
    assert all(after == before[::-1] for before, after in zip(blocks[::2], blocks[1::2], strict=True))
    assert blocks[0] != blocks[2]
    assert schedule != plan.in_blocks(made, 6, seed=1)


def is_by_job(block: list[Launch]) -> bool:
    """Return whether launches of the same job follow each other."""
    jobs = [launch.first_job for launch in block]
    return len(set(jobs)) == 1 + sum(before != after for before, after in pairwise(jobs))


def test_launches_of_one_job_are_consecutive_so_that_a_slow_period_affects_all():
    run = a_run()
    made = [launch for name in ("add", "sample", "update") for launch in launches(run, *"abcdef", benchmark=name)]
    schedule = plan.in_blocks(made, 6)
    blocks = [[launch for block, launch in schedule if block == number] for number in range(6)]
    assert all(is_by_job(block) for block in blocks)
    assert len({tuple(dict.fromkeys(launch.first_job for launch in block)) for block in blocks}) > 1
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 3)], 1, 60, lambda: 0.0)
    assert is_by_job([launch for _, launch in zip(range(len(made)), (each for _, each in budgeted), strict=False)])
    random.Random(0).shuffle(made)
    assert not is_by_job(made)  # the control


def test_a_budget_is_used_and_no_launch_is_repeated_within_a_block():
    costs = {"cpprb": 1, "a": 2, "b": 3}
    _, seen = simulate(costs, minutes=2)
    assert max(Counter(seen).values()) == 1
    assert [block for block, _ in seen] == sorted(block for block, _ in seen)
    assert Counter(peer for _, peer in seen)["a"] >= plan.ENOUGH
    assert sum(costs[peer] for _, peer in seen) > 0.9 * 60 * 2


def test_the_reference_is_never_launched_without_a_rival():
    _, seen = simulate({"cpprb": 1, "expensive": 40}, minutes=2)
    assert seen.count((0, "expensive")) == 1 and (1, "expensive") in seen
    for block, peer in seen:
        assert peer != "cpprb" or (block, "expensive") in seen


def test_a_reference_without_rivals_is_launched_alone():
    _, seen = simulate({"cpprb": 1}, minutes=1)
    assert len(seen) >= plan.ENOUGH


@pytest.mark.parametrize("minutes", [0.5, 2])
def test_both_sides_of_a_control_are_launched_in_each_block(minutes):
    run, now = a_run(), [0.0]
    control = SUITE.launches(run, PROFILES["quick"], SUITE.peers(), SUITE.workloads(PROFILES["quick"]))
    parts = [needs.SuiteLaunches(launches(run, "cpprb", "a", "b"), 3), needs.SuiteLaunches(control, 3)]
    random_numbers, seen = random.Random(1), Counter()
    budgeted = plan.Budgeted(parts, minutes, 60 * minutes, lambda: now[0])
    for block, launch in budgeted:
        now[0] += 1.0
        for record in launch.open_records:
            is_calm = record.params.get("side") == "first"
            record.add_sample(block, random_numbers.lognormvariate(0, 1e-3 if is_calm else 0.3))
        budgeted.ended(launch, 1.0)
        seen[block] += launch in control
    assert seen.total() >= 2 * plan.ENOUGH
    assert set(seen.values()) <= {0, 2}


def test_cheap_peers_get_enough_launches_before_an_expensive_one_is_repeated():
    _, seen = simulate({"cpprb": 2, "a": 2, "expensive": 60}, minutes=2)
    counts = Counter(peer for _, peer in seen)
    assert counts["expensive"] == 1 and counts["a"] >= plan.ENOUGH


def test_an_expensive_peer_gets_enough_launches_if_time_permits():
    _, seen = simulate({"cpprb": 2, "a": 2, "expensive": 60}, minutes=12)
    assert Counter(peer for _, peer in seen)["expensive"] >= plan.ENOUGH


def test_the_rest_of_the_time_goes_where_intervals_are_widest():
    noise, speeds = {"cpprb": 1e-3, "calm": 1e-3, "noisy": 0.3}, {"noisy": 0.3}  # the slowest without a doubt
    _, seen = simulate({"cpprb": 1, "calm": 1, "noisy": 1}, minutes=1, noise=noise, speeds=speeds)
    counts = Counter(peer for _, peer in seen)
    assert counts["noisy"] > 2 * counts["calm"]
    assert counts["cpprb"] == counts["noisy"]  # since a ratio is taken within a block


def test_verdicts_precede_suites_measured_once_if_enough_time_remains_for_these():
    costs, speeds = {"fast": 2.0, "second": 2.0, "cpprb": 2.0}, {"fast": 10.0, "second": 9.95, "cpprb": 3.0}
    once = {"cpprb": 5.0, "second": 10.0, "fast": 7.0}
    for minutes, enough in ((1.2, True), (0.6, False)):
        _, seen = simulate(costs, minutes, noise=CALM, speeds=speeds, once=once)
        before = Counter(peer for _, peer in seen[: seen.index((0, "once cpprb"))])
        assert (min(before["fast"], before["second"]) >= plan.ENOUGH) is enough
        assert all((0, f"once {peer}") in seen for peer in once)


def test_suites_measured_once_begin_with_the_cheapest_peers():
    costs, once = {"cpprb": 1.0, "expensive": 9.0, "a": 3.0}, {"expensive": 1.0, "cpprb": 1.0, "a": 1.0}
    _, seen = simulate(costs, 1, once=once)
    assert [peer for _, peer in seen if peer in {"once expensive", "once cpprb", "once a"}] == [
        "once cpprb", "once a", "once expensive",
    ]  # fmt: skip


def test_a_run_ends_early_if_everything_is_known():
    _, seen = simulate({"cpprb": 1, "a": 1}, minutes=10, noise={"cpprb": 1e-4, "a": 1e-4})
    assert len(seen) == 2 * plan.ENOUGH


CALM = dict.fromkeys(("cpprb", "fast", "second", "third", "far"), 1e-3)


def test_contenders_come_first_and_peers_that_are_far_behind_get_two_launches():
    speeds = {"fast": 10.0, "second": 9.95, "third": 4.0, "cpprb": 3.0, "far": 1.9}
    costs = dict.fromkeys(speeds, 2.0)
    counts = [
        Counter(peer for _, peer in simulate(costs, minutes, noise=CALM, speeds=speeds)[1]) for minutes in (0.5, 5)
    ]
    assert [counts[0][peer] for peer in ("fast", "second", "third")] == [4, 4, 1]
    assert counts[1] == {"fast": 5, "second": 5, "third": 5, "cpprb": 5, "far": 2}


def test_peers_that_cannot_be_told_apart_are_launched_until_they_can():
    costs = {"cpprb": 1.0, "fast": 1.0, "second": 1.0}
    speeds = {"fast": 4.0, "second": 3.3}  # a difference within the noise of few launches
    _, seen = simulate(costs, 5, noise={"fast": 0.4, "second": 0.4, "cpprb": 1e-3}, speeds=speeds)
    counts = Counter(peer for _, peer in seen)
    assert counts["fast"] == counts["second"] > 2 * plan.ENOUGH


def test_all_peers_of_a_block_measure_again_only_the_jobs_that_need_samples():
    run, now = a_run(), [0.0]
    made = launches(run, "cpprb", "fast", "far", cells=2)
    noise = random.Random(1)
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 3)], 2, 120, lambda: now[0], 1.0)
    for block, launch in budgeted:
        now[0] += 1
        for record in budgeted.records(launch, block):
            is_close = record.params["batch"] == 1 and launch.peer != "far"
            speed = 1.0 if is_close else {"cpprb": 1.0, "fast": 3.0, "far": 0.1}[launch.peer]
            record.add_sample(block, noise.lognormvariate(0, 0.5 if is_close else 1e-3) / speed)
        budgeted.ended(launch, 1)
    decided, open_one = ([each.records[job].samples for each in made[:2]] for job in (0, 1))
    assert [len(each) for each in decided] == [plan.ENOUGH] * 2
    assert [sample.block for sample in open_one[0]] == [sample.block for sample in open_one[1]]
    assert len(open_one[0]) > 2 * plan.ENOUGH
    assert [len(record.samples) for record in made[2].records] == [2, 2]


def test_a_reference_measures_the_jobs_that_others_repeat_for_wide_intervals():
    run, now, noise = a_run(), [0.0], random.Random(1)
    made = launches(run, "cpprb", "fast", "wide", cells=2)
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 3)], 2, 120, lambda: now[0], 1.0)
    speeds = {"cpprb": (1.0, 1.0), "fast": (3.0, 1.0), "wide": (0.5, 0.5)}  # the second job remains undecided
    spreads = {"cpprb": (1e-3, 0.5), "fast": (1e-3, 0.5), "wide": (0.2, 1e-3)}
    for block, launch in budgeted:
        now[0] += 1
        for record in budgeted.records(launch, block):
            speed, spread = (values[launch.peer][record.params["batch"]] for values in (speeds, spreads))
            record.add_sample(block, noise.lognormvariate(0, spread) / speed)
        budgeted.ended(launch, 1)
    cpprb, _, wide = ([[sample.block for sample in record.samples] for record in each.records] for each in made)
    assert len(wide[0]) > plan.ENOUGH
    assert all(set(theirs) <= set(reference) for theirs, reference in zip(wide, cpprb, strict=True))


def test_contenders_measure_the_jobs_that_they_decide_before_suites_measured_once():
    run, now = a_run(), [0.0]
    made = launches(run, "cpprb", "fast", "elsewhere", cells=2)
    once = launches(run, "cpprb", benchmark="plain")
    budgeted = plan.Budgeted(
        [needs.SuiteLaunches(made, 3), needs.SuiteLaunches(once, 1, repeated=False)], 2, 120, lambda: now[0], 1.0
    )
    speeds = {"cpprb": (1.0, 1.0), "fast": (9.0, 9.0), "elsewhere": (0.5, 8.0)}  # by job
    for block, launch in budgeted:
        if launch in once:
            break
        now[0] += 1
        for record in budgeted.records(launch, block):
            record.add_sample(block, 1 / speeds[launch.peer][record.params["batch"]])
        budgeted.ended(launch, 1)
    samples = {launch.peer: [len(record.samples) for record in launch.records] for launch in made}
    assert samples == {"cpprb": [plan.ENOUGH] * 2, "fast": [plan.ENOUGH] * 2, "elsewhere": [1, plan.ENOUGH]}


def test_figures_that_are_0_or_do_not_rank_buffers_decide_nothing():
    run = a_run()
    made = launches(run, "a", "b", "c", cells=2)
    for launch, value in zip(made, (0.0, 1.0, 2.0), strict=True):
        for block in range(plan.ENOUGH):
            for record in launch.records:
                record.add_sample(block, value)
    found = contests.contests_of(dict.fromkeys(made))
    assert len(found) == 2 and not any(contest.undecided for contest in found)
    assert all(made[0] in contest.near() for contest in found)
    assert contests.contests_of(dict.fromkeys(made, ("sample",))) == []


def test_a_peer_that_may_be_the_runner_up_is_repeated_until_it_is_clearly_slower():
    run = a_run()
    fast, second, third, _slow = made = launches(run, "fast", "second", "third", "slow")
    for launch, value in zip(made, (1.0, 1.05, 1.2, 2.0), strict=True):
        for block in range(plan.ENOUGH):
            launch.records[0].add_sample(block, value * (1 + 0.1 * (block == 2 and launch is not fast)))
    (contest,) = contests.contests_of(dict.fromkeys(made))
    assert contest.undecided == [fast, second]  # the interval is 1.05 to 1.16, above 1 but not clearly
    third.records[0].samples[:] = [replace(each, value=0.9 + 0.15 * each.block) for each in third.records[0].samples]
    (contest,) = contests.contests_of(dict.fromkeys(made))
    assert contest.undecided == [fast, second, third]


def test_variants_of_one_library_are_not_compared():
    run = a_run()
    made = launches(run, "fast[a]", "fast[b]", "other", "other[c]")
    for launch, value in zip(made, (1.0, 1.01, 1.5, 1.5), strict=True):
        launch.records[0].add_sample(0, value)
    assert [contest.undecided for contest in contests.contests_of(dict.fromkeys(made))] == [[made[0], *made[2:]]]
    alone = contests.contests_of(dict.fromkeys(made[:2]))  # compared, since there is nothing else to decide
    assert [contest.undecided for contest in alone] == [made[:2]]


@pytest.mark.parametrize("other", [{"ranks": False}, {"repeated": False}])
def test_a_tie_precedes_other_suites_until_it_has_taken_long(other):
    run, now, random_numbers = a_run(), [0.0], random.Random(1)
    equal, others = launches(run, "a", "b"), launches(run, "a", "b", benchmark="adds")
    budgeted = plan.Budgeted(
        [needs.SuiteLaunches(equal, 1), needs.SuiteLaunches(others, 1, **other)], 10, 600, lambda: now[0]
    )
    seen: list[str] = []
    for block, launch in budgeted:
        seen.append(launch.name)
        now[0] += 1.0
        budgeted.ended(launch, 1.0)
        launch.records[0].add_sample(block, random_numbers.lognormvariate(0, 1) if launch in equal else 1.0)
    before = seen[: [at for at, name in enumerate(seen) if name == "adds of a"][-1]].count("add of a")
    assert contests.LONG <= before <= contests.LONG + plan.ENOUGH
    assert seen.count("add of a") > 2 * contests.LONG  # the remaining time is used


def test_the_fastest_copying_buffer_is_decided_too():
    run = a_run()
    made = launches(run, "careless", "a", "b")
    for launch, spread in zip(made, (1e-3, 0.1, 0.1), strict=True):
        for block in range(plan.ENOUGH):
            launch.records[0].add_sample(block, (1 if launch is made[0] else 10) * (1 + spread * (block % 3)))
    facts = {"careless": Facts(keeps_references="always")}
    assert [contest.undecided for contest in contests.contests_of(dict.fromkeys(made))] == [[]]
    overall, copying = contests.contests_of(dict.fromkeys(made), facts)
    assert overall.undecided == [] and copying.undecided == []  # since a and b are equally fast
    made[2].records[0].samples[0] = replace(made[2].records[0].samples[0], value=20.0)
    assert set(contests.contests_of(dict.fromkeys(made), facts)[1].undecided) == {made[1], made[2]}


def test_a_peer_that_decides_many_jobs_precedes_a_cheaper_one_that_decides_one():
    costs = {"fast": 1.0, "second at five": 10.0, "second at one": 8.0}
    run, now = a_run(), [0.0]
    budgeted = plan.Budgeted([needs.SuiteLaunches(launches(run, *costs, cells=6), 1)], 1, 60, lambda: now[0])
    seen: Counter[str] = Counter()
    for block, launch in budgeted:
        seen[launch.peer] += 1
        now[0] += costs[launch.peer]
        budgeted.ended(launch, costs[launch.peer])
        for number, record in enumerate(launch.open_records):
            is_near = launch.peer == ("second at one" if number == 5 else "second at five")
            record.add_sample(block, 1.0 if launch.peer == "fast" else 1.5 if is_near else 9.0)
    assert seen["second at five"] > seen["second at one"] == 1


def test_verdicts_of_important_suites_come_first():
    run, now = a_run(), [0.0]
    calls, waits = (launches(run, "fast", "second", benchmark=name) for name in ("add", "latency"))
    budgeted = plan.Budgeted([needs.SuiteLaunches(calls, 1), needs.SuiteLaunches(waits, 1)], 1, 55, lambda: now[0])
    seen: Counter[str] = Counter()
    for block, launch in budgeted:
        now[0] += 5.0 if launch in calls else 1.0
        seen[launch.name] += 1
        budgeted.ended(launch, 5.0 if launch in calls else 1.0)
        launch.records[0].add_sample(block, 1.0 if launch.peer == "fast" else 2.0)
    assert seen["add of second"] == plan.ENOUGH > seen["latency of second"]


@pytest.mark.parametrize("ranks", [True, False])
def test_suites_that_do_not_rank_buffers_wait_for_the_verdicts_of_those_that_do(ranks):
    run, now = a_run(), [0.0]
    calls, fleets = (launches(run, "fast", "second", benchmark=name) for name in ("add", "adds"))
    budgeted = plan.Budgeted(
        [needs.SuiteLaunches(calls, 1), needs.SuiteLaunches(fleets, 1, ranks=ranks)], 1, 30, lambda: now[0]
    )
    seen: Counter[str] = Counter()
    for block, launch in budgeted:
        now[0] += 1.0
        seen[launch.name] += 1
        budgeted.ended(launch, 1.0)
        value = 1.0 if launch.peer == "fast" else (0.5, 1.0, 2.0)[block % 3]  # no launch tells them apart
        launch.records[0].add_sample(block, value)
    assert (seen["adds of second"] >= plan.ENOUGH) is ranks
    assert seen["add of second"] > plan.ENOUGH


def test_the_reference_is_launched_with_the_contenders():
    speeds = {"fast": 10.0, "second": 9.9, "cpprb": 1.0}
    noise = {"fast": 0.3, "second": 0.3, "cpprb": 1e-3}
    _, seen = simulate(dict.fromkeys(speeds, 1.0), 1, noise=noise, speeds=speeds)
    counts = Counter(peer for _, peer in seen)
    assert counts["cpprb"] >= counts["fast"] == counts["second"] > plan.ENOUGH


def test_a_slow_first_launch_that_compiles_is_not_taken_as_the_cost_of_the_next():
    costs, first = {"cpprb": 1.0, "compiles": 1.0}, {"compiles": 40.0}
    assert Counter(peer for _, peer in simulate(costs, 2, first=first)[1])["compiles"] >= plan.ENOUGH


def test_variants_that_were_not_requested_come_after_all_peers():
    costs = dict.fromkeys(("a[1]", "a[2]", "a", "b", "b[1]", "c[1]"), 1.0)
    for named, first in (((), {"a", "b", "c[1]"}), (("a[2]", "a"), {"a", "a[2]", "b", "c[1]"})):
        _, seen = simulate(costs, 1, named=named)
        assert {peer for _, peer in seen[: len(first)]} == first


def test_a_budget_that_is_too_small_is_reported_before_anything_is_measured():
    run = a_run()
    made = launches(run, *(f"peer {number}" for number in range(20)), cells=3)
    said = plan.Budgeted([needs.SuiteLaunches(made, 1)], 2, 105.0, lambda: 0.0).shortage()
    assert said == (
        "60 figures of 20 buffers and variants need about 3 minutes. The 2-minute budget holds about 21 of 32 "
        "launches. For a first verdict, interrupt this run and use MINUTES=3."
    )
    assert plan.Budgeted([needs.SuiteLaunches(made, 1, repeated=False)], 2, 105.0, lambda: 0.0).shortage() == ""
    assert plan.Budgeted([needs.SuiteLaunches(made, 1)], 3, 165.0, lambda: 0.0).shortage() == ""


def test_the_time_limit_is_the_same_for_all_peers():
    run = a_run()
    made = launches(run, "cpprb", "cpprb_impl")
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 1)], 2, 120, lambda: 0.0)
    assert len({budgeted.limit(launch, 1e9) for launch in made}) == 1


def test_cells_left_out_by_the_budget_are_noted_but_are_not_a_problem():
    run, seen = simulate({f"peer {number}": 20 for number in range(6)}, minutes=1)
    left_out = [record for record in run.records if record.status == "left_out"]
    assert len(seen) == 3 and len(left_out) == 3
    assert all("1-minute budget" in record.reason for record in left_out)
    assert run.problems() == []


def test_a_cell_with_a_reason_is_not_measured_again():
    run = a_run()
    sound, failed = launches(run, "a", "b")
    budgeted = plan.Budgeted([needs.SuiteLaunches([sound, failed], 1)], 1, 3.0, clock=iter(range(1000)).__next__)
    for block, launch in budgeted:
        if launch is failed and block == 0:
            failed.records[0].fail("failed", "it crashed")
        elif launch.open_records:
            launch.records[0].add_sample(block, 1.0)
        assert launch is not failed or block == 0


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1, 0.5])
def test_an_interval_is_wider_with_more_spread_and_narrower_with_more_samples(spread):
    def record(samples: int):
        (launch,) = launches(a_run(), "a")
        for block in range(samples):
            launch.records[0].add_sample(block, 1.0 + spread * (block % 2))
        return launch.records[0]

    widths = [needs.width(record(samples)) for samples in (4, 16, 64)]
    assert all(before >= after for before, after in pairwise(widths))
    assert (widths[0] > needs.NARROW) == (spread > 0.01)


@pytest.mark.parametrize(("others", "seconds"), [(6, plan.PATIENCE), (60, 120 * plan.SHARE)])
def test_a_slow_first_launch_is_allowed_if_time_remains_for_those_of_the_other_peers(others, seconds):
    made = launches(a_run(), *map(str, range(1 + others)))
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 1)], 2, 120, lambda: 0.0)
    assert [budgeted.limit(launch, 1e9) for launch in made] == pytest.approx([seconds] * len(made))


def test_the_time_limit_of_a_peer_reserves_no_time_for_variants():
    made = launches(a_run(), "a", "b", *(f"a[{number}]" for number in range(60)))
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 1, named=("a", "b"))], 2, 120, lambda: 0.0)
    limits = [budgeted.limit(launch, 1e9) for launch in made]
    assert limits == pytest.approx([plan.PATIENCE] * 2 + [120 * plan.SHARE] * 60)


def test_a_later_launch_may_take_longer_than_the_earlier_ones():
    server, _ = made = launches(a_run(), "server", "cpprb")
    budgeted = plan.Budgeted([needs.SuiteLaunches(made, 1)], 2, 120, lambda: 0.0)
    for record in server.records:
        record.add_sample(0, 1.0)
    budgeted.ended(server, 15.0)
    assert budgeted.limit(server, 1e9) == pytest.approx(15.0 * plan.LONGER)


def test_one_launch_cannot_use_the_whole_budget():
    run, seen = simulate({"cpprb": 1, "endless": 1e6}, minutes=2, share=plan.SHARE)
    assert {record.status for record in run.records if record.peer == "endless"} == {"left_out"}
    assert Counter(peer for _, peer in seen)["cpprb"] >= plan.ENOUGH
