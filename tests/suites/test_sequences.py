"""The sequences suite: sampling sequences of consecutive steps."""

import itertools
import json
import math
import multiprocessing

import numpy as np
import pytest

from adapters import registry
from adapters.peers.cpprb_impl_sequences import CpprbImplSequences, CpprbImplSharedSequences
from results.record import load
from suites.gate.builds import Side
from suites.gate.launches import declare
from suites.gate.measure import PEERS
from suites.gate.sources import WORKING_TREE, Checkout
from suites.runner.filling import TooSlow
from suites.runner.timing import Stopwatch
from suites.runner.turns import OtherSideEndedError
from suites.sequences import measure as suite
from suites.sequences.buffers import STEPS_A_CALL, FullBuffer, recorded_steps
from suites.sequences.measure import measure
from suites.sequences.spec import (
    ADDS,
    AFTER_ADDS,
    FLEET,
    IMAGES,
    KINDS,
    MEMORY,
    PRIORITIZED,
    PRIORITIZED_FLEET,
    PROFILES,
    SAMPLE,
    SHAPES,
    SMALL,
    SUITE,
    WORKLOAD,
    SequenceShape,
    SequencesJob,
)
from tests.adapters import sequence_peers as peers
from tests.reports.synthetic_runs import empty_run

OURS = "cpprb_impl[sequences]"
ALONE = (SAMPLE, AFTER_ADDS, PRIORITIZED)
JOBS = [SequencesJob(kind, SequenceShape(8, 12, 4), 2_000) for kind in ALONE]
FLEETS = [SequencesJob(kind, SequenceShape(8, 12), 2_000, explorers=2, rows=20) for kind in (FLEET, PRIORITIZED_FLEET)]


def measured(monkeypatch, kind, jobs=JOBS):
    monkeypatch.setattr(registry, "sequences_class", lambda _name: kind)
    return {each.benchmark: each for each in measure(kind.name, jobs, Stopwatch(0.001))}


def test_a_sound_buffer_gets_a_figure_for_each_benchmark(monkeypatch):
    results = measured(monkeypatch, peers.Sound)
    assert {name: each.outcome for name, each in results.items()} == dict.fromkeys(ALONE, "ok")
    assert all(each.value > 0 for each in results.values())
    assert results[SAMPLE].params == {"sequences": 8, "steps": 12, "burn_in": 4, "capacity": 2_000}
    assert results[AFTER_ADDS].params["adds"] == ADDS


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (peers.CrossesEnds, "crosses the ends of episodes"),
        (peers.CrossesTheWritePosition, "not consecutive steps"),
        (peers.DrawsOneTooOften, "uneven"),
        (peers.NeverDrawsLastSteps, "uneven"),
        (peers.MixesRows, "different added rows"),
    ],
)
def test_a_broken_promise_has_no_time(kind, reason, monkeypatch):
    for result in measured(monkeypatch, kind, JOBS[:2]).values():
        assert result.outcome == "wrong" and reason in result.reason and result.value is None


@pytest.mark.parametrize("kind", [peers.JoinsEpisodes, peers.RepeatsFirstSteps, peers.CountsSequences])
def test_a_stated_behaviour_is_timed(kind, monkeypatch):
    results = measured(monkeypatch, kind, JOBS[:2])
    assert {name: each.outcome for name, each in results.items()} == {SAMPLE: "ok", AFTER_ADDS: "ok"}


def test_a_peer_without_priorities_keeps_its_other_figures(monkeypatch):
    results = measured(monkeypatch, peers.HasNoPriorities)
    assert {name: each.outcome for name, each in results.items()} == {
        SAMPLE: "ok",
        AFTER_ADDS: "ok",
        PRIORITIZED: "skipped",
    }


def test_samples_that_are_drawn_before_the_adds_have_no_time_after_them(monkeypatch):
    results = measured(monkeypatch, peers.DrawsAhead)
    assert results[SAMPLE].outcome == results[PRIORITIZED].outcome == "ok"
    assert results[AFTER_ADDS].outcome == "skipped" and "drawn ahead" in results[AFTER_ADDS].reason


def test_ignored_priorities_leave_the_uniform_figures(monkeypatch):
    results = measured(monkeypatch, peers.IgnoresPriorities)
    assert {name: each.outcome for name, each in results.items()} == {
        SAMPLE: "ok",
        AFTER_ADDS: "ok",
        PRIORITIZED: "wrong",
    }
    assert "not by priority" in results[PRIORITIZED].reason


class SkipsInLongSequences(peers.SkipsAStep):
    """Is sound with the sequences of the checks, and skips a step in those that are timed."""

    def read(self, steps, streams):
        return super().read(steps, streams) if steps.shape[1] > 16 else peers.Sound.read(self, steps, streams)


class PadsLongSequences(peers.Sound):
    def read(self, steps, streams):
        batch = super().read(steps, streams)
        for column in batch.values():
            column[:, 16:] = 0
        return batch


class JoinsAnySteps(peers.JoinsEpisodes):
    """Continues long sequences with any steps of random episodes."""

    def beginnings(self):
        return self.all_steps() if self.spec.length > 16 else super().beginnings()


class JoinsTooEarly(peers.JoinsEpisodes):
    """Leaves out the last steps of episodes in long sequences."""

    def end_of(self, step, stream):
        end = super().end_of(step, stream)
        return max(step, end - 1) if self.spec.length > 16 else end


class JoinsAgainstTheContract(peers.JoinsEpisodes):
    """Joins episodes in long sequences."""

    sequences = peers.Sound.sequences

    def find_ends(self):
        return super().find_ends() if self.spec.length > 16 else peers.Sound.find_ends(self)

    def read(self, steps, streams):
        return super().read(steps, streams) if steps.shape[1] > 16 else peers.Sound.read(self, steps, streams)


class RepeatsInLongSequences(peers.RepeatsFirstSteps):
    """Repeats any step at the beginning of long sequences."""

    def read(self, steps, streams):
        is_long = steps.shape[1] > 16
        return (
            peers.Sound.read(self, np.maximum(steps, steps[:, 2:3]), streams)
            if is_long
            else super().read(steps, streams)
        )

    def find_ends(self):
        return peers.Sound.find_ends(self) if self.spec.length > 16 else super().find_ends()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (SkipsInLongSequences, "are not as promised, 'one episode'"),
        (PadsLongSequences, "padding: 16 of 16 sequences are padded with zeros, against the contract"),
        (JoinsAnySteps, "are not as promised, 'continues with random episodes'"),
        (JoinsTooEarly, "are not as promised, 'continues with random episodes'"),
        (JoinsAgainstTheContract, "are not as promised, 'one episode'"),
        (RepeatsInLongSequences, "are not as promised, 'one episode'"),
    ],
)
def test_the_sequences_that_are_timed_are_checked_too(kind, reason, monkeypatch):
    job = SequencesJob(SAMPLE, SequenceShape(16, 64), 2_000)
    result = measured(monkeypatch, kind, [job])[SAMPLE]
    assert result.outcome == "wrong" and reason in result.reason


def test_the_recording_is_added_as_one_endless_stream():
    buffer = FullBuffer(peers.Sound, JOBS[0])
    obs, rows = [], recorded_steps().columns["obs"]
    for columns in itertools.islice(buffer.coming(ADDS), 3 * len(rows) // ADDS):
        obs.append(columns["obs"])
    assert len(np.unique(np.concatenate(obs), axis=0)) == len(np.unique(rows, axis=0))
    first = int(np.flatnonzero((rows == obs[0][0]).all(axis=(1, 2)))[0])
    assert first == 2_400  # after the three calls that filled the buffer
    assert np.array_equal(np.concatenate(obs)[: len(rows) - first], rows[first:])
    assert len(rows) % STEPS_A_CALL == len(rows) % ADDS == 0
    assert recorded_steps().columns["done"][-1]


def test_episodes_of_the_recording_are_short_and_long():
    ends = np.flatnonzero(recorded_steps().columns["done"][:, 0])
    lengths = np.diff(np.concatenate([[-1], ends]))
    assert lengths.min() < 16 and lengths.max() > 400
    longest = max(shape.steps for shape in SHAPES)
    assert np.maximum(0, lengths - longest + 1).sum() > 0.4 * lengths.sum()


def test_a_buffer_too_slow_to_fill_has_a_reason(monkeypatch):
    with pytest.raises(TooSlow, match="too slow for 2,000 steps"):
        FullBuffer(peers.Sound, SequencesJob(SAMPLE, SHAPES[0], 2_000, -math.inf))
    result = measured(monkeypatch, peers.Sound, [SequencesJob(SAMPLE, SHAPES[0], 2_000, -math.inf)])[SAMPLE]
    assert result.outcome == "skipped"


class OnAClock(peers.Sound):
    """A buffer whose calls take known times, on the clock of the suite."""

    now = 0.0

    def add(self, columns):
        super().add(columns)
        OnAClock.now += 1.0

    def sample(self, batch_size):
        OnAClock.now += 0.25
        return super().sample(batch_size)

    @classmethod
    def perf_counter(cls):
        return cls.now


class OtherSideEnded(Stopwatch):
    def per_call(self, run):
        raise OtherSideEndedError


def test_a_figure_that_the_other_side_of_a_gate_lacks_is_left_out(monkeypatch):
    monkeypatch.setattr(registry, "sequences_class", lambda _name: peers.Sound)
    assert [each.benchmark for each in measure("sound", JOBS, OtherSideEnded(0.001))] == [AFTER_ADDS]


def test_a_gate_times_sequences_in_turns():
    sides = [Side(name, Checkout(WORKING_TREE)) for name in ("base", "head")]
    (pair,) = (pair for pair in declare(empty_run(), sides, PEERS) if pair.suite == "sequences")
    assert pair.launch.turns and {key[1] for key in pair.keys} == {SAMPLE, PRIORITIZED}


def test_adding_is_not_timed(monkeypatch):
    buffer = FullBuffer(OnAClock, JOBS[0])
    monkeypatch.setattr(suite, "time", OnAClock)
    assert suite.sample_after_adds(buffer, 8, Stopwatch(0.001)) == 0.25


@pytest.mark.parametrize("profile", PROFILES)
def test_jobs_that_share_a_buffer_are_adjacent_in_every_profile(profile):
    settings = PROFILES[profile]
    groups = [key for key, _ in itertools.groupby(settings.alone, key=lambda job: job.buffer)]
    assert len(groups) == len(set(groups))
    uniform = {(kind, shape) for shape in settings.shapes for kind in settings.uniform}
    assert {(job.kind, job.shape) for job in settings.alone} == uniform | {(kind, SMALL) for kind in settings.small}


def test_an_unknown_kind_of_job_is_refused():
    with pytest.raises(ValueError, match=r"kind of job must be one of sample, .*, got 'samples'"):
        SequencesJob("samples", SHAPES[0], 100)


def test_a_fleet_gets_the_rates_of_learner_and_explorers(monkeypatch, surroundings):
    results = measured(monkeypatch, CpprbImplSharedSequences, FLEETS)
    assert results.keys() == {*KINDS[FLEET], *KINDS[PRIORITIZED_FLEET]}
    assert all(each.outcome == "ok" and each.value > 0 for each in results.values()), results
    assert surroundings.leftovers() == []


class TornBesideExplorers(CpprbImplSharedSequences):
    """Returns rows of two steps while other processes run."""

    @property
    def sample(self):
        draw = super().sample

        def torn(batch_size):
            batch = draw(batch_size)
            if multiprocessing.active_children():
                batch["obs"] = np.roll(batch["obs"], 1, axis=1)
            return batch

        return torn


def test_sequences_that_are_torn_by_explorers_have_no_rate(monkeypatch, surroundings):
    for result in measured(monkeypatch, TornBesideExplorers, FLEETS).values():
        assert result.outcome == "wrong" and "different added rows" in result.reason, result
    assert surroundings.leftovers() == []


class WastefulSequences(CpprbImplSequences):
    """Holds a thousand bytes more per step."""

    def __init__(self, spec):
        super().__init__(spec)
        self.held = np.ones((spec.capacity, 1000), np.uint8)


MEMORY_JOB = SequencesJob(MEMORY, SequenceShape(8, 12), 40_000)
# In a fresh process, since other tests leave memory behind.
MEMORY_OF_BOTH = (
    "from suites.sequences.measure import memory; from tests.suites import test_sequences as these;"
    "kinds = these.CpprbImplSequences, these.WastefulSequences;"
    "print(*(memory(kind, these.MEMORY_JOB) for kind in kinds))"
)


def test_memory_is_that_of_one_more_step(surroundings):
    done = surroundings.run("-c", MEMORY_OF_BOTH)
    less, more = map(float, done.stdout.split())
    assert 40 < less < 80 and more - less == pytest.approx(1000, rel=0.02)


def test_pictures_are_stored_without_next_observations():
    steps = recorded_steps(IMAGES)
    assert steps.fields["obs.image"].shape == (64, 64, 3) and not any(name.startswith("next") for name in steps.fields)
    assert steps.steps % STEPS_A_CALL == steps.steps % ADDS == 0


def test_pictures_are_measured_like_other_steps(monkeypatch):
    job = SequencesJob(SAMPLE, SequenceShape(4, 12), 1_600, workload=IMAGES)
    result = measured(monkeypatch, CpprbImplSequences, [job])[SAMPLE]
    assert (result.outcome, result.workload) == ("ok", IMAGES) and result.value > 0


def test_only_shared_buffers_are_measured_in_fleets():
    run = empty_run()
    launches = SUITE.launches(run, PROFILES["quick"], SUITE.peers(), [WORKLOAD])
    fleets = {record.peer for launch in launches for record in launch.records if record.benchmark in KINDS[FLEET]}
    assert fleets == {"cpprb_impl[shared sequences]"}


def test_a_launch_measures_the_jobs_that_it_is_given(surroundings):
    job = '{"kind": "prioritized", "shape": {"sequences": 4, "steps": 8, "burn_in": 0}, "capacity": 1600}'
    done = surroundings.fork("-m", "suites.sequences", "--peer", OURS, "--seconds=0.001", "--job", job)
    results = list(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, done.stderr
    assert [(each["benchmark"], each["outcome"]) for each in results] == [(PRIORITIZED, "ok")]


def test_a_run_declares_and_measures_the_suite_like_the_others(surroundings):
    out = surroundings.folder / "run.json"
    chosen = (f"--peers={OURS}", "--suites=sequences", f"--out={out}")
    done = surroundings.fork("-m", "suites.run", "--profile=tiny", *chosen)
    assert done.returncode == 0, done.stderr
    run = load(out)
    assert [(record.benchmark, record.params) for record in run.records] == [
        (name, job.params) for job in PROFILES["tiny"].alone for name in KINDS[job.kind]
    ]
    assert all(record.ok and record.better == "higher" for record in run.records)
    assert {record.unit for record in run.records if record.benchmark in ALONE} == {"sequences/s"}
    assert [workload.name for workload in run.workloads] == SUITE.workloads(PROFILES["tiny"])
