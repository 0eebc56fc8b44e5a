"""Every shared buffer can be measured by the suites for several processes, however its explorers start."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adapters import registry
from adapters.behaviours import GivenPriority
from suites.apex.spec import ApexJob
from suites.integrity.measure import race
from suites.integrity.spec import IntegritySettings
from suites.runner.explorers import giving_up
from suites.runner.jobs import encoded
from suites.sharing.spec import SharingJob

SERVED = ["reverb", "rllib[Ray actor]"]  # buffers outside SHARED that this environment has


def results(surroundings, *arguments: str) -> dict[str, dict]:
    done = surroundings.run("-m", *arguments)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if found and found[0]["outcome"] == "skipped":
        pytest.skip(found[0]["reason"])
    return {result["benchmark"]: result for result in found}


def test_no_name_is_missing_or_listed_twice():
    names = registry.together()
    assert {*registry.SHARED, *SERVED, "torchrl[shared]"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("peer", SERVED)
def test_apex_measures_a_buffer_behind_a_server(peer, surroundings):
    job = f"--job={encoded(ApexJob('CartPole-v1', 2, 100, 1000, 0, 0))}"
    found = results(surroundings, "suites.apex", f"--peer={peer}", job, "--seconds=1")
    assert {"explorers", "learner"} <= set(found), found
    for name in ("explorers", "learner"):
        assert found[name]["outcome"] == "ok" and found[name]["value"] > 0, found
    assert surroundings.leftovers() == []


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("peer", SERVED)
def test_sharing_measures_a_buffer_behind_a_server(peer, surroundings):
    """Two buffers in one process, one uniform and one prioritized."""
    both = SharingJob("fleet", "CartPole-v1", 1000, 100, 2), SharingJob("step", "CartPole-v1", 1000, 1)
    jobs = [f"--job={encoded(job)}" for job in both]
    found = results(surroundings, "suites.sharing", f"--peer={peer}", *jobs, "--seconds=0.5")
    for name in ("adds", "samples", "slowest", "step"):
        assert found[name]["outcome"] == "ok" and found[name]["value"] > 0, found
    assert surroundings.leftovers() == []


def test_a_peer_that_accepts_no_priority_in_add_has_no_failure():
    setting = IntegritySettings(explorers=2, seconds=0.1)
    adapter = registry.adapter_class("cpprb_impl[lock=buffer]").make(setting.spec)
    adapter.contract = replace(adapter.contract, given_priority=GivenPriority.NOT_POSSIBLE)
    try:
        with giving_up(30):
            found = race(adapter, setting)
    finally:
        adapter.close()
    assert found["stale"].skipped and found["stale"].wrong is None
    assert found["torn"].skipped is None
