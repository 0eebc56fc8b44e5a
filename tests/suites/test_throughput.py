"""The throughput suite by hand, as a user of pytest-benchmark runs it."""

import json

import pytest

BY_HAND = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "suites/throughput.py", "--seconds=0.01")


def test_benchmark_json_holds_the_figure_and_its_unit(surroundings):
    file = surroundings.folder / "x.json"
    done = surroundings.run(*BY_HAND, "--peer=plain", "--workload=Pendulum-v1", f"--benchmark-json={file}")
    assert done.returncode == 0, done.stdout
    benchmarks = json.loads(file.read_text())["benchmarks"]
    assert len(benchmarks) == 9  # frames are another workload's
    assert {each["extra_info"]["unit"] for each in benchmarks} == {"s/transition", "s/call"}
    assert all(each["extra_info"]["value"] > 0 for each in benchmarks)


def test_benchmark_disable_still_checks_the_answers(surroundings):
    options = ("--workload=CartPole-v1", "--capacity=500", "--benchmark-disable")
    assert surroundings.run(*BY_HAND, "--peer=plain", *options).returncode == 0
    done = surroundings.run(*BY_HAND, "--peer=broken", *options)
    assert done.returncode == 1 and "6 failed" in done.stdout and "3 errors" in done.stdout


@pytest.mark.parametrize(("option", "known"), [("--peer=nobody", "plain"), ("--workload=Pong", "CartPole-v1")])
def test_an_unknown_name_is_answered_with_the_known_ones(option, known, surroundings):
    done = surroundings.run(*BY_HAND, option)
    assert done.returncode == 4
    assert "unknown" in done.stderr and known in done.stderr


def test_a_package_from_elsewhere_is_refused(surroundings):
    done = surroundings.run(*BY_HAND, "--peer=plain", f"--package-at=numpy={surroundings.folder}")
    assert done.returncode == 4 and "numpy was imported from" in done.stderr
