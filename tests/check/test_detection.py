"""docs/check-controls.md shows the record of planted faults, and the record has each of them."""

from __future__ import annotations

from dataclasses import asdict, replace

from suites.check.checks import SHOWN
from tests.check import detection, graded
from tests.check.detection import EFFORTS, Control, Detected, controls, graded_controls, is_found, measured
from tests.check.test_probes import subject

WITHOUT_CONTROL = {"replacement", "prioritized_replacement"}  # all that they can observe is sound


def test_the_page_shows_the_record():
    """If this fails, run python -m tests.check.detection, and commit what it writes."""
    page = detection.PAGE.read_text(encoding="utf-8")
    assert detection.page(page, detection.saved()) == page


def test_the_record_has_each_planted_fault_with_few_and_many_draws():
    """If this fails, run python -m tests.check.detection, which measures those that are missing."""
    recorded = {Detected(**each).key for each in detection.saved()["faults"]}
    assert {each for each in recorded if each[3] != "long"} == {
        (each.check, each.fault, each.size, effort)
        for each in (*controls(), *graded_controls())
        for effort in ("quick", "normal")
    }


def test_every_check_that_can_find_a_fault_has_a_control():
    assert {each.check for each in controls()} == set(SHOWN) - WITHOUT_CONTROL


def test_a_fault_counts_as_found_only_if_its_own_check_reports_it():
    faulty, sound = subject("KeepsOldest").functions.source, subject().functions.source
    assert is_found(Control("ring_order", "", faulty), EFFORTS["quick"])
    assert not is_found(Control("ring_order", "", sound), EFFORTS["quick"])
    assert not is_found(Control("dtype", "", faulty), EFFORTS["quick"])


def test_only_faults_that_many_draws_miss_are_tried_with_more(monkeypatch):
    tried = []
    monkeypatch.setattr(detection, "detected", lambda control, effort, seeds: tried.append(effort) or of(effort))
    known = [Detected("uniform", "Other", effort, 10, 10, 0.1) for effort in ("quick", "normal")]
    wanted = [Control("uniform", "Missed", ""), Control("uniform", "Other", "")]
    assert [each.effort for each in measured(wanted, known, 10)] == tried == ["quick", "normal", "long"]


def of(effort: str, fault: str = "Missed", found: int = 9) -> Detected:
    return Detected("uniform", fault, effort, 10, found, 0.25)


def test_runs_of_all_faults_of_a_check_are_added():
    faults = [of("quick"), of("normal"), of("quick", "Found", 10), of("normal", "Found", 10)]
    record = {"python": "3", "numpy": "2", "faults": [asdict(each) for each in faults]}
    (row,) = [line for line in detection.whole_faults(record).splitlines() if SHOWN["uniform"].title in line]
    assert "Missed, Found" in row and row.count("19 of 20") == 2


def test_a_graded_fault_has_a_row_of_its_own_for_each_size():
    few, many = (replace(of(effort, "FavoursOneSlot"), size=2, found=7, cpu=0.5) for effort in ("quick", "long"))
    others = of("quick"), of("normal")
    record = {"python": "3", "numpy": "2", "faults": [*map(asdict, (few, many, *others))]}
    (row,) = [line for line in detection.graded_faults(record).splitlines() if "of 10" in line]
    assert row.split(" | ")[2:6:3] == ["2", "7 of 10"] and graded.FAULTS["FavoursOneSlot"].title in row
    assert "FavoursOneSlot" not in detection.whole_faults(record)
