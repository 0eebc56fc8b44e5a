import pytest

from reports.agreement import agreements, main, report
from results import save
from tests.reports.synthetic_runs import add_workload, empty_run


def a_run(speeds: dict[str, float], launches: int = 5):
    """Seconds of each peer at one job, in launches that differ by some percent."""
    run = empty_run()
    add_workload(run, "CartPole-v1")
    for peer in speeds:
        run.add_peer(peer, "1", "made up")
    about = {"suite": "throughput", "benchmark": "add", "workload": "CartPole-v1", "unit": "s/transition"}
    for peer, seconds in speeds.items():
        record = run.cell(peer=peer, params={"batch": 1, "capacity": 10}, better="lower", **about)
        for block in range(launches):
            # Not in step with each other, so that ratios have an interval.
            record.add_sample(block, seconds * (1 + 0.03 * ((block * len(peer)) % 3)))
    return run


SPEEDS = {"cpprb": 1e-5, "swift": 1e-6, "slowest": 1e-3}


def test_a_run_agrees_with_itself():
    (found,) = agreements(a_run(SPEEDS), a_run(SPEEDS))
    assert (found.peers, found.correlation, found.opposite) == (3, pytest.approx(1.0), [])
    assert (found.ratios, found.within, found.apart) == (2, 2, [])


def test_another_order_and_another_ratio_show():
    (found,) = agreements(a_run(SPEEDS), a_run(SPEEDS | {"swift": 1e-2}))
    assert found.correlation < 0.6 and len(found.apart) == 1
    assert found.apart[0].startswith("swift 10") and "0.00" in found.apart[0]
    assert "0 of 1 jobs" in report([found]) and "1 of 2 ratios agree (50.0%; wanted: 95%)" in report([found])
    assert found.within == 1 and "; 1 ratios of the second run lie within" in report([found])


def test_two_peers_the_other_way_round_show_only_if_both_runs_tell_them_apart():
    speeds = SPEEDS | {"another": 1.02e-6}
    (tied,) = agreements(a_run(speeds), a_run(speeds | {"another": 0.99e-6}))
    assert tied.opposite == []
    (turned,) = agreements(a_run(speeds | {"another": 2e-6}), a_run(speeds | {"another": 0.5e-6}))
    assert turned.opposite == ["swift and another"]
    assert "1 pair of peers ranked in opposite orders" in report([turned])


def test_a_ratio_just_outside_the_interval_is_not_within_it():
    (found,) = agreements(a_run(SPEEDS), a_run(SPEEDS | {"slowest": 1.05e-3}))
    assert (found.apart, found.within) == ([], 1)


def test_ratios_of_both_runs_are_to_one_reference():
    without = a_run(SPEEDS | {"fourth": 3e-6})
    for record in without.records:
        if record.peer == "cpprb":
            record.fail("failed", "it broke")
            record.samples.clear()
    (found,) = agreements(without, a_run(SPEEDS | {"fourth": 3e-6}))
    assert found.apart == [] and found.ratios


def test_of_two_launches_no_ratio_is_counted():
    (found,) = agreements(a_run(SPEEDS, launches=2), a_run(SPEEDS))
    assert found.ratios == 0 and found.correlation == pytest.approx(1.0)
    assert "0 of 0 ratios agree;" in report([found])


def test_the_command_prints_the_table(tmp_path, capsys):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        save(file, a_run(SPEEDS))
    assert main([str(file) for file in files]) == 0
    assert "| add 1 on CartPole-v1 | 3 | 1.000 | 2 of 2 | 2 of 2 |" in capsys.readouterr().out
    assert main([str(files[0]), str(tmp_path / "none.json")]) == 1
