"""Hosts simulated on this machine, and the suite that measures buffers on them."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import asdict
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest

from adapters import registry
from adapters.base import Columns, Spec
from adapters.hosts import HostsAdapter
from suites import workloads
from suites.hosts import measure
from suites.hosts.role import User
from suites.hosts.spec import CARTPOLE, CUT, KILLED, POWER, SPEED_BENCHMARKS, UNLIMITED, HostsJob
from suites.lan import PREFIX, STATES, Lan, why_not
from suites.lan.worker import HostProcess, Silent, WorkerLost, obey
from suites.runner import entry
from suites.runner.jobs import encoded
from suites.runner.results import Stuck

needs_hosts = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@needs_hosts
def test_hosts_have_networks_that_can_be_cut_and_leave_nothing_behind():
    with Lan(2) as lan:
        state = STATES / f"hosts-{PREFIX}{os.getpid()}"
        assert state.exists()
        assert lan.start(2, ["hostname"], stdout=subprocess.PIPE, text=True).communicate()[0] == "host2\n"
        listener = "import socket; s = socket.create_server(('', 5000)); print(flush=True); s.accept()[0].sendall(b'x')"
        server = lan.start(2, ["python3", "-c", listener], stdout=subprocess.PIPE)
        server.stdout.readline()
        caller = f"import socket; socket.create_connection(('{lan.address(2)}', 5000), 0.5).recv(1)"
        lan.cut(2)
        assert lan.start(1, ["python3", "-c", caller], stderr=subprocess.DEVNULL).wait() == 1
        lan.mend(2)
        before = lan.sent_bytes(1)
        assert lan.start(1, ["python3", "-c", caller]).wait() == 0
        assert lan.sent_bytes(1) > before and lan.cpu_seconds(1) > 0
        lan.power_off(2)
        assert lan.start(2, ["true"], stderr=subprocess.DEVNULL).wait() != 0
    assert not state.exists()


@needs_hosts
def test_the_error_names_a_worker_that_dies():
    with Lan(1) as lan:
        worker = HostProcess(lan, 1, "no.such.module", [], {})
        with pytest.raises(WorkerLost, match=r"no\.such\.module on host 1 died"):
            worker.do("anything")


def test_a_worker_reports_its_exceptions(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('["fromhex", {}]\n'))
    monkeypatch.setattr("sys.stdout", sys.stdout)  # since `obey` replaces it
    with pytest.raises(TypeError):
        obey(bytes)
    answer, raised = json.loads(capsys.readouterr().out)
    assert answer is None and raised.startswith("TypeError: ")


class Memory:
    """A buffer in memory with all recorded rows. It draws `ahead` batches early, from each of its `servers` in turn."""

    def __init__(self, ahead: int = 0, servers: int = 1) -> None:
        self.recorded = workloads.load(CARTPOLE).columns
        self.priorities = np.ones(len(self.recorded["rew"]))
        self.random, self.ahead = np.random.default_rng(0), ahead
        self.drawn: deque[np.ndarray] = deque()
        self.servers = cycle([np.arange(len(self.priorities)) % servers == number for number in range(servers)])

    def sample(self, batch_size: int) -> Columns:
        while len(self.drawn) <= self.ahead:
            masses = np.where(next(self.servers), self.priorities**0.6, 0)
            self.drawn.append(self.random.choice(len(masses), batch_size, p=masses / masses.sum()))
        indexes = self.drawn.popleft()
        rows = {name: column[indexes].astype(np.float64) for name, column in self.recorded.items()}
        return {**rows, "indexes": indexes}

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.priorities[indexes] = priorities


class Torn(Memory):
    """Returns batches in which one row is a mixture of two rows."""

    def sample(self, batch_size: int) -> Columns:
        drawn = super().sample(batch_size)
        drawn["rew"], drawn["obs"][0] = drawn["rew"][:, None], self.recorded["obs"][drawn["indexes"][0] + 1]
        return drawn


class Deaf(Memory):
    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        """Change nothing."""


class Overwritten(Memory):
    """The rows of the first batch were overwritten after it was requested, so updates of them change nothing."""

    first: np.ndarray | None = None

    def sample(self, batch_size: int) -> Columns:
        drawn = super().sample(batch_size)
        if self.first is None:
            self.first = drawn["indexes"]
        return drawn

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        kept = ~np.isin(indexes, self.first)
        super().update_priorities(indexes[kept], priorities[kept])


class Failing(Memory):
    """Raises in every third call of `sample`, and sleeps in every tenth."""

    calls = 0

    def sample(self, batch_size: int) -> Columns:
        self.calls += 1
        if self.calls % 3 == 0:
            raise ConnectionError(f"call {self.calls}")
        if self.calls % 10 == 0:
            time.sleep(WAIT)
        return super().sample(batch_size)


WAIT = 0.05


def user(buffer: Memory) -> User:
    recorded = workloads.load(CARTPOLE)
    made = User(HostsAdapter, Spec(10, recorded.fields), recorded.columns, "", "")
    made.adapter = buffer
    return made


@pytest.mark.parametrize(("buffer", "wrong"), [(Memory, 0), (Torn, 1)])
def test_rows_that_were_never_added_are_counted(buffer, wrong):
    assert user(buffer()).check(seconds=0, batch=20) == {"rows": 20, "wrong": wrong}


@pytest.mark.parametrize(
    ("ahead", "servers", "stale"),
    [(0, 1, 0), (1, 1, 1), (5, 1, 5), (0, 2, 1), (4, 2, 5)],  # the next batch of the same server is the second one
)
def test_staleness_is_the_number_of_batches_drawn_ahead(ahead, servers, stale):
    assert user(Memory(ahead, servers)).wait_for_update(seconds=60, batch=32) == stale


def test_staleness_is_measured_even_if_the_first_rows_were_overwritten():
    assert user(Overwritten(ahead=2)).wait_for_update(seconds=60, batch=32) == 2


def test_an_update_without_effect_has_no_staleness():
    assert user(Deaf()).wait_for_update(seconds=0, batch=8) is None


def test_a_learner_continues_after_exceptions():
    found = user(Failing()).endure(seconds=0.5, batch=8)
    assert found["raised"] == "ConnectionError: call 3"
    assert found["longest"] >= WAIT and found["rate"] > 0


class Scripted:
    """A worker that returns these answers in turn."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def do(self, *_: object, **__: object) -> object:
        return self.hear()

    def tell(self, *_: object, **__: object) -> None: ...

    def hear(self, _limit: float = 0) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


FINE = {"rate": 100.0, "longest": 0.1, "raised": None}
SLOWER = {"rate": 50.0, "longest": 0.1, "raised": None}
BROKEN = {"rate": 0.0, "longest": 2.0, "raised": "OSError: no route"}
HALF_BROKEN = {"rate": 50.0, "longest": 2.0, "raised": "OSError: no route"}
RAISED = "failed", None, "the learner's call raised OSError: no route"


@pytest.mark.parametrize(
    ("during", "after", "longest_wait", "rate_after"),
    [
        (FINE, SLOWER, ("ok", 0.1, None), ("ok", 0.5, None)),
        (BROKEN, BROKEN, RAISED, RAISED),
        (BROKEN, HALF_BROKEN, RAISED, ("ok", 0.5, None)),  # some calls still raise
    ],
)
def test_only_successful_calls_count_after_a_failure(monkeypatch, during, after, longest_wait, rate_after):
    figures = figures_of_a_failure(monkeypatch, FINE, FINE, during, after)
    assert figures == {"longest_wait": longest_wait, "rate_after": rate_after}


def test_a_learner_that_waits_too_long_has_no_figure(monkeypatch):
    with pytest.raises(Stuck, match="waited for longer than 15 s"):
        figures_of_a_failure(monkeypatch, FINE, FINE, Silent("it does not answer"))


def figures_of_a_failure(monkeypatch: pytest.MonkeyPatch, *answers: object) -> measure.Figures:
    monkeypatch.setattr(measure, "LEAD_SECONDS", 0.0)
    figures: measure.Figures = {}
    hosts = SimpleNamespace(learner=Scripted(*answers), fail=lambda _failure: None)
    measure._measure_failure(figures, hosts, HostsJob(CARTPOLE, 2, UNLIMITED, 32, KILLED), 1.0)
    return figures


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"failure": "explodes"}, "failure must be one of killed, cut, power, got 'explodes'"),
        ({"workload": ""}, "workload must be a name, got ''"),
        ({"data": 0}, "data hosts must be a whole number of at least 1, got 0"),
        ({"data": -1}, "data hosts must be a whole number of at least 1, got -1"),
        ({"data": "two"}, "data must be int, got 'two'"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ({"batch": 1.5}, "batch must be int, got 1.5"),
        ({"rate": "fast"}, "rate must be a speed such as 1gbit or 500mbit, or none, got 'fast'"),
        ({"rate": "0gbit"}, "rate must be a speed such as 1gbit or 500mbit, or none, got '0gbit'"),
        ({"rate": ""}, "rate must be a speed such as 1gbit or 500mbit, or none, got ''"),
    ],
)
def test_the_error_for_a_bad_job_says_what_is_wrong(change, problem, capsys):
    parser = argparse.ArgumentParser()
    entry.add_jobs(parser, HostsJob)
    with pytest.raises(SystemExit):
        parser.parse_args(["--job", json.dumps({**asdict(HostsJob(CARTPOLE, 2, UNLIMITED, 32)), **change})])
    error = capsys.readouterr().err
    assert "--job: job must be the fields of HostsJob as JSON" in error and problem in error


@needs_hosts
@pytest.mark.parametrize("rate", ["2.5gbit", "500mbit", "1000kbit"])
def test_tc_accepts_the_speeds_of_a_job(rate):
    HostsJob(CARTPOLE, 1, rate, 32)
    with Lan(1, rate):
        pass


@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize("peer", registry.over_hosts())
def test_every_cell_of_a_buffer_over_hosts_has_a_figure(surroundings, peer):
    about = registry.describe(peer)
    if registry.adapter_class(peer).venv and about.version is None:
        pytest.skip(about.reason or "")
    done = surroundings.run(
        "-m", "suites.hosts", "--peer", peer, f"--job={encoded(HostsJob(CARTPOLE, 2, UNLIMITED, 32))}", "--seconds=0.2",
        python=registry.python(peer), timeout=300,
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["benchmark"] for each in results] == list(SPEED_BENCHMARKS)
    if about.version is None:  # no wheel exists for this Python
        assert {each["outcome"] for each in results} == {"skipped"}
    else:
        least = {"staleness": 0}
        assert all(
            each["outcome"] == "ok" and each["value"] >= least.get(each["benchmark"], 1e-9) for each in results
        ), done.stdout + done.stderr


@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize("failure", [KILLED, CUT, POWER])
def test_our_learner_continues_after_a_failure(surroundings, failure):
    results = failed(surroundings, "cpprb_impl[Ray]", failure)
    assert [each["outcome"] for each in results] == ["ok", "ok"], results


@needs_hosts
@pytest.mark.slow
def test_a_learner_without_its_only_server_has_no_figure(surroundings):
    results = failed(surroundings, "cpprb[replay server]", KILLED)
    assert {(each["outcome"], each["reason"]) for each in results} == {
        ("failed", "the learner waited for longer than 15 s")
    }


def failed(surroundings, peer: str, failure: str) -> list[dict]:
    job = f"--job={encoded(HostsJob(CARTPOLE, 2, UNLIMITED, 32, failure))}"
    done = surroundings.run("-m", "suites.hosts", "--peer", peer, job, "--seconds=0.5")
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_hosts
@pytest.mark.slow
def test_a_learner_gets_rows_of_every_data_host():
    with ExitStack() as stack:
        hosts = measure.Measured("cpprb_impl[Ray]", HostsJob(CARTPOLE, 2, UNLIMITED, 512), stack)
        before = [hosts.lan.sent_bytes(host) for host in hosts.data]
        found = hosts.learner.do("check", seconds=1.0, batch=512)
        assert not found["wrong"]
        sent = [hosts.lan.sent_bytes(host) - old for host, old in zip(hosts.data, before, strict=True)]
    row_bytes = sum(column[0].nbytes for column in workloads.load(CARTPOLE).columns.values())
    assert min(sent) > 0.4 * found["rows"] * row_bytes
