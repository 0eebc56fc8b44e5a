"""The sequences suite: what adding costs in a buffer with sequences."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from adapters import registry
from adapters.peers.cpprb_impl_sequences import CpprbImplSequences, CpprbImplSharedSequences
from suites.runner.timing import Stopwatch
from suites.sequences import adding
from suites.sequences.measure import measure
from suites.sequences.spec import ADD, FLEET_ADD, KINDS, PROFILES, SUITE, SequenceShape, SequencesJob
from tests.reports.synthetic_runs import empty_run

SHAPE = SequenceShape(8, 12)
ALONE = SequencesJob(ADD, SHAPE, 2_000, rows=20)
FLEET = SequencesJob(FLEET_ADD, SHAPE, 2_000, explorers=2, rows=20)


def measured(monkeypatch, kind, job):
    monkeypatch.setattr(registry, "sequences_class", lambda _name: kind)
    return {each.benchmark: each for each in measure(kind.name, [job], Stopwatch(0.001))}


@pytest.mark.parametrize(
    ("kind", "job"), [(CpprbImplSequences, ALONE), (CpprbImplSharedSequences, ALONE), (CpprbImplSharedSequences, FLEET)]
)
def test_adding_has_a_rate_and_how_much_of_the_plain_rate_it_is(kind, job, monkeypatch, surroundings):
    results = measured(monkeypatch, kind, job)
    assert results.keys() == KINDS[job.kind].keys()
    assert all(each.outcome == "ok" and each.value > 0 for each in results.values()), results
    assert {each.params["rows"] for each in results.values()} == {20}
    assert surroundings.leftovers() == []


class Arm:
    """Stands for a full buffer; keeps the first row of each call, which takes so many seconds on the tests' clock."""

    clock = 0.0

    def __init__(self, seconds, after_call=lambda: None):
        self.seconds, self.after_call, self.added = seconds, after_call, []
        self.adapter = self
        self.steps = SimpleNamespace(columns={"step": np.arange(100)}, steps=100)

    @staticmethod
    def prepared(columns):
        return columns

    def add_prepared(self, calls):
        for call in calls:
            self.added.append(int(call["step"][0]))
            Arm.clock += self.seconds
        self.after_call()

    @classmethod
    def perf_counter(cls):
        return cls.clock


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(adding, "time", Arm)


@pytest.mark.usefixtures("clock")
def test_rates_are_those_of_calls_of_the_buffers():
    turns = []
    arms = Arm(0.5, lambda: turns.append(0)), Arm(0.25, lambda: turns.append(1))
    assert adding.alone(arms, SequencesJob(ADD, SHAPE, 100, rows=20), Stopwatch(0.1)) == (40.0, 0.5)
    assert arms[0].added == arms[1].added and len(arms[0].added) > 5
    assert turns[2:8] == [0, 1, 1, 0, 0, 1]


def test_a_ratio_is_taken_within_a_round():
    assert adding.figures([(1.0, 0.5), (4.0, 2.0), (2.0, 1.0), (2.0, 9.0), (8.0, 4.0)])[1] == 0.5


@pytest.mark.usefixtures("clock")
def test_an_explorer_adds_consecutive_steps_to_the_buffer_whose_turn_it_is():
    turn, shared = SimpleNamespace(value=0), SimpleNamespace(start=lambda: None, stop=SimpleNamespace(value=False))
    shared.added = [SimpleNamespace(value=0)] * 2
    taken = []

    def change() -> None:
        taken.append(turn.value)
        turn.value = 1 - turn.value if len(taken) % 3 == 0 else turn.value
        shared.stop.value = len(taken) == 40

    arms = Arm(1e-5, change), Arm(1e-5, change)
    adding.explore(arms, turn, SequencesJob(FLEET_ADD, SHAPE, 100, explorers=2, rows=5), 1, shared)
    for arm in arms:
        assert arm.added[0] == 50 and len(arm.added) > 20
        assert all((late - early) % 100 == 5 for early, late in pairwise(arm.added))
    assert taken[:7] == [0, 0, 0, 1, 1, 1, 0]
    assert shared.added[1].value == 5 * sum(len(arm.added) for arm in arms)


class SkipsBesideExplorers(CpprbImplSharedSequences):
    """Loses every second call of an explorer."""

    def add_prepared(self, calls):
        super().add_prepared(calls[::2])


def test_sequences_that_are_wrong_beside_explorers_have_no_rate(monkeypatch, surroundings):
    for result in measured(monkeypatch, SkipsBesideExplorers, FLEET).values():
        assert result.outcome == "wrong" and "not as promised" in result.reason, result
    assert surroundings.leftovers() == []


def test_only_adding_is_measured_by_its_profile_and_only_of_buffers_that_have_both_forms():
    run, settings = empty_run(), PROFILES["adding"]
    SUITE.launches(run, settings, [*SUITE.peers(), "flashbax[trajectories]"], SUITE.workloads(settings))
    assert {record.benchmark for record in run.records} == {*KINDS[ADD], *KINDS[FLEET_ADD]}
    assert {record.peer for record in run.records} == {"cpprb_impl[sequences]", "cpprb_impl[shared sequences]"}


def test_large_buffers_are_measured_in_launches_of_their_own():
    run, settings = empty_run(), PROFILES["full"]
    launches = SUITE.launches(run, settings, ["cpprb_impl[sequences]"], SUITE.workloads(settings))
    of_launches = [{record.params["capacity"] for record in launch.records} for launch in launches]
    assert of_launches == [{10**6}, {10**7}, {10**5}]
