"""Jobs have an order, names without ambiguity, and peers that may keep what they add."""

import dataclasses

from results.jobs import jobs_of
from tests.reports.synthetic_runs import throughput_cell, throughput_run


def test_jobs_are_listed_in_a_fixed_order():
    run = throughput_run(blocks=1)
    run.records.reverse()
    assert [job.label for job in jobs_of(run)] == [
        "add 1", "add 100", "sample 32", "sample 256", "prioritized cycle 32", "prioritized cycle 256",
    ]  # fmt: skip
    assert list(jobs_of(run)[0].cells)[:2] == ["cpprb_impl", "cpprb"]


def test_a_peer_may_copy_one_step_and_keep_a_batch():
    run = throughput_run(peers=("rllib", "cpprb"))
    run.peers[0] = dataclasses.replace(
        run.peers[0], features={"copies_on_add": "one step: yes; a batch: no, keeps views of the caller's arrays"}
    )
    one, batch, sample, *_ = jobs_of(run)
    assert [run.peers[0].known.keeps(job.benchmark, job.params) for job in (one, batch, sample)] == [False, True, False]


def test_jobs_are_named_by_their_call_and_by_capacity_if_ambiguous():
    run = throughput_run(peers=("cpprb",), blocks=1)
    for benchmark, batch in (("add_dicts", 1), ("add_lists", 100)):
        throughput_cell(run, benchmark, batch, "cpprb", "CartPole-v1")
    throughput_cell(run, "prioritized", 32, "cpprb", "CartPole-v1", capacity=1_000_000)
    assert [job.label for job in jobs_of(run)] == [
        "add 1", "add 100", "add 1 from dicts", "add 100 from lists", "sample 32", "sample 256",
        "prioritized cycle 32", "prioritized cycle 32, capacity 1,000,000", "prioritized cycle 256",
    ]  # fmt: skip
