"""The memory suite, on buffers whose bytes per transition are known."""

import json
import re
from mmap import PAGESIZE, mmap

import pytest

from suites import workloads
from suites.runner.memory_use import in_use

from .conftest import needs_atari

ROW = 41  # bytes of a row of CartPole
PLAIN = ROW + 8  # the peer of the tests stores a double with each row


#: Use the same number of rounds to find leaks on any machine; the caching peer settles in the third fifth of them.
FORTY_ROUNDS = "import sys; from suites.memory import measure; measure.FEWEST_ROUNDS = 40; sys.exit(measure.main())"
#: Skip the search for leaks, which takes as long as everything else.
NO_LEAKS = "import sys; from suites.memory import measure; measure.LEAKS = {}; sys.exit(measure.main())"


def figures(surroundings, peer: str, *options: str, workload: str = "CartPole-v1", program: str = NO_LEAKS):
    """Return the results by benchmark."""
    arguments = ("--workload", workload, "--peer", peer, "--leak-seconds=0", *options)
    done = surroundings.run("-c", program, *arguments)
    return done.returncode, {result["benchmark"]: result for result in map(json.loads, done.stdout.splitlines())}


def test_memory_of_another_process_counts(surroundings):
    _, found = figures(surroundings, "uses-a-server", "--capacity=16384")
    assert found["plain"]["value"] > 900
    assert surroundings.leftovers() == []


@pytest.mark.parametrize(
    ("peer", "options", "outcome", "reason"),
    [
        ("mixes-rows", ["--capacity=2048"], "wrong", "different added rows"),
        ("unavailable", ["--capacity=2048"], "skipped", "no wheel for this platform"),
        (
            "plain",
            ["--capacity=2048", "--benchmark=next_of"],
            "skipped",
            "plain has no compression of next_obs or frames",
        ),
        ("plain", ["--capacity=32"], "broken", "capacity must be at least 64 rows, got 32"),
    ],
)
def test_for_a_buffer_without_a_figure_a_reason_is_reported(peer, options, outcome, reason, surroundings):
    status, found = figures(surroundings, peer, *options, program=FORTY_ROUNDS)
    for result in found.values():
        assert result["outcome"] == outcome and reason in result["reason"] and result["value"] is None
    assert status == (outcome != "skipped")


def test_memory_of_rows_and_of_additional_copies_is_measured_at_each_fill_level(surroundings):
    """Plain allocates everything at construction; the additional copies of another peer grow with its rows."""
    assert workloads.load("CartPole-v1").row_bytes == ROW
    levels = ("constructed", "quarter", "half")
    status, found = figures(surroundings, "plain", "--capacity=32768")
    assert status == 0 and found["plain"]["outcome"] == "ok" and found["plain"]["params"] == {"capacity": 32768}
    assert found["plain"]["value"] == pytest.approx(PLAIN, rel=0.1)
    assert [found[level]["value"] for level in levels] == pytest.approx([PLAIN] * 3, rel=0.3)
    _, found = figures(surroundings, "keeps-observations", "--capacity=32768")
    made, full = found["constructed"]["value"], found["plain"]["value"]
    assert full > 0.9 * (PLAIN + 16)
    shares = [(found[level]["value"] - made) / (full - made) for level in levels]
    assert made < 1.5 * PLAIN and shares == pytest.approx([0.0, 0.25, 0.5], abs=0.2)


def test_a_leak_is_found_with_its_bytes_per_round(surroundings):
    status, found = figures(surroundings, "leaks", "--capacity=4096", program=FORTY_ROUNDS)
    assert status == 1 and found["leak"]["outcome"] == "wrong" and found["plain"]["outcome"] == "ok"
    bytes_a_round = int(re.match(r"leaks ([\d,]+) B per round", found["leak"]["reason"])[1].replace(",", ""))
    assert bytes_a_round == pytest.approx(10_000, rel=0.1)


@pytest.mark.parametrize("peer", ["plain", "caches"])
def test_growth_that_ends_is_not_a_leak(peer, surroundings):
    """In the first few rounds, the caching peer allocates as much as the leaking peer."""
    _, found = figures(surroundings, peer, "--capacity=4096", program=FORTY_ROUNDS)
    assert found["leak"]["outcome"] == "ok" and found["leak"]["value"] < 65_536


@needs_atari
def test_the_peak_while_sampling_includes_temporary_memory(surroundings):
    seaquest = {"workload": "ALE/Seaquest-v5"}
    row = 2 * 84 * 84 * 4
    peaks = {
        peer: figures(surroundings, peer, "--capacity=256", **seaquest)[1]["peak"]["value"]
        for peer in ("plain", "peaks")
    }
    assert row / 2 < peaks["plain"] < 4 * row
    assert peaks["peaks"] > (48 << 20) / 256


def test_memory_in_use_includes_touched_memory_and_excludes_freed_memory():
    before = in_use()
    with mmap(-1, 1 << 24) as block:  # mapped, since the heap may contain as much from an earlier test
        for page in range(0, len(block), PAGESIZE):
            block[page] = 1
        assert in_use() - before == pytest.approx(1 << 24, rel=0.05)
    assert in_use() - before < 1 << 20
