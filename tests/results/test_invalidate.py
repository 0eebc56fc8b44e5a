"""Records are withdrawn by a command that records why and when; other records do not change."""

import dataclasses

import pytest

from results import BadRecord, load, machine, save
from results.invalidate import main, withdraw
from tests.reports.synthetic_runs import throughput_run


@pytest.fixture
def path(tmp_path):
    """Return the path of a SYNTHETIC run of two peers with six jobs each."""
    save(tmp_path / "run.json", throughput_run(peers=("cpprb_impl", "cpprb"), blocks=2))
    return tmp_path / "run.json"


def test_records_are_withdrawn_with_reason_and_revision_and_keep_their_samples(path, capsys):
    before = load(path)
    asked = ["--suite", "throughput", "--benchmark", "add", "--peer", "cpprb", "--workload", "CartPole-v1"]
    assert main([str(path), *asked, "--reason", "counted twice"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "withdrawn: throughput add (batch=1, capacity=100000) of cpprb on CartPole-v1",
        "withdrawn: throughput add (batch=100, capacity=100000) of cpprb on CartPole-v1",
    ]
    for old, new in zip(before.records, load(path).records, strict=True):
        if (old.peer, old.benchmark) == ("cpprb", "add"):
            old = dataclasses.replace(
                old, status="invalidated", reason="counted twice", invalidated_at=machine.revision()
            )
        assert new == old


@pytest.mark.parametrize("asked", [["--suite", "memory"], ["--suite", "throughput", "--peer", "reverb"]])
def test_a_command_that_matches_nothing_fails_and_does_not_change_the_file(path, asked, capsys):
    before = path.read_bytes()
    assert main([str(path), *asked, "--reason", "counted twice"]) == 1
    assert path.read_bytes() == before
    assert "no record to withdraw matches suite" in capsys.readouterr().err


def test_a_withdrawn_record_is_not_withdrawn_again():
    run = throughput_run(peers=("cpprb",), blocks=1)
    assert len(withdraw(run, "first", "abc", suite="throughput", benchmark=None)) == 6
    with pytest.raises(BadRecord, match="no record to withdraw"):
        withdraw(run, "second", "def", suite="throughput")


def test_a_reason_is_required(path):
    with pytest.raises(SystemExit):
        main([str(path), "--suite", "throughput", "--reason", "  "])


def test_only_a_withdrawn_record_has_its_own_revision(tmp_path):
    run = throughput_run(peers=("cpprb",), blocks=1)
    run.records[1].invalidated_at = "abc"
    with pytest.raises(BadRecord, match="invalidated_at: must be null unless the record is withdrawn"):
        save(tmp_path / "run.json", run)
    run.records[1].status, run.records[1].reason, run.records[1].invalidated_at = "invalidated", "wrong", None
    with pytest.raises(BadRecord, match="invalidated_at: must name the revision"):
        save(tmp_path / "run.json", run)
