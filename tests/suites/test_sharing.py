"""The sharing suite: figures of a sound buffer, and what a bad one gets instead."""

import json

import pytest

from results.record import load
from suites.cells import SharingJob

# Ten seconds of patience are for slow machines; these explorers are stuck on purpose.
IMPATIENT = (
    "import sys; from suites import explorers, sharing;"
    "explorers.PATIENCE, sharing.STARVED_SECONDS = {patience}, 0.5; sys.exit(sharing.main())"
)
CROWD, BATCHES, STEP, ALONE = (
    "crowd:CartPole-v1:2000:1:2", "crowd:CartPole-v1:2000:100:2", "step:CartPole-v1:2000:100:0",
    "alone:CartPole-v1:2000:1:0",
)  # fmt: skip


def sharing(surroundings, peer: str, *jobs: str, patience: float = 2.0):
    options = [f"--job={job}" for job in jobs]
    done = surroundings.run("-c", IMPATIENT.format(patience=patience), "--peer", peer, "--seconds=0.2", *options)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_sound_buffer_gets_every_figure(surroundings):
    status, results = sharing(surroundings, "plain", CROWD, BATCHES, STEP, ALONE)
    assert status == 0
    crowd = ["adds", "samples", "slowest"]
    assert [result["benchmark"] for result in results] == [*crowd, *crowd, "step", "add_alone"]
    assert all(result["outcome"] == "ok" and result["value"] > 0 for result in results)
    assert results[0]["params"] == {"explorers": 2, "batch": 1, "capacity": 2000}
    assert results[-1]["params"] == {"batch": 1, "capacity": 2000}
    assert surroundings.leftovers() == []


def test_rows_are_counted_not_calls(surroundings):
    """A hundred rows a call are far more rows a second than one; as calls they would be fewer."""
    _, results = sharing(surroundings, "plain", CROWD, BATCHES)
    one, many = (result["value"] for result in results if result["benchmark"] == "adds")
    assert many > 5 * one


def test_among_one_explorer_there_is_no_slowest(surroundings):
    _, results = sharing(surroundings, "plain", "crowd:CartPole-v1:2000:1:1")
    assert [result["benchmark"] for result in results] == ["adds", "samples"]


def test_an_explorer_that_gets_fewer_turns_shows(surroundings):
    _, results = sharing(surroundings, "favouring", CROWD)
    figures = {result["benchmark"]: result["value"] for result in results}
    assert 0 < figures["slowest"] < 0.2


def test_an_explorer_without_a_turn_has_starved_and_the_others_have_their_figures(surroundings):
    status, results = sharing(surroundings, "starving", CROWD, patience=10.0)
    assert status == 1
    adds, samples, slowest = results
    assert adds["outcome"] == samples["outcome"] == "ok" and adds["value"] > 0
    assert slowest["outcome"] == "failed" and slowest["value"] is None
    assert "1 of 2 explorers could add nothing beside the learner" in slowest["reason"]
    assert surroundings.leftovers() == []


@pytest.mark.parametrize(
    ("peer", "job", "outcome", "reason"),
    [
        ("broken", CROWD, "wrong", "different added rows"),
        ("broken", STEP, "wrong", "different added rows"),
        ("unfair", STEP, "wrong", "weights"),
        ("deadly", CROWD, "failed", "died with exit code -9"),
        ("deadlocked", CROWD, "failed", "stuck"),
        ("absent", ALONE, "skipped", "no wheel for this platform"),
    ],
)
def test_a_bad_buffer_gets_a_reason_instead(peer, job, outcome, reason, surroundings):
    status, results = sharing(surroundings, peer, job)
    assert status == (outcome != "skipped")
    assert [result["benchmark"] for result in results] == SharingJob.parse(job).benchmarks
    for result in results:
        assert result["outcome"] == outcome and reason in result["reason"] and result["value"] is None
    assert surroundings.leftovers() == []


def test_after_a_job_that_hangs_come_the_others(surroundings):
    status, results = sharing(surroundings, "deadlocked", BATCHES, CROWD, "alone:CartPole-v1:500:1:0")
    assert status == 1
    assert [result["outcome"] for result in results] == ["failed"] * 7
    assert all("stuck" in result["reason"] for result in results)


def test_a_job_is_read_as_it_is_written():
    for text in (CROWD, BATCHES, STEP, ALONE):
        assert str(SharingJob.parse(text)) == text
    with pytest.raises(ValueError, match="unknown kind of job: dance"):
        SharingJob.parse("dance:CartPole-v1:2000:1:2")


def test_a_run_declares_and_measures_it_like_the_other_suites(surroundings):
    out = surroundings.folder / "run.json"
    arguments = ("-m", "suites.run", "--profile=tiny", "--suites=sharing", "--workloads=CartPole-v1")
    done = surroundings.run(*arguments, "--peers=cpprb_impl,broken,absent", f"--out={out}")
    run = load(out)
    assert done.returncode == 0, done.stderr
    of = {peer.name: [record for record in run.records if record.peer == peer.name] for peer in run.peers}
    assert [record.benchmark for record in of["cpprb_impl"]] == ["add_alone"]
    assert {len(of[name]) for name in of if name != "cpprb_impl"} == {8}
    for name, records in of.items():
        expected = {"broken": "wrong", "absent": "skipped"}.get(name, "ok")
        assert {record.status for record in records} == {expected}, name
    assert {record.unit for record in of["broken"]} == {
        "rows/s", "samples/s", "of a fair share", "s/step", "s/transition"
    }  # fmt: skip
