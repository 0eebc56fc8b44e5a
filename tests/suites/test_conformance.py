"""Every conformance check passes a sound buffer and detects one that is wrong in only that way."""

import json
from dataclasses import replace

import pytest

from adapters.behaviours import BadPriority, References, Seed
from adapters.contract import Contract
from results.record import load
from suites.check.checks import OVER_ADAPTER
from suites.check.probes.probing import BufferPool, fit
from suites.conformance import measure as conformance
from suites.conformance.spec import BENCHMARKS, ConformanceSettings
from tests.suites import odd_answers
from tests.suites.odd_answers import Sound

PART_OF = {check: part for part, checks in OVER_ADAPTER.items() for check in checks}

#: buffer, the check that must detect it, and the observed behaviour
CONTROLS = [
    ("Rounding", "round_trip", "as 32 bits"),
    ("Swapping", "round_trip", "changed"),
    ("Widening", "dtype", "wider"),
    ("Flattening", "shape", "changed"),
    ("OverwritingNewest", "ring_order", "another order"),
    ("Viewing", "returned_batch", "next sample changes it"),
    ("ViewingLater", "returned_batch", "next sample changes it"),
    ("Exposing", "returned_batch", "writing to it changes the buffer"),
    ("Keeping", "references", "keeps references"),
    ("Favouring", "uniform", "uneven"),
    ("Uniform", "prioritized", "not by priority"),
    ("AlphaTwice", "prioritized", "not by priority"),
    ("DeafToUpdates", "prioritized", "not by priority"),
    ("DeafToTheLast", "prioritized", "not by priority"),
    ("WithoutLast", "prioritized", "never the last slot"),
    ("OneForTheNew", "new_row_priority", "a fixed one"),
    ("DeafToGiven", "given_priority", "none on add"),
    ("OverBatch", "weights", "over the batch"),
    ("WrongBeta", "weights", "another formula"),
    ("Distinct", "replacement", "without"),
    ("Distinct", "prioritized_replacement", "without"),
    ("Seedless", "seed", "none"),
    ("Obstinate", "seed", "always the same"),
    ("Careful", "stale_update", "ignored"),
    ("Inventing", "empty", "gives garbage"),
    ("Strict", "batch_over_stored", "refused"),
    ("TakingNan", "nan_priority", "poisons"),
    ("TakingNan", "negative_priority", "poisons"),
    ("TakingNan", "infinite_priority", "poisons"),
]


def seen(kind, check, seed=0):
    pool = BufferPool(kind, ConformanceSettings(seed=seed))
    try:
        return PART_OF[check](pool)[check]
    finally:
        pool.close()


def test_every_check_is_declared_and_has_a_control():
    assert set(PART_OF) == set(BENCHMARKS) == set(Contract.CHECKS) == {check for _, check, _ in CONTROLS}
    assert set(conformance.BY_PRIORITY) < set(Contract.CHECKS)


@pytest.mark.parametrize("check", Contract.CHECKS)
def test_a_sound_buffer_passes(check):
    found = seen(Sound, check)
    assert found.word == Sound.contract.behaviours[check], found
    assert found.looked_at > 0 and found.evidence


@pytest.mark.parametrize(("name", "check", "word"), CONTROLS)
def test_a_broken_buffer_is_detected(name, check, word):
    kind = getattr(odd_answers, name)
    found = seen(kind, check)
    assert found.word == word, found
    if word != "ignored":  # better than the behaviour that Sound states for a stale update
        assert conformance.judge(kind.contract, check, found, "again")["outcome"] == "wrong"


def test_a_stated_fault_is_wrong_but_a_stated_hazard_is_accepted():
    found = seen(odd_answers.WithoutLast, "prioritized")
    stated = type("Stated", (Sound,), {"contract": conformance.registry.adapter_class("baselines-style").contract})
    assert conformance.judge(stated.contract, "prioritized", found, "again")["outcome"] == "wrong"
    stale = seen(Sound, "stale_update")
    judged = conformance.judge(Sound.contract, "stale_update", stale, "again")
    assert judged["outcome"] == "ok" and judged["hazard"] and judged["seen"].startswith("changes the new row: ")


def test_a_seed_may_do_more_than_promised_but_not_less():
    racing = type("Racing", (Sound,), {"contract": replace(Sound.contract, seed=Seed.NONE)})
    own = seen(Sound, "seed")
    assert own.word == "own seed"
    assert conformance.judge(racing.contract, "seed", own, "again")["outcome"] == "ok"
    assert conformance.judge(Sound.contract, "seed", replace(own, word="none"), "again")["outcome"] == "wrong"


def test_a_peer_that_is_better_than_its_contract_is_not_a_finding():
    promised = replace(Sound.contract, infinite_priority=BadPriority.POISONS, references=References.KEPT)
    modest = type("Modest", (Sound,), {"contract": promised})
    for check in ("infinite_priority", "references"):
        judged = conformance.judge(modest.contract, check, seen(Sound, check), "again")
        assert judged["outcome"] == "ok" and not judged["hazard"] and judged["seen"].endswith("contract is out of date")


WRONG, OK = {"outcome": "wrong", "seen": "uneven"}, {"outcome": "ok", "seen": "even"}


@pytest.mark.parametrize(
    ("first", "later", "expected", "repetitions"),
    [
        (OK, [], OK, []),
        (WRONG, [WRONG], WRONG, [1]),
        (WRONG, [OK, WRONG], WRONG, [1, 2]),
        (WRONG, [OK, OK], OK, [1, 2]),
        (WRONG, [{"outcome": "failed", "reason": "hung"}], WRONG, [1]),
    ],
)
def test_a_wrong_result_is_withdrawn_only_if_both_repetitions_are_sound(first, later, expected, repetitions):
    seeds = []

    def repeat(number):
        seeds.append(number)
        return {"uniform": later[number - 1], "other": OK}

    found = conformance._confirmed({"uniform": first, "other": OK}, lambda _check, report: report, repeat)
    assert found == {"uniform": expected, "other": OK} and seeds == repetitions


@pytest.mark.parametrize("shares", [[1, 1, 1, 1], [1, 10, 100, 1e6]])
def test_a_right_distribution_passes_and_one_without_a_row_fails(shares):
    import numpy as np

    shares = np.array(shares) / np.sum(shares)
    counts = np.random.default_rng(0).multinomial(100_000, shares)
    assert fit(counts, shares) > 1e-3
    gone = counts.copy()
    gone[1] = 0
    assert fit(gone, np.array(shares)) < (1e-6 if shares[1] > 1e-3 else 1.1)


def launched(surroundings, peer, *options):
    done = surroundings.fork("-m", "suites.conformance", f"--peer={peer}", "--patience=1.5", *options)
    found = {each["benchmark"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert set(found) == set(BENCHMARKS), done.stderr
    assert surroundings.leftovers() == []
    return done.returncode, found


@pytest.mark.parametrize(
    ("peer", "check", "word"),
    [
        ("waits-when-empty", "empty", "waits"),
        ("dies-on-nan", "nan_priority", "kills the process"),
        ("panics-on-nan", "nan_priority", "panics"),
    ],
)
def test_a_hanging_call_is_reported_and_the_next_checks_run(peer, check, word, surroundings):
    status, found = launched(surroundings, peer, "--draws=1000")
    assert status == 1
    assert found[check]["outcome"] == "wrong" and found[check]["seen"].startswith(f"{word}: ")
    assert found["infinite_priority"]["seen"].startswith("refused: ")
    assert found["round_trip"]["seen"].startswith("bit for bit: ")


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["cpprb_impl", "cpprb_impl[lock=none]", "cpprb_impl[lock=critical]"])
def test_our_buffer_passes(peer, surroundings):
    status, found = launched(surroundings, peer)
    assert status == 0 and {each["outcome"] for each in found.values()} == {"ok"}, found


def test_findings_about_other_peers_are_recorded_but_are_not_a_failure(surroundings):
    out = surroundings.folder / "run.json"
    arguments = ("--profile=tiny", "--suites=conformance", "--peers=baselines-style,unavailable", f"--out={out}")
    done = surroundings.fork("-m", "suites.run", *arguments)
    assert done.returncode == 0, done.stderr
    run = load(out)
    assert run.declared == 2 * len(BENCHMARKS) and not run.missing()
    mine = {each.benchmark: each for each in run.records if each.peer == "baselines-style"}
    assert mine["prioritized"].status == "wrong" and mine["prioritized"].seen.startswith("never the last slot: ")
    assert mine["references"].ok and mine["references"].hazard and mine["references"].samples[0].value > 0
    assert {each.status for each in run.records if each.peer == "unavailable"} == {"skipped"}
