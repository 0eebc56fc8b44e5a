"""Hosts made of this machine, and the suite that measures buffers on them."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack

import numpy as np
import pytest

from adapters import registry
from adapters.base import Columns, Spec
from adapters.hosts import HostsAdapter
from suites import workloads
from suites.hosts.measure import Measured
from suites.hosts.role import User
from suites.hosts.spec import BENCHMARKS, CARTPOLE, UNLIMITED, HostsJob
from suites.lan import STATES, Lan, why_not
from suites.lan.worker import Worker, WorkerLost

needs_hosts = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@needs_hosts
def test_hosts_have_networks_that_can_be_cut_and_leave_nothing():
    with Lan(2) as lan:
        states = set(STATES.glob("hosts-*"))
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
    assert not states & set(STATES.glob("hosts-*"))


@needs_hosts
def test_a_worker_that_dies_is_named():
    with Lan(1) as lan:
        worker = Worker(lan, 1, "no.such.module", [], {})
        with pytest.raises(WorkerLost, match=r"no\.such\.module on host 1 died"):
            worker.do("anything")


class Memory:
    """A buffer that returns the rows it got, or rows put together from two of them."""

    def __init__(self, torn: bool) -> None:
        self.torn = torn

    def sample(self, batch_size: int) -> Columns:
        columns = workloads.load(CARTPOLE).columns
        drawn = {name: column[:batch_size].astype(np.float64) for name, column in columns.items()}
        if self.torn:
            drawn["rew"], drawn["obs"][0] = drawn["rew"][:, None], columns["obs"][77]
        return {**drawn, "indexes": np.arange(batch_size)}

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        assert len(indexes) == len(priorities)


@pytest.mark.parametrize("torn", [False, True])
def test_rows_that_were_never_added_are_counted(torn):
    recorded = workloads.load(CARTPOLE)
    user = User(HostsAdapter, Spec(10, recorded.fields), recorded.columns, "", "")
    user.adapter = Memory(torn)
    assert user.count_wrong(samples=3, batch=20) == (3 if torn else 0)


@needs_hosts
@pytest.mark.slow
def test_a_learner_gets_rows_of_every_data_host():
    with ExitStack() as stack:
        hosts = Measured("cpprb_impl[Ray]", HostsJob(CARTPOLE, 2, UNLIMITED, 512), stack)
        before = [hosts.lan.sent_bytes(host) for host in hosts.data]
        assert hosts.learner.do("count_wrong", samples=100, batch=512) == 0
        sent = [hosts.lan.sent_bytes(host) - old for host, old in zip(hosts.data, before, strict=True)]
    row_bytes = sum(column[0].nbytes for column in workloads.load(CARTPOLE).columns.values())
    assert min(sent) > 0.4 * 100 * 512 * row_bytes


@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize("peer", registry.over_hosts())
def test_every_cell_of_a_buffer_over_hosts_has_a_figure(surroundings, peer):
    done = surroundings.run("-m", "suites.hosts", "--peer", peer, "--job=CartPole-v1:2:none:32", "--seconds=0.2")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["benchmark"] for each in results] == list(BENCHMARKS)
    if registry.describe(peer).version is None:  # there is no wheel for this Python
        assert {each["outcome"] for each in results} == {"skipped"}
    else:
        assert all(each["outcome"] == "ok" and each["value"] > 0 for each in results), done.stdout + done.stderr
