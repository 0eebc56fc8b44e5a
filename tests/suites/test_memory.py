"""Bytes a transition, of buffers whose memory is known."""

import json

import pytest

from suites import workloads
from suites.memory import in_use

ROW = 41  # bytes of a row of CartPole's own data
PLAIN = ROW + 8  # the test's peer keeps a double beside each row


def memory(surroundings, peer: str, *options: str):
    done = surroundings.run("-m", "suites.memory", "--workload=CartPole-v1", "--peer", peer, *options)
    return done.returncode, json.loads(done.stdout)


def test_a_figure_is_what_the_rows_take(surroundings):
    assert workloads.load("CartPole-v1").row_bytes == ROW
    status, result = memory(surroundings, "plain", "--capacity=16384")
    assert status == 0 and result["outcome"] == "ok" and result["params"] == {"capacity": 16384}
    assert result["value"] == pytest.approx(PLAIN, rel=0.1)


@pytest.mark.parametrize(("peer", "least"), [("hoarder", 0.9 * (PLAIN + 16)), ("remote", 900)])
def test_what_is_kept_beside_the_rows_counts_wherever_it_is(peer, least, surroundings):
    """A copy in objects of their own, and memory of another process."""
    _, result = memory(surroundings, peer, "--capacity=16384")
    assert result["value"] > least
    assert surroundings.leftovers() == []


@pytest.mark.parametrize(
    ("peer", "options", "outcome", "reason"),
    [
        ("broken", ["--capacity=2048"], "wrong", "different added rows"),
        ("absent", ["--capacity=2048"], "skipped", "no wheel for this platform"),
        ("plain", ["--capacity=2048", "--benchmark=next_of"], "skipped", "plain offers none of this (compression)"),
        ("plain", ["--capacity=32"], "failed", "too few"),
    ],
)
def test_who_has_no_figure_has_a_reason(peer, options, outcome, reason, surroundings):
    status, result = memory(surroundings, peer, *options)
    assert result["outcome"] == outcome and reason in result["reason"] and result["value"] is None
    assert status == (outcome != "skipped")


def test_memory_in_use_counts_what_is_touched_and_forgets_what_is_freed():
    before = in_use()
    block = bytearray(b"x") * (1 << 24)
    assert in_use() - before == pytest.approx(1 << 24, rel=0.05)
    del block
    assert in_use() - before < 1 << 20
