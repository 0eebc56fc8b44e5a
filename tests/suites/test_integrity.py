"""The integrity suite finds the faults of buffers that are broken on purpose, and none in ours."""

import json
import re
import shlex

import numpy as np
import pytest

from adapters import registry
from adapters.base import Unavailable
from reports.build import build
from results.record import load
from suites.integrity import certified
from suites.integrity import jobs as integrity_jobs
from suites.integrity.spec import BENCHMARKS

ROWS = (np.repeat([1, 2], 20), np.tile(np.arange(20) + 2**21, 2))  # numbers that do not fit into one word


def batch() -> dict[str, np.ndarray]:
    return certified.rows(*ROWS)


def test_intact_rows_identify_their_writer():
    reading = certified.read({name: column.reshape(40, -1) for name, column in batch().items()})
    assert reading.whole.all() and not reading.torn.any() and not reading.unwritten.any()
    assert np.array_equal(reading.writer, ROWS[0]) and np.array_equal(reading.number, ROWS[1])


@pytest.mark.parametrize("field", certified.FIELDS)
@pytest.mark.parametrize("other", ["another row's", "what no row has"])
def test_a_row_with_one_word_of_another_is_torn(field, other):
    rows = batch()
    column = rows[field].reshape(40, -1)  # a view
    wrong = np.flatnonzero(column[:, -1] != column[7, -1])[0]
    column[7, -1] = column[wrong, -1] if other == "another row's" else column[7, -1] == 0
    reading = certified.read(rows)
    assert reading.torn.nonzero()[0].tolist() == [7] and reading.whole.sum() == 39


def test_unwritten_memory_is_distinguished_from_a_torn_row():
    rows = batch()
    for column in rows.values():
        column[[3, 5]] = 0
    rows["rew"][5] = 1
    reading = certified.read(rows)
    assert reading.unwritten.nonzero()[0].tolist() == [3] and reading.torn.nonzero()[0].tolist() == [5]


def test_noise_is_torn():
    rows = batch()
    rows["obs"][:4] = [[np.nan] * 4, [np.inf] * 4, [-1.0] * 4, [2.0**30] * 4]
    rows["act"][4:8] = [0, -1, 2**31 - 1, -(2**31)]
    assert certified.read(rows).torn.nonzero()[0].tolist() == list(range(8))


def test_a_weight_identifies_the_priority_by_which_a_row_was_drawn():
    rows, priorities = batch(), certified.priorities(*ROWS)
    assert set(priorities.tolist()) == {1.0, 2.0, 4.0}
    rows["rew"][0] += 1  # a torn row, whose weight belongs to no row
    weights = 3 / priorities
    assert certified.stale(certified.read(rows), weights).tolist() == [False] * 39
    weights[[5, 9]] *= [2, 0.5]
    weights[11] = np.nan
    assert certified.stale(certified.read(rows), weights).nonzero()[0].tolist() == [4, 8, 10]


class Shelf:
    """A buffer that contains given rows, does not change, and draws evenly."""

    contract = registry.adapter_class("cpprb").contract

    def __init__(self, writers, numbers):
        self.rows, self.priorities = certified.rows(writers, numbers), certified.priorities(writers, numbers)
        self.random = np.random.default_rng(0)

    def sample(self, size):
        drawn = self.random.integers(0, len(self.priorities), size)
        return {name: column[drawn] for name, column in self.rows.items()} | {
            "indexes": drawn,
            "weights": 1 / self.priorities[drawn],
        }

    def update_priorities(self, indexes, priorities):
        pass


@pytest.mark.parametrize(("stored", "lost", "twice"), [(np.arange(40), 0, 0), ([*range(37), 3, 4, 4], 3, 2)])
def test_missing_and_duplicated_rows_are_counted(stored, lost, twice):
    writers, numbers = ROWS
    learner = integrity_jobs.CheckingLearner(Shelf(writers[stored], numbers[stored]))
    assert integrity_jobs.settle(learner, writers, numbers) == (lost, twice)
    assert learner.torn == learner.unwritten == learner.stale == 0


#: Runs `python -m suites.integrity` with this time for the races on each fresh buffer.
OPENING = "import sys; from suites.integrity import measure; measure.OPENING_SECONDS = {}; sys.exit(measure.main())"


def launch(surroundings, peer, *options, opening=0.1):
    arguments = (f"--peer={peer}", "--seconds=0.4", "--patience=3", *options)
    done = surroundings.fork("-c", OPENING.format(opening), *arguments, timeout=300)
    results = {result["benchmark"]: result for result in map(json.loads, done.stdout.splitlines())}
    assert list(results) == list(BENCHMARKS), done.stderr
    assert surroundings.leftovers() == []
    return done.returncode, results


@pytest.mark.parametrize(
    ("peer", "wrong", "seconds", "opening"),
    [
        ("torn", {"torn", "stale"}, 0.4, 0.01),
        ("counts-before-writing", {"unwritten"}, 0.1, 0.1),  # while each of several buffers is fresh
        ("loses-rows", {"lost"}, 0.3, 0.01),  # in every seventh call
        ("duplicates-rows", {"lost", "duplicated"}, 0.1, 0.01),
    ],
)
def test_a_broken_buffer_is_detected(peer, wrong, seconds, opening, surroundings):
    status, results = launch(surroundings, peer, "--seed=7", f"--seconds={seconds}", opening=opening)
    assert status == 1
    for name in wrong:
        result = results[name]
        assert result["outcome"] == "wrong" and result["value"] > 0
        found, command = result["reason"].splitlines()
        assert re.match(r"[\d,]+ of [\d,]+ (added )?rows ", found)
        options = shlex.split(command)
        assert options[:3] == ["python", "-m", "suites.integrity.measure"]
        assert f"--peer={peer}" in options and "--seed=7" in options


KILLS = """
from adapters import registry
from adapters.base import Unavailable
from suites.integrity import measure as integrity
from suites.runner.explorers import giving_up
setting = integrity.IntegritySettings(seconds=0.2, patience=2)
adapter = registry.adapter_class("waits-for-the-dead").make(setting.spec)
with giving_up(60):
    print(integrity.kills(adapter, setting)["killed"].wrong)
"""


def test_a_learner_that_waits_for_a_dead_process_is_detected(surroundings):
    done = surroundings.fork("-c", KILLS)
    # An explorer that is killed while it holds the buffer's lock also blocks the other explorers.
    found = r"after kill 1, the learner( and \d of 2 explorers)? did not continue within 2 s\n"
    assert re.fullmatch(found, done.stdout), done.stderr
    assert surroundings.leftovers() == []


def test_a_buffer_under_one_lock_has_no_torn_row_and_loses_none(surroundings):
    """The complement of the control: a sound buffer passes."""
    _, results = launch(surroundings, "plain", "--seconds=0.2", opening=0.03)
    for name in ("torn", "unwritten", "starvation", "lost", "duplicated"):
        assert results[name]["outcome"] == "ok", results[name]


RACE = """
import sys
from adapters import registry
from adapters.base import Unavailable
from suites.integrity import measure as integrity
setting = integrity.IntegritySettings(seconds=0.2)
adapter = registry.adapter_class(sys.argv[1]).make(setting.spec)
with integrity.giving_up(60):
    found = integrity.race(adapter, setting)
print([found[name].wrong or found[name].skipped for name in ("torn", "unwritten", "stale")])
"""


@pytest.mark.parametrize("peer", ["cpprb[MP behind one lock]", "cpprb[PER behind one lock]"])
def test_a_fault_within_one_process_is_not_attributed_to_sharing(peer, surroundings):
    """Even in one process, a call of cpprb that wraps around the ring gives its last rows wrong priorities."""
    try:
        registry.adapter_class(peer).version()
    except Unavailable as error:
        pytest.skip(str(error))
    done = surroundings.fork("-c", RACE, peer)
    assert done.stdout == "[None, None, None]\n", done.stderr
    assert surroundings.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_our_buffer_passes(lock, surroundings):
    status, results = launch(surroundings, f"cpprb_impl[lock={lock}]")
    assert status == 0 and {result["outcome"] for result in results.values()} == {"ok"}, results


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "stale"), [("reverb", "ok"), ("rllib[Ray actor]", "wrong")])
def test_buffers_in_a_server_can_be_used_from_many_processes(peer, stale, surroundings):
    _, results = launch(surroundings, peer, "--explorers=2", "--capacity=64")
    if results["torn"]["outcome"] == "skipped":
        pytest.skip(results["torn"]["reason"])
    outcomes = {name: result["outcome"] for name, result in results.items()}
    assert outcomes == dict.fromkeys(BENCHMARKS, "ok") | {"stale": stale}, results


def run(surroundings, *peers):
    out = surroundings.folder / "run.json"
    brief = (
        "import sys; from dataclasses import replace; from suites import run;"
        "from suites.integrity.spec import PROFILES;"
        "PROFILES['tiny'] = replace(PROFILES['tiny'], seconds=0.4); sys.exit(run.main(sys.argv[1:]))"
    )
    arguments = ("--profile=tiny", "--suites=integrity", f"--peers={','.join(peers)}", f"--out={out}")
    more = {"FAULTY_PEERS": surroundings.variables["FAULTY_PEERS"] + " cpprb_impl[odd]=loses-rows"}
    return surroundings.run("-c", brief, *arguments, more=more), load(out)


def test_findings_about_other_peers_are_reported_but_do_not_fail_the_run(surroundings):
    done, made = run(surroundings, "loses-rows", "unavailable")
    assert done.returncode == 0, done.stderr
    assert made.declared == 2 * len(BENCHMARKS) and not made.missing()
    (lost,) = (each for each in made.records if (each.peer, each.benchmark) == ("loses-rows", "lost"))
    assert lost.status == "wrong" and lost.samples and f"--seed={lost.params['seed']}" in lost.reason
    assert {each.status for each in made.records if each.peer == "unavailable"} == {"skipped"}
    html, markdown = (path.read_text(encoding="utf-8") for path in build(made, surroundings.folder))
    for page in (html.replace("&#39;", "'"), markdown):
        for line in lost.reason.splitlines():
            assert line in page


def test_a_finding_about_our_buffer_fails_the_run(surroundings):
    done, made = run(surroundings, "cpprb_impl[odd]")
    assert done.returncode == 1
    assert ("lost", "wrong") in {(each.benchmark, each.status) for each in made.records}


def test_a_peer_that_kills_its_explorers_is_a_finding(surroundings):
    done, made = run(surroundings, "kills-explorers")
    assert done.returncode == 0 and "failed" in {each.status for each in made.records}
