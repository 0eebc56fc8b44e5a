"""The answer names the right peer, by the right factor, and is no surer than the data."""

import dataclasses
import random

import pytest

from reports.answers import answers_of, keeps_references, standings, summary
from reports.jobs import jobs_of, reference_name

from .synthetic_runs import JOBS, add_apex, empty_run, throughput_cell, throughput_run


def answers(run, suite="throughput"):
    jobs = [job for job in jobs_of(run) if job.suite == suite]
    reference = reference_name(run, suite)
    return jobs, answers_of(run, jobs, reference), reference


def told(run, suite="throughput"):
    jobs, found, reference = answers(run, suite)
    return str(summary(run, suite, jobs, found, reference))


def answer_to(run, label, among_copying=False):
    found = answers(run)[1]
    return next(answer for answer in found if (answer.job.label, answer.among_copying) == (label, among_copying))


def test_jobs_come_in_the_order_in_which_they_are_spoken_of():
    run = throughput_run(blocks=1)
    run.records.reverse()
    assert [job.label for job in jobs_of(run)] == [
        "add 1", "add 100", "sample 32", "sample 256", "prioritized cycle 32", "prioritized cycle 256",
    ]  # fmt: skip
    assert list(jobs_of(run)[0].cells)[:2] == ["cpprb_impl", "cpprb"]


def test_the_winner_its_factor_and_its_rival():
    answer = answer_to(throughput_run(), "sample 32")
    assert (answer.winner, answer.runner_up, answer.reference) == ("cpprb_impl", "cpprb", "cpprb")
    assert answer.over_reference.value == pytest.approx(7.8 / 4, rel=0.1)
    assert (answer.clear, answer.sureness) == (True, "clear (5 of 5 blocks)")


def test_a_near_tie_is_too_close_to_call():
    answer = answer_to(throughput_run(), "prioritized cycle 256")
    assert not answer.clear
    assert answer.sureness.startswith("too close to call")


def test_who_keeps_references_wins_with_a_mark_and_the_copying_get_their_own_row():
    run = throughput_run()
    assert answer_to(run, "add 1").winner == "baselines-style"
    assert answer_to(run, "add 1").keeps_references
    copying = answer_to(run, "add 1", among_copying=True)
    assert (copying.winner, copying.runner_up) == ("cpprb_impl", "cpprb")


def test_a_peer_may_copy_one_step_and_keep_a_batch():
    run = throughput_run(peers=("rllib", "cpprb"))
    run.peers[0] = dataclasses.replace(
        run.peers[0], features={"copies_on_add": "one step: yes; a batch: no, keeps views of the caller's arrays"}
    )
    one, batch, sample, *_ = jobs_of(run)
    assert [keeps_references(run.peers[0], job) for job in (one, batch, sample)] == [False, True, False]


def test_a_difference_that_memory_layout_could_make_is_only_likely():
    """Two identical builds have differed by as much."""
    run = throughput_run(peers=("cpprb_impl", "cpprb"))
    for record in (record for record in run.records if record.benchmark == "sample"):
        value = 1.0 if record.peer == "cpprb_impl" else 1.07
        record.samples[:] = [dataclasses.replace(sample, value=value) for sample in record.samples]
    assert answer_to(run, "sample 32").sureness == "likely (5 of 5 blocks)"


def test_three_launches_are_never_clear():
    assert answer_to(throughput_run(blocks=3), "sample 32").sureness == "likely (3 of 3 blocks)"


@pytest.mark.parametrize("seed", range(30))
def test_a_winner_is_never_slower_than_its_runner_up(seed):
    """However noisy: the ratio beside the name is the one that made it the winner."""
    rng = random.Random(seed)
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=3)
    for record in run.records:
        record.samples[:] = [dataclasses.replace(s, value=rng.lognormvariate(0, 1)) for s in record.samples]
    assert all(answer.over_runner_up.value >= 1 for answer in answers(run)[1])


def test_alone_is_not_fastest():
    assert "CartPole-v1: only cpprb was measured." in told(throughput_run(peers=("cpprb",)))


def test_who_could_not_be_measured_is_said_first():
    run = throughput_run()
    run.peers[-1] = dataclasses.replace(run.peers[-1], reason="no wheel for this Python")
    assert f"Not measured: {run.peers[-1].name} (no wheel for this Python)." in told(run)


def test_peers_that_share_a_reason_are_told_once():
    run = throughput_run()
    for name in ("one", "another"):
        run.add_peer(name, None, "as its documentation says", {}, reason="its environment could not be installed: x")
        throughput_cell(run, "add", 1, name, "CartPole-v1").fail("skipped", "its environment could not be installed: x")
    assert "Not measured: one and another (its environment could not be installed: x)." in told(run)


def test_two_launches_are_too_few_to_be_clear():
    answer = answer_to(throughput_run(blocks=2), "sample 32")
    assert answer.winner == "cpprb_impl"
    assert answer.sureness == "too few launches to tell (2)"
    assert "With 2 launches a peer nothing here is sure." in told(throughput_run(blocks=2))


def test_higher_is_better_in_the_ape_x_suite_and_ratios_are_to_the_fastest_variant():
    run = throughput_run()
    add_apex(run)
    _, found, reference = answers(run, "apex")
    assert reference == "cpprb"
    by_label = {answer.job.label: answer for answer in found}
    assert by_label["explorers N=4"].winner == "cpprb_impl[lock=critical]"
    assert by_label["explorers N=4"].reference == "cpprb[MP]"
    assert by_label["learner N=1"].reference == "cpprb[PER behind one lock]"
    assert by_label["learner N=1"].over_reference.low > 1


def test_the_summary_says_where_the_leader_and_the_first_peer_do_not_win():
    text = told(throughput_run())
    assert "CartPole-v1: cpprb_impl is fastest at 4 of 6 jobs (" in text
    assert "Of those that copy, cpprb_impl is fastest at 1 of 1 job (" in text
    assert "cpprb_impl is not fastest where it meets baselines-style at add 1 on CartPole-v1 (" in text
    assert "it keeps references to the caller's arrays" in text
    assert "Never fastest: chainerrl-style, rllib and reverb." in text


def test_a_first_peer_that_never_wins_is_said_to():
    run = throughput_run(peers=("rllib", "cpprb", "reverb"))
    text = told(run)
    assert "No job here has a faster peer than cpprb." in text
    assert "rllib is not fastest where it meets cpprb at add 1 on CartPole-v1; " not in text
    assert "rllib is not fastest where it meets cpprb at add 1 on CartPole-v1, add 100 on CartPole-v1" in text


def test_a_failed_cell_of_the_leader_is_told():
    run = throughput_run(peers=("cpprb_impl", "cpprb"))
    record = next(r for r in run.records if r.peer == "cpprb_impl" and r.benchmark == "sample")
    record.fail("failed", "it crashed")
    assert "cpprb_impl itself has no figure in 1" in told(run)


def test_without_the_reference_ratios_are_to_the_first_peer():
    assert answers(throughput_run(peers=("rllib", "reverb")))[2] == "rllib"
    assert reference_name(empty_run(), "throughput") is None


def test_standings_count_what_the_answers_say():
    run = throughput_run()
    jobs, found, reference = answers(run)
    rows = {row.peer: row for row in standings(run, jobs, found, reference)}
    assert sum(row.fastest for row in rows.values()) == len(JOBS)
    assert (rows["baselines-style"].fastest, rows["baselines-style"].fastest_copying) == (1, 0)
    assert sum(row.fastest_copying for row in rows.values()) == len(JOBS)
    assert rows["cpprb"].typical is None
    assert rows["reverb"].slower == len(JOBS)
    assert rows["cpprb_impl"].typical == pytest.approx(1.7, rel=0.1)


def test_nobody_measured_at_a_job():
    run = throughput_run(peers=("cpprb",))
    for record in run.records[:1]:
        record.samples.clear()
        record.fail("wrong", "wrong sum")
    assert answer_to(run, "add 1").sureness == "nobody was measured"
    assert answer_to(run, "add 100").sureness == "no rival measured"
    assert "Nobody was measured at: add 1 on CartPole-v1." in told(run)


def test_no_common_block_is_no_comparison():
    run = throughput_run(peers=("cpprb_impl", "cpprb"), blocks=1)
    throughput_cell(run, "add", 1, "cpprb", "CartPole-v1").samples[:] = []
    throughput_cell(run, "add", 1, "cpprb", "CartPole-v1").add_sample(7, 1.0)
    assert answer_to(run, "add 1").sureness == "no block has both"
