"""Each probe finds nothing in a sound buffer, and finds the one fault of a buffer that is wrong in only that way. The
script that repeats the fault fails for that buffer, and passes for the sound one."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from adapters.behaviours import Meaning
from adapters.contract import Contract
from suites.check.bridge import adapter_of
from suites.check.checks import OVER_ADAPTER, SHOWN
from suites.check.functions import BadFunctions, NotApplicable, load
from suites.check.probes import capacities, copies, independence, input, leaks, many_rows, priorities, threads
from suites.check.probes.children import HANGS
from suites.check.probes.probing import USUAL_DRAWS, BufferPool
from suites.check.probes.tracked import CHARACTERS, WrongRows, certified
from suites.check.reproduction import MOST_LINES, script
from suites.check.scripts import SCRIPTS
from suites.check.subject import CheckSettings, Subject
from tests.check import planted, variants
from tests.check.plain import PlainBuffer

FOLDER = Path(__file__).resolve().parent
MODULES = (capacities, independence, many_rows, priorities, copies, input, threads, leaks)
PROBE_OF = {check: probe for module in MODULES for probe, checks in module.PROBES.items() for check in checks}
BEHAVIOURS = {check: kind for module in MODULES for check, kind in module.CHECKS.items()}
PART_OF = {check: part for part, checks in OVER_ADAPTER.items() for check in checks}
SETTING = CheckSettings(draws=2_000, processes=2)
USUAL = replace(SETTING, draws=USUAL_DRAWS)
NOT_QUICK = {many_rows.many}  # probes that a quick check does without

#: planted fault, and the check that must find it
CONTROLS = [
    ("RingTooShort", "stored_rows"),
    ("RingTooEarly", "stored_rows"),
    ("NeverNewest", "stored_rows"),
    ("NeverLastSlot", "stored_rows"),
    ("NeverFirstSlot", "stored_rows"),
    ("NeverLastByPriority", "stored_rows"),
    ("DrawsUnwritten", "stored_rows"),
    ("ActionOfNext", "stored_rows"),
    ("DoneShifted", "stored_rows"),
    ("NextObsOfNextSlot", "stored_rows"),
    ("RewardOfAnotherOnceFull", "stored_rows"),
    ("KeepsOldest", "stored_rows"),
    ("OverwritesAnyRow", "stored_rows"),
    ("CountsTooMany", "stored_count"),
    ("FavoursFirstHalf", "even_rows"),
    ("FavoursOlder", "even_rows"),
    ("RoundsDraws", "even_rows"),
    ("DrawsNeighbours", "independent_rows"),
    ("GoesOnInTurns", "independent_rows"),
    ("BatchStopsAtEnd", "batch_adds"),
    ("BatchKeepsFirst", "batch_adds"),
    ("BatchCountsOnce", "batch_adds"),
    ("BatchWrapsRewardsOnly", "batch_adds"),
    ("RequestsInBlocks", "request_sizes"),
    ("SqueezesOneRow", "request_sizes"),
    ("RewardsBy16Bits", "many_rows"),
    ("CountsIn16Bits", "many_rows"),
    ("DrawsBy16Bits", "many_rows"),
    ("ZeroAsOne", "zero_priority"),
    ("WeightsOfZero", "zero_priority"),
    ("AllZeroPicksLast", "all_zero"),
    ("AlphaTwice", "alpha_of_updates"),
    ("NoAlphaInUpdates", "alpha_of_updates"),
    ("AlphaTwiceForNewRows", "alpha_of_new_rows"),
    ("WeightsOverCapacity", "weights_over"),
    ("WeightsOverUnwritten", "weights_over"),
    ("WeightsOverMean", "weights_over"),
    ("WeightsOverPast", "weights_over"),
    ("BetaIgnored", "beta_argument"),
    ("SumsDrift", "many_updates"),
    ("SumsDriftIn64Bits", "huge_ratio"),
    ("DuplicatesAddUp", "duplicate_updates"),
    ("KeepsOldPriority", "slot_priority"),
    ("BatchKeepsOldPriority", "slot_priority"),
    ("DeepcopyShares", "deepcopy"),
    ("DeepcopySharesTree", "deepcopy"),
    ("PickleLosesPosition", "pickle"),
    ("PickleLosesPriorities", "pickle"),
    ("SaveLosesGenerator", "save"),
    ("SaveLosesDone", "save"),
    ("WorkersDrawAlike", "forked_workers"),
    ("WorkersDrawAlike", "spawned_workers"),
    ("BroadcastsShapes", "wrong_shape"),
    ("StoresBeforeItRefuses", "wrong_shape"),
    ("TruncatesFloats", "float_for_integer"),
    ("ReadsText", "wrong_dtype"),
    ("TakesCapacityZero", "bad_capacity"),
    ("RepeatsPriorities", "priorities_length"),
    ("DrawsForNegativeSize", "sample_negative"),
    ("DrawsForSizeZero", "sample_zero"),
    ("Unlocked", "threads"),
    ("WrapsIndexes", "index_out_of_range"),
    ("WrapsIndexes", "negative_index"),
    ("UpdatesUntilItRefuses", "index_out_of_range"),
    ("KeepsMemory", "leaks"),
    ("KeepsDescriptors", "leaks"),
    ("KeepsSegments", "leaks"),
]
#: planted fault, and the check of the conformance suite that must find it
OLD_CONTROLS = [
    ("RoundsRewards", "round_trip"),
    ("NarrowsObservations", "dtype"),
    ("ReshapesObservations", "shape"),
    ("KeepsOldest", "ring_order"),
    ("ReusesBatch", "returned_batch"),
    ("KeepsReferences", "references"),
    ("DrawsThreeToOne", "uniform"),
    ("DeafToUpdates", "prioritized"),
    ("OneForTheNew", "new_row_priority"),
    ("DeafToGiven", "given_priority"),
    ("WeightsOverMean", "weights"),
    ("Seedless", "seed"),
    ("UpdatesSlots", "stale_update"),
    ("InventsRows", "empty"),
    ("PadsWithZeros", "batch_over_stored"),
    ("TakesAnyPriority", "nan_priority"),
    ("TakesAnyPriority", "negative_priority"),
    ("TakesAnyPriority", "infinite_priority"),
]


def subject(fault: str = "", setting: CheckSettings = SETTING) -> Subject:
    source = (FOLDER / "plain_functions.py").read_text()
    if fault:
        source = source.replace("tests.check.plain import PlainBuffer", f"tests.check.planted import {fault}")
    return Subject(load(source, f"{fault or 'plain'}_functions.py"), setting)


def setting_of(probe: object) -> CheckSettings:
    return USUAL if probe in NOT_QUICK else SETTING


def runs(program: str, folder: Path) -> bool:
    """Return whether a script passes in a folder of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(FOLDER.parents[1])},
        capture_output=True,
        timeout=100,
    )
    return done.returncode == 0


def test_every_check_has_a_control():
    assert set(BEHAVIOURS) == set(PROBE_OF) == {check for _, check in CONTROLS} <= set(SHOWN)
    assert set(SCRIPTS) == {check for _, check in OLD_CONTROLS}
    faulty = {
        check for check, kind in Contract.CHECKS.items() if any(each.meaning is not Meaning.SOUND for each in kind)
    }
    assert set(SCRIPTS) == faulty


@pytest.mark.parametrize("probe", dict.fromkeys(PROBE_OF.values()), ids=lambda probe: probe.__name__)
def test_a_sound_buffer_passes(probe):
    for check, seen in probe(subject(setting=setting_of(probe))).items():
        assert BEHAVIOURS[check](seen.word).meaning is Meaning.SOUND, seen
        assert seen.looked_at > 0 and 0 < len(seen.evidence) <= CHARACTERS and not seen.script


@pytest.mark.parametrize(("fault", "check"), CONTROLS)
def test_a_planted_fault_is_found(fault, check, tmp_path):
    probe = PROBE_OF[check]
    seen = probe(subject(fault, setting_of(probe)))[check]
    assert BEHAVIOURS[check](seen.word).meaning is not Meaning.SOUND, seen
    body = seen.script.splitlines()
    program = script(subject(fault).functions, body)
    assert len(program.splitlines()) <= MOST_LINES and len(seen.evidence) <= CHARACTERS
    assert not runs(program, tmp_path)
    assert runs(script(subject().functions, body), tmp_path)


def test_a_quick_check_adds_no_many_rows():
    with pytest.raises(NotApplicable, match="67,600 rows are added only in a usual or long check"):
        many_rows.many(subject())


def test_a_buffer_that_is_too_slow_for_many_rows_is_not_judged():
    with pytest.raises(NotApplicable, match=r"adding is too slow: 100 rows in \d+\.\d seconds"):
        many_rows.many(subject("RewardsBy16Bits", replace(USUAL, seconds=1e-6)))


def test_many_rows_are_added_until_the_time_is_over(monkeypatch):
    monkeypatch.setattr(many_rows, "FEWEST", 0)
    seen = many_rows.many(subject(setting=replace(USUAL, seconds=1e-6)))["many_rows"]
    each = "200 rows added, 256 drawn"
    assert seen.evidence == f"uniform: {each}; by priority: {each}" and seen.looked_at == 512


class KeepsPowersOfTwo(PlainBuffer):
    def __init__(self, capacity, *arguments):
        super().__init__(1 << (capacity - 1).bit_length(), *arguments)


def test_a_buffer_that_keeps_more_of_many_rows_is_sound():
    source = subject().functions.source.replace("from tests.check.plain import PlainBuffer as Buffer", "")
    seen = many_rows.many(Subject(load(source, "keeps_more.py", KeepsPowersOfTwo), USUAL))["many_rows"]
    assert seen.word == "only the newest rows"


def test_a_segment_that_is_in_use_elsewhere_is_not_left_by_the_buffers():
    with closing(SharedMemory(create=True, size=4096)) as segment:
        try:
            assert leaks.leak(subject())["leaks"].word == "nothing"
        finally:
            segment.unlink()


def test_pages_of_files_are_not_memory_of_the_process(tmp_path):
    """They come and go as the system likes, and would hide a leak, or look like one."""
    (tmp_path / "file").write_bytes(bytes(1 << 24))
    before = leaks.own_memory()
    with open(tmp_path / "file", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert not any(mapped[:: mmap.PAGESIZE])
        assert abs(leaks.own_memory() - before) < 1 << 23
    with mmap.mmap(-1, 1 << 24, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:  # an array could reuse freed memory
        kept[:: mmap.PAGESIZE] = b"1" * (len(kept) // mmap.PAGESIZE)
        assert leaks.own_memory() - before > len(kept) / 2


@pytest.mark.parametrize(("fault", "check"), OLD_CONTROLS)
def test_a_fault_that_the_conformance_suite_finds_has_a_script(fault, check, tmp_path):
    pool = BufferPool(adapter_of(subject(fault)), SETTING)
    seen = PART_OF[check](pool)[check]
    pool.close()
    assert Contract.CHECKS[check](seen.word).meaning is not Meaning.SOUND, seen
    program = script(subject(fault).functions, SCRIPTS[check](subject(fault)))
    assert len(program.splitlines()) <= MOST_LINES
    assert not runs(program, tmp_path)
    assert runs(script(subject().functions, SCRIPTS[check](subject())), tmp_path)


def annealing(kind: type, *, takes_priority: bool = True) -> Subject:
    """Return a subject whose `sample` takes no beta. Without priorities of new rows, these are set by many updates."""
    source = (FOLDER / "plain_functions.py").read_text()
    source = source.replace("size, beta=None", "size").replace("size, beta)", "size)")
    if not takes_priority:
        source = source.replace(", priority=None", "").replace(", priority=priority", "")
    return Subject(
        load(source.replace("from tests.check.plain import PlainBuffer as Buffer", ""), "own.py", kind), SETTING
    )


def weights_words(of: Subject) -> list[str]:
    pool = BufferPool(adapter_of(of), SETTING)
    PART_OF["prioritized"](pool)  # which draws many batches from buffers that may be used again
    seen = [PART_OF["weights"](pool)["weights"], priorities.weights(of)["weights_over"]]
    pool.close()
    return [each.word for each in seen]


@pytest.mark.parametrize("kind", [variants.Annealing, variants.AnnealingSlowly, variants.AnnealingFast])
@pytest.mark.parametrize("takes_priority", [True, False])
def test_a_beta_that_a_buffer_raises_on_its_own_is_no_fault(kind, takes_priority):
    assert weights_words(annealing(kind, takes_priority=takes_priority)) == [
        "over the buffer",
        "the largest of the buffer",
    ]


class ConstantBeta(PlainBuffer):
    """Ignores the beta that was asked for."""

    def weights(self, slots, beta):
        return super().weights(slots, 0.7)


class AlwaysOne(PlainBuffer):
    def weights(self, slots, beta):
        return super().weights(slots, 1.0)


class FallingBeta(variants.Annealing):
    step = -1e-3


class AnnealingOverMean(planted.WeightsOverMean, variants.Annealing):
    pass


class AnnealingOverCapacity(PlainBuffer):
    def weights(self, slots, beta):
        self.beta = min(1.0, self.beta + 1e-3)
        return (self.tree.leaves[slots] / self.tree.total * self.capacity) ** -self.beta


@pytest.mark.parametrize("kind", [ConstantBeta, FallingBeta, AnnealingOverMean])
def test_another_beta_or_scale_is_a_fault_where_beta_may_rise(kind):
    words = weights_words(annealing(kind))
    assert words[0] == "another formula"
    assert priorities.WeightedSet(words[1]).meaning is Meaning.FAULT


def test_a_beta_of_one_from_the_start_is_a_fault():
    assert priorities.weights(annealing(AlwaysOne))["weights_over"].word == priorities.WeightedSet.OTHER


def test_a_rising_beta_hides_no_wrong_number_of_rows():
    assert priorities.weights(annealing(AnnealingOverCapacity))["weights_over"].word == priorities.WeightedSet.CAPACITY


def test_weights_that_are_not_normalised_are_no_fault():
    assert weights_words(annealing(variants.NotNormalised)) == ["not normalised", "nothing"]


def without_beta(fault: str = "") -> Subject:
    source = subject(fault).functions.source.replace("size, beta=None", "size").replace("size, beta)", "size)")
    source = source.replace("alpha, beta)", "alpha)", 1).replace("alpha, beta)", "alpha, 0.4)")
    return Subject(load(source, f"without_beta_{fault}.py"), SETTING)


@pytest.mark.parametrize("fault", ["", "WeightsOfZero", "WeightsOverMean"])
def test_weights_without_a_beta_are_not_compared_with_the_formula(fault):
    with pytest.raises(NotApplicable, match="neither make nor sample has an argument beta"):
        priorities.weights(without_beta(fault))


def test_weights_of_zero_are_a_fault_without_a_beta(tmp_path):
    faulty = without_beta("WeightsOverUnwritten")
    seen = priorities.weights(faulty)["weights_over"]
    assert seen.word == priorities.WeightedSet.UNUSABLE and "20 rows added to a buffer of 32" in seen.evidence
    body = seen.script.splitlines()
    assert not runs(script(faulty.functions, body), tmp_path)
    assert runs(script(without_beta().functions, body), tmp_path)


CLIPPED = "EPS, LARGEST = 0.01, 1.0"
PRIORITY_CHECKS = ("prioritized", "new_row_priority", "given_priority", "weights", "stale_update", "infinite_priority")
#: Faults without effect on priorities from 0.01 to 1: they need 0, large ratios, or a largest priority other than 1.
NEVER_WITHIN_BOUNDS = {
    *("WeightsOfZero", "AllZeroPicksLast", "AlphaTwiceForNewRows", "SumsDrift", "SumsDriftIn64Bits"),
    *("OneForTheNew", "TakesAnyPriority"),
}


def clipping(fault: str = "", constants: str = CLIPPED) -> Subject:
    source = subject().functions.source.replace("from tests.check.plain import PlainBuffer as Buffer", constants)
    bases = (getattr(planted, fault), variants.Clipping) if fault else (variants.Clipping,)
    return Subject(load(source, f"clipping_{fault}.py", type("Clipped", bases, {})), SETTING)


def meaning_of(check: str, of: Subject) -> Meaning:
    if check in PROBE_OF:
        return BEHAVIOURS[check](PROBE_OF[check](of)[check].word).meaning
    pool = BufferPool(adapter_of(of), SETTING)
    seen = PART_OF[check](pool)[check]
    pool.close()
    return Contract.CHECKS[check](seen.word).meaning


@pytest.mark.parametrize("check", [*priorities.CHECKS, *PRIORITY_CHECKS, "deepcopy", "index_out_of_range"])
def test_a_buffer_that_clips_priorities_as_stated_is_sound(check):
    assert meaning_of(check, clipping()) is Meaning.SOUND


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (fault, check)
        for fault, check in [*CONTROLS, *OLD_CONTROLS]
        if check in {*priorities.CHECKS, *PRIORITY_CHECKS} and fault not in NEVER_WITHIN_BOUNDS
    ],
)
def test_a_fault_of_priorities_is_found_although_they_are_clipped(fault, check):
    assert meaning_of(check, clipping(fault)) is not Meaning.SOUND


def test_clipped_priorities_are_a_fault_unless_stated():
    pool = BufferPool(adapter_of(clipping(constants="EPS = 0.01")), SETTING)
    seen = PART_OF["prioritized"](pool)["prioritized"]
    pool.close()
    assert Contract.CHECKS["prioritized"](seen.word).meaning is Meaning.FAULT
    assert "(as if priorities were clipped at 1)" in seen.evidence


def test_other_faults_are_not_said_to_be_clipping():
    pool = BufferPool(adapter_of(subject("DeafToUpdates")), SETTING)
    seen = PART_OF["prioritized"](pool)["prioritized"]
    pool.close()
    assert seen.word == "not by priority" and "clipped" not in seen.evidence


def test_a_half_written_row_is_a_fault_only_if_it_can_be_drawn():
    plain = "Buffer(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, prioritized"
    for kind, word in (planted.StoresBeforeItRefuses, "changes other rows"), (variants.HalfWritesSpareSlot, "refused"):
        source = annealing(kind).functions.source.replace("seed, prioritized, alpha, beta):", "seed):")
        source = source.replace(plain, plain.replace("prioritized", "False")).replace("alpha, beta)", "1.0, 1.0)")
        functions = load(source.replace("def update", "def _update"), "half.py", kind)
        assert input.shapes(Subject(functions, SETTING))["wrong_shape"].word == word


def with_promise(fault: str, over: str) -> Subject:
    return Subject(load(f"{subject(fault).functions.source}\nWEIGHTS_OVER = {over!r}\n", "promised.py"), SETTING)


@pytest.mark.parametrize(
    ("fault", "over"), [("", "buffer"), ("WeightsOverMean", "batch mean"), ("WeightsOverPast", "past"), ("", "past")]
)
def test_a_promise_about_weights_is_kept(fault, over):
    seen = priorities.weights(with_promise(fault, over))["weights_over"]
    assert seen.word == priorities.WeightedSet.STATED, seen


@pytest.mark.parametrize(("fault", "over"), [("", "batch"), ("WeightsOverMean", "buffer"), ("", "batch sum")])
def test_a_promise_about_weights_that_is_broken_is_a_fault(fault, over, tmp_path):
    promising = with_promise(fault, over)
    seen = priorities.weights(promising)["weights_over"]
    assert seen.word == priorities.WeightedSet.NOT_STATED and f"by the {over}" in seen.evidence
    program = script(promising.functions, seen.script.splitlines())
    assert len(program.splitlines()) <= MOST_LINES and not runs(program, tmp_path)


def test_an_unknown_promise_about_weights_is_refused():
    with pytest.raises(BadFunctions, match=r"WEIGHTS_OVER in promised.py must be one of buffer, .*, got 'all'"):
        with_promise("", "all")


@pytest.mark.parametrize(
    ("constant", "said"),
    [
        ("EPS = -0.1", "EPS in bounds.py must be a number of at least 0, got -0.1"),
        ("EPS = None", "EPS in bounds.py must be a number of at least 0, got None"),
        ("LARGEST = 0", "LARGEST in bounds.py must be a positive number, got 0"),
        ("LARGEST = float('nan')", "LARGEST in bounds.py must be a positive number, got nan"),
    ],
)
def test_an_impossible_bound_of_priorities_is_refused(constant, said):
    with pytest.raises(BadFunctions, match=re.escape(said)):
        load(f"{subject().functions.source}\n{constant}", "bounds.py")


def test_a_row_that_mixes_two_observations_is_said_to():
    with pytest.raises(WrongRows, match=r"obs is 6 in a row whose obs is 5 \(in 1 of 2 rows\)"):
        certified({"obs": np.array([[4.0, 4, 4, 4], [5, 5, 6, 5]])})


PANICKING = """
class PanicException(BaseException):
    pass


def panic_if(condition, about):
    if condition:
        raise PanicException(about)
"""


def test_a_panic_of_rust_code_is_no_death():
    """The exception of pyo3 is no `Exception`, so it would end the process of the probes."""
    plain = subject().functions.source
    plain = plain.replace("    return Buffer(", "    panic_if(capacity < 1, 'range')\n    return Buffer(")
    plain = plain.replace(
        "    buffer.update(", "    panic_if(max(priorities) != max(priorities), 'NaN')\n    buffer.update("
    )
    panicking = Subject(load(PANICKING + plain, "panicking.py"), SETTING)
    assert input.capacities(panicking)["bad_capacity"].word == "refused"
    seen = PART_OF["nan_priority"](BufferPool(adapter_of(panicking), SETTING))["nan_priority"]
    assert seen.word == "panics" and "PanicException: NaN, which `except Exception` does not catch" in seen.evidence


def test_a_seed_is_checked_beside_a_tensorflow_with_another_api(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace())
    seen = PART_OF["seed"](BufferPool(adapter_of(subject("Seedless")), SETTING))["seed"]
    assert Contract.CHECKS["seed"](seen.word).meaning is not Meaning.SOUND


def test_a_library_that_hangs_after_a_fork_says_nothing_about_spawned_workers(monkeypatch):
    """JAX hangs in forked processes, in which the probe draws; it does not in spawned ones."""
    monkeypatch.setattr(copies, "Child", lambda *_: SimpleNamespace(answer=lambda _: HANGS))
    assert copies.forked(subject())["forked_workers"].word == "hang"
    with pytest.raises(NotApplicable, match="none is spawned"):
        copies.spawned(subject())


def test_threads_are_checked_only_if_asked_for():
    with pytest.raises(NotApplicable, match="only if asked for"):
        threads.torn(Subject(subject().functions, CheckSettings()))
