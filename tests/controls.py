"""Each negative control, and the quick test that catches it: a broken variant that no quick test uses guards nothing.

Before you remove or shorten a quick test, see here what the quick tests must still catch. `tests/test_controls.py`
compares the table with the sources: no control is missing, and each test exists, names its control and is not slow.
"""

from __future__ import annotations

_CONFORMANCE = "tests/suites/test_conformance.py::test_a_broken_buffer_is_detected"
_PROTOCOL = "tests/cpprb_impl/test_model.py::test_wrong_buffers_are_detected"
_ADD = "tests/fuzz/test_add.py::test_the_oracle_detects_a_wrong_buffer"
_CONSTRUCT = "tests/fuzz/test_construct.py::test_the_oracle_detects_a_wrong_buffer"
_INTEGRITY = "tests/suites/test_integrity.py::test_a_broken_buffer_is_detected"
_APEX = "tests/suites/test_apex.py::test_a_bad_buffer_gets_a_reason_instead_of_a_figure"
_HANGING = "tests/suites/test_conformance.py::test_a_hanging_call_is_reported_and_the_next_checks_run"
_CHECKS = "tests/adapters/test_checks.py"
_PROBES = "tests/check/test_probes.py"

#: Buffers with one wrong answer each (tests/suites/odd_answers.py), which the conformance suite must detect.
ANSWERS = dict.fromkeys(
    (
        *("Rounding", "Swapping", "Widening", "Flattening", "OverwritingNewest", "Viewing", "ViewingLater", "Exposing"),
        *("Keeping", "Favouring", "Uniform", "AlphaTwice", "DeafToUpdates", "DeafToTheLast", "WithoutLast"),
        *("OneForTheNew", "DeafToGiven", "OverBatch", "WrongBeta", "Distinct", "Seedless", "Obstinate", "Careful"),
        *("Inventing", "Strict", "TakingNan"),
    ),
    _CONFORMANCE,
)
#: Mutants that the state machine must distinguish from the model of the buffer (tests/cpprb_impl/test_model.py).
MUTANTS = dict.fromkeys(
    (
        *("ShiftsAtTheWrap", "ForgetsBreaks", "ChangesThoughItFails", "ForgetsWhatWaits", "GivesItsOwnArrays"),
        *("LosesPrioritiesOnLoad", "ForgetsWhereItStoodOnLoad", "KeepsTheMaximum", "ForgetsWhatIsNew"),
        "WeighsWithinTheBatch",
    ),
    _PROTOCOL,
)
#: Misbehaving peers (tests/suites/shim/faulty_peers.py), which the suites must detect and survive.
PEERS = {
    "mixes-rows": "tests/suites/test_run.py::test_a_wrong_answer_has_no_time",
    "ignores-priorities": "tests/suites/test_run.py::test_wrong_priorities_have_no_time",
    "slow-add": "tests/suites/test_throughput.py::test_a_learner_step_is_timed_whole_and_each_size_has_its_own_cell",
    "slow-sample": "tests/suites/test_sharing.py::test_only_the_learners_calls_are_counted",
    "counts-held": "tests/suites/test_throughput.py::test_the_newest_batches_are_held",
    "no-priorities": "tests/suites/test_latency.py::test_a_peer_without_priorities_has_no_update",
    "dies-on-update": "tests/suites/test_run.py::test_a_killed_launch_keeps_its_earlier_cells_and_reports_the_signal",
    "unavailable": "tests/suites/test_run.py::test_a_peer_that_the_platform_lacks_is_skipped",
    "hangs": "tests/suites/test_run.py::test_an_interrupted_run_keeps_its_records_and_leaves_nothing_behind",
    "keeps-observations": (
        "tests/suites/test_memory.py::test_memory_of_rows_and_of_additional_copies_is_measured_at_each_fill_level"
    ),
    "leaks": "tests/suites/test_memory.py::test_a_leak_is_found_with_its_bytes_per_round",
    "caches": "tests/suites/test_memory.py::test_growth_that_ends_is_not_a_leak",
    "peaks": "tests/suites/test_memory.py::test_the_peak_while_sampling_includes_temporary_memory",
    "uses-a-server": "tests/suites/test_memory.py::test_memory_of_another_process_counts",
    "torn": _INTEGRITY,
    "counts-before-writing": _INTEGRITY,
    "loses-rows": _INTEGRITY,
    "duplicates-rows": _INTEGRITY,
    "waits-for-the-dead": "tests/suites/test_integrity.py::test_a_learner_that_waits_for_a_dead_process_is_detected",
    "kills-explorers": _APEX,
    "deadlocked": _APEX,
    "favours-one": "tests/suites/test_sharing.py::test_an_explorer_that_gets_fewer_turns_lowers_the_slowest_share",
    "starves-others": (
        "tests/suites/test_sharing.py::test_a_starved_explorer_is_a_failure_but_the_other_figures_are_kept"
    ),
    "records-build": "tests/suites/test_gate.py::test_an_unchanged_build_passes_and_each_side_measures_its_own_build",
    "wrong-build": "tests/suites/test_gate.py::test_a_head_that_returns_wrong_answers_is_a_regression",
    "waits-when-empty": _HANGING,
    "dies-on-nan": _HANGING,
    "panics-on-nan": _HANGING,
}
#: Buffers that the check before each timing must detect (tests/adapters/test_checks.py).
WRONG = {
    "MixesUpRows": f"{_CHECKS}::test_mixed_up_rows_are_detected",
    "DrawsUniformly": f"{_CHECKS}::test_uniform_draws_are_detected",
    "IgnoresUpdates": f"{_CHECKS}::test_ignored_updates_are_detected",
    "SetsOnAddOnly": f"{_CHECKS}::test_ignored_updates_are_detected",
    "WrongWeights": f"{_CHECKS}::test_wrong_weights_are_detected",
    "KeepsTheOldest": f"{_CHECKS}::test_wrong_overwriting_is_detected",
    "NeverDrawsSome": f"{_CHECKS}::test_wrong_overwriting_is_detected",
}
#: Buffers that the oracles of the fuzzers must detect.
FUZZED = {
    "LeavesARow": _ADD,
    "KeepsOneRow": _ADD,
    "Wraps": _CONSTRUCT,
    "HalfAFile": _CONSTRUCT,
    "loads_half": "tests/fuzz/test_file.py::test_a_loader_that_changes_the_buffer_before_it_fails_is_detected",
}
#: Buffers with one fault each (tests/check/planted.py), which the probes of a check must find.
PLANTED = dict.fromkeys(
    (
        *("RingTooShort", "RingTooEarly", "NeverNewest", "NeverLastSlot", "NeverFirstSlot"),
        *("NeverLastByPriority", "DrawsUnwritten", "ActionOfNext", "DoneShifted", "NextObsOfNextSlot"),
        *("RewardOfAnotherOnceFull", "CountsTooMany", "KeepsOldest", "OverwritesAnyRow", "FavoursFirstHalf"),
        *("FavoursOlder", "RoundsDraws", "DrawsNeighbours", "GoesOnInTurns"),
        *("BatchStopsAtEnd", "BatchKeepsFirst", "BatchCountsOnce"),
        *("BatchWrapsRewardsOnly", "RequestsInBlocks", "SqueezesOneRow", "ZeroAsOne", "WeightsOfZero"),
        *("RewardsBy16Bits", "CountsIn16Bits", "DrawsBy16Bits"),
        *("AllZeroPicksLast", "AlphaTwice", "AlphaTwiceForNewRows", "NoAlphaInUpdates"),
        *("WeightsOverCapacity", "WeightsOverMean", "WeightsOverPast", "WeightsOverUnwritten"),
        *("BetaIgnored", "SumsDrift"),
        *("SumsDriftIn64Bits", "DuplicatesAddUp", "KeepsOldPriority", "BatchKeepsOldPriority"),
        *("DeepcopyShares", "DeepcopySharesTree", "PickleLosesPosition", "PickleLosesPriorities"),
        *("SaveLosesGenerator", "SaveLosesDone", "WorkersDrawAlike", "BroadcastsShapes"),
        *("StoresBeforeItRefuses", "TruncatesFloats", "ReadsText", "TakesCapacityZero", "WrapsIndexes"),
        *("RepeatsPriorities", "UpdatesUntilItRefuses", "DrawsForNegativeSize", "DrawsForSizeZero"),
        "Unlocked",
        *("KeepsMemory", "KeepsDescriptors", "KeepsSegments"),
    ),
    f"{_PROBES}::test_a_planted_fault_is_found",
)
#: The same for the checks that the conformance suite makes, too.
PLANTED |= dict.fromkeys(
    (
        *("DrawsThreeToOne", "DeafToUpdates", "OneForTheNew", "DeafToGiven", "RoundsRewards"),
        *("NarrowsObservations", "ReshapesObservations", "ReusesBatch", "KeepsReferences", "Seedless"),
        *("UpdatesSlots", "InventsRows", "PadsWithZeros", "TakesAnyPriority"),
    ),
    f"{_PROBES}::test_a_fault_that_the_conformance_suite_finds_has_a_script",
)
QUICK = ANSWERS | MUTANTS | PEERS | WRONG | FUZZED | PLANTED

#: Controls that only slow tests use. Quick tests with other controls detect the same faults.
SLOW = {
    "leaves-processes": "tests/suites/test_run.py::test_leftovers_of_a_peer_are_recorded_but_are_not_a_failure",
    "slow-build": "tests/suites/test_gate.py::test_a_slow_down_is_found",
}
