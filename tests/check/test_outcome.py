"""What the buffer did wrong is a fault, and an error of the check itself is not."""

from __future__ import annotations

import pytest

from adapters.base import WrongAnswer
from suites.check import worker
from suites.check.bridge import adapter_of
from suites.check.checks import CheckPart
from suites.check.outcome import HANGS, CheckOutcome, CheckVerdict, outcome, with_causes
from suites.check.probes.probing import BufferPool, Overwritten
from suites.check.probes.tracked import MIXED, WrongRows
from tests.check.test_probes import subject


def of_probe(error: Exception) -> CheckOutcome:
    """Return the outcome of a check whose probe raises this."""

    def probe(_):
        raise error

    checked = subject()
    pool = BufferPool(adapter_of(checked), checked.setting)
    (report,) = worker._made(CheckPart(probe, ("uniform",)), pool, checked).values()
    return outcome("uniform", report)


@pytest.mark.parametrize(
    "error", [WrongAnswer("obs: row 3 mixes rows"), Overwritten("row 1 was returned"), WrongRows(MIXED, "act is 2")]
)
def test_rows_that_must_not_be_returned_are_a_fault(error):
    found = of_probe(error)
    assert found.verdict is CheckVerdict.FAULT and found.evidence == str(error)


@pytest.mark.parametrize("error", [AssertionError("of the probe"), KeyError("obs"), ZeroDivisionError()])
def test_an_error_of_the_check_itself_is_not_checked(error):
    assert of_probe(error).verdict is CheckVerdict.UNCHECKED


def test_wrong_rows_follow_from_a_fault_of_the_rows():
    found = [
        CheckOutcome("dtype", CheckVerdict.FAULT, "another kind"),
        CheckOutcome("ring_order", CheckVerdict.FAULT, worker.WRONG),
        CheckOutcome("seed", CheckVerdict.FAULT, worker.WRONG),
        CheckOutcome("references", CheckVerdict.FAULT, "raised"),
    ]
    assert [each.cause for each in with_causes(found)] == ["", "dtype", "dtype", ""]
    assert [each.cause for each in with_causes(found[1:])] == ["", "ring_order", ""]


def test_faults_of_a_ring_that_keeps_too_many_rows_have_one_cause():
    """As mbrl-lib's, of which `stored_rows` passes."""
    faults = ("ring_order", "uniform", "returned_batch", "request_sizes", "wrong_shape", "sample_zero")
    words = {"returned_batch": worker.WRONG}
    found = [CheckOutcome(check, CheckVerdict.FAULT, words.get(check, "")) for check in faults]
    assert [each.cause for each in with_causes(found)] == ["", *["ring_order"] * 5]


def test_checks_that_one_call_kept_from_their_end_have_one_cause():
    of_sample = ("round_trip", "shape")  # one part's
    found = [CheckOutcome(check, CheckVerdict.FAULT, HANGS, "sample(16) did not return") for check in of_sample]
    found.append(CheckOutcome("alpha_of_updates", CheckVerdict.FAULT, HANGS, "update(8) did not return"))
    assert [each.cause for each in with_causes(found)] == ["", "round_trip", ""]
