"""The answer names the right peer and factor, and claims no more certainty than the data supports."""

import dataclasses
import random

import pytest

from reports.answer.sentences import sentences
from reports.figures.ranking import answers_of
from reports.sections import context_of
from results import Sample
from results.jobs import jobs_of
from results.suites import SUITES, suite_of
from results.verdicts import library_of

from .synthetic_runs import add_apex, empty_run, throughput_cell, throughput_run


def answers(run, suite="throughput"):
    context = context_of(run)
    jobs = [job for job in context.jobs if job.suite == suite]
    reference = context.reference(suite_of(suite))
    return jobs, answers_of(run, jobs, reference), reference


def answer_to(run, label, among_copying=False):
    found = answers(run)[1]
    return next(answer for answer in found if (answer.job.label, answer.among_copying) == (label, among_copying))


def test_a_ranking_names_the_winner_its_factor_and_its_rival():
    answer = answer_to(throughput_run(), "sample 32")
    assert (answer.winner, answer.runner_up, answer.reference) == ("cpprb_impl", "cpprb", "cpprb")
    assert answer.over_reference.figure.value == pytest.approx(7.8 / 4, rel=0.1)
    assert (answer.clear, answer.sureness) == (True, "clear (5 of 5 blocks)")


def test_a_ratio_whose_interval_lies_within_10_percent_is_called_within_10_percent():
    answer = answer_to(throughput_run(), "prioritized cycle 256")
    assert not answer.clear
    assert answer.sureness.startswith("within 10% (")


def test_peers_that_differ_by_less_than_the_threshold_are_equal():
    run = throughput_run(peers=("cpprb_impl", "cpprb"))
    for record in (record for record in run.records if record.benchmark == "sample"):
        values = [1.0] * 5 if record.peer == "cpprb_impl" else [0.97, 1.05, 1.02, 0.99, 1.01]
        record.samples[:] = [dataclasses.replace(s, value=v) for s, v in zip(record.samples, values, strict=True)]
    answer = answer_to(run, "sample 32")
    assert answer.is_equal and answer.sureness == "within 10% (3 of 5 blocks)"
    told = {each.reader: each.text for each in sentences(context_of(run))}["One process, small rows"]
    assert "; as fast as its best rival, within 10%, at 3" in told
    for record in (record for record in run.records if record.benchmark == "sample" and record.peer == "cpprb"):
        record.samples[0] = dataclasses.replace(record.samples[0], value=0.8)
    answer = answer_to(run, "sample 32")
    assert not answer.is_equal and answer.sureness == "too close to call (3 of 5 blocks)"


def test_a_winner_that_keeps_references_is_marked_and_copying_peers_have_a_row():
    run = throughput_run()
    assert answer_to(run, "add 1").winner == "baselines-style"
    assert answer_to(run, "add 1").keeps_references
    copying = answer_to(run, "add 1", among_copying=True)
    assert (copying.winner, copying.runner_up) == ("cpprb_impl", "cpprb")


def test_a_difference_that_memory_layout_could_cause_is_never_called_clear():
    """Two identical builds have differed by this much."""
    run = throughput_run(peers=("cpprb_impl", "cpprb"))
    ours, theirs = (
        next(record for record in run.records if (record.peer, record.benchmark) == (peer, "sample"))
        for peer in ("cpprb_impl", "cpprb")
    )
    ours.samples[:] = [dataclasses.replace(sample, value=1.0) for sample in ours.samples]
    theirs.samples[:] = [dataclasses.replace(sample, value=1.07) for sample in theirs.samples]
    assert answer_to(run, "sample 32").sureness == "within 10% (5 of 5 blocks)"
    theirs.samples[0] = dataclasses.replace(theirs.samples[0], value=1.3)
    assert answer_to(run, "sample 32").sureness == "likely (5 of 5 blocks)"


@pytest.mark.parametrize("blocks", [2, 4])
def test_fewer_than_five_launches_give_no_verdict(blocks):
    answer = answer_to(throughput_run(blocks=blocks), "sample 32")
    assert (answer.winner, answer.sureness) == ("cpprb_impl", f"too few launches ({blocks})")


@pytest.mark.parametrize("seed", range(30))
def test_the_winner_has_the_best_shown_figure(seed):
    """However noisy the figures are, no other peer's median is better, even if ratios within blocks disagree."""
    rng = random.Random(seed)
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=3)
    for record in run.records:
        record.samples[:] = [dataclasses.replace(s, value=rng.lognormvariate(0, 1)) for s in record.samples]
    assert all(answer.figure.value <= answer.runner_up_figure.value for answer in answers(run)[1])


def test_ape_x_ranks_higher_figures_as_better_and_has_ratios_to_one_peer():
    run = throughput_run()
    add_apex(run)
    _, found, reference = answers(run, "apex")
    assert reference == "cpprb[MP]"
    by_label = {answer.job.label: answer for answer in found}
    assert by_label["explorers N=4"].winner == "cpprb_impl[lock=critical]"
    assert {answer.reference for answer in found} == {"cpprb[MP]"}
    assert by_label["learner N=1"].over_reference.figure.low > 1


def test_the_rival_belongs_to_another_library_if_possible():
    run = throughput_run(peers=("cpprb_impl", "rllib", "cpprb"))
    for record in run.records:  # renamed so that the slowest of the three is a variant of the fastest
        record.peer = {"rllib": "cpprb", "cpprb": "cpprb_impl[b]"}.get(record.peer, record.peer)
    run.peers[1:] = [
        dataclasses.replace(peer, name=name)
        for peer, name in zip(run.peers[1:], ("cpprb", "cpprb_impl[b]"), strict=True)
    ]
    rivals = {(library_of(answer.winner), answer.runner_up) for answer in answers(run)[1]}
    assert rivals == {("cpprb_impl", "cpprb")}
    run.records[:] = [record for record in run.records if record.peer != "cpprb"]
    assert {library_of(answer.runner_up) for answer in answers(run)[1]} == {"cpprb_impl"}


def test_without_the_reference_ratios_are_to_the_first_peer():
    assert answers(throughput_run(peers=("rllib", "reverb")))[2] == "rllib"
    assert context_of(empty_run()).reference(SUITES["throughput"]) is None


def test_a_job_without_figures_has_no_winner():
    run = throughput_run(peers=("cpprb",))
    for record in run.records[:1]:
        record.samples.clear()
        record.fail("wrong", "wrong sum")
    assert answer_to(run, "add 1").sureness == "no peer was measured"
    assert answer_to(run, "add 100").sureness == "no rival measured"


def test_peers_without_a_common_block_are_not_compared():
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    throughput_cell(run, "add", 1, "cpprb", "CartPole-v1").samples[:] = []
    throughput_cell(run, "add", 1, "cpprb", "CartPole-v1").add_sample(7, 1.0)
    assert answer_to(run, "add 1").sureness == "no block in common"


def test_a_winner_that_loses_within_blocks_is_too_close_to_call():
    """By medians alone, X is the fastest; reports said "X at sample 256 (~0.88 times as fast as the next)"."""
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=2)
    job = next(job for job in jobs_of(run) if job.label == "sample 32")
    ours, theirs = job.cells["cpprb_impl"], job.cells["cpprb"]
    for record, values in ((ours, {0: 1.0, 1: 3.0, 2: 1.5}), (theirs, {0: 0.9, 1: 2.9, 3: 9.0})):
        record.samples[:] = [Sample(block, value) for block, value in values.items()]
    (answer, *_) = answers_of(run, [job], "cpprb")
    assert answer.winner == "cpprb_impl" and answer.over_runner_up.value < 1
    assert answer.is_close and not answer.likely
