"""Priorities are checked through the functions that a buffer has, as far as its exponent is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from adapters import registry
from adapters.base import WrongAnswer
from suites.check.bridge import adapter_of
from suites.check.functions import BufferFunctions, load
from suites.check.probes import draws, edges, rows
from suites.check.probes.probing import BufferPool
from suites.check.subject import CheckSettings, Subject
from tests.check.standins import CpprbPrioritized

SOURCE = """
from tests.check.standins import CpprbPrioritized
FIELDS = {"obs": {"shape": 4}, "act": {"dtype": "int64"}, "rew": {}, "next_obs": {"shape": 4}, "done": {}}
def make(capacity):
    return CpprbPrioritized(capacity, FIELDS, alpha=0.6)
def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)
def sample(buffer, size):
    return buffer.sample(size)
def update(buffer, indexes, priorities):
    buffer.update_priorities(indexes, priorities)
def size(buffer):
    return len(buffer)
"""


def pool(stated: str = "") -> BufferPool:
    return pool_of(load(SOURCE + stated, "mine.py"))


def pool_of(functions: BufferFunctions) -> BufferPool:
    subject = Subject(functions, CheckSettings(draws=2_000))
    return BufferPool(adapter_of(subject), subject.setting)


@pytest.mark.parametrize("stated", ["", "ALPHA = 0.6"])
def test_checks_that_need_no_exponent_are_made_without_it(stated: str) -> None:
    found = pool(stated)
    assert rows.given_back(found)["returned_batch"].looked_at
    assert edges.too_early(found)["empty"].looked_at
    assert draws.seeds(found)["seed"].looked_at


def test_new_row_keeps_its_priority_while_other_rows_get_theirs() -> None:
    class Largest(CpprbPrioritized):
        def add(self, **row):
            super().add(**row, priorities=max(self.priorities, default=1.0))

    source = SOURCE.replace("capacity)", "capacity, alpha)", 1).replace("alpha=0.6", "alpha=alpha")
    functions = load(source.replace("CpprbPrioritized(", "Buffer("), "mine.py", Largest)
    seen = draws.added(pool_of(functions))["new_row_priority"]
    assert seen.word == "the largest", seen.evidence


def test_a_new_row_of_a_fixed_priority_is_told_from_one_of_a_larger_one() -> None:
    """With too few draws, one of these seeds says 2, the largest rounded down, for a buffer that gives new rows 1."""
    kind = registry.adapter_class("chainerrl-style")
    words = {draws.added(BufferPool(kind, CheckSettings(seed=seed)))["new_row_priority"].word for seed in range(32, 37)}
    assert words == {"the largest update"}


def test_new_row_is_drawn_on_while_no_priority_fits_and_none_is_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were drawing to stop at the first doubt, a new row with the priority of the last update would pass for one of 1:
    p is 4.5e-6 for 16 of 200 draws."""
    drawn = itertools.cycle([np.array([7, 1])] * 16 + [np.array([8, 0])] * 9)
    monkeypatch.setattr(draws, "_draw_with_new_row", lambda *_: (next(drawn), 3.7))
    source = SOURCE.replace("capacity)", "capacity, alpha)", 1).replace("alpha=0.6", "alpha=alpha")
    seen = draws.added(pool_of(load(source, "mine.py")))["new_row_priority"]
    assert seen.word == "another", seen.evidence


@pytest.mark.parametrize("absent", ["next_obs", "done"])
def test_column_that_a_batch_lacks_is_not_checked(absent: str) -> None:
    lacking = SOURCE.replace(
        "return buffer.sample(size)", "batch = buffer.sample(size); del batch['ABSENT']; return batch"
    )
    found = pool_of(load(lacking.replace("ABSENT", absent), "mine.py"))
    words = {check: seen.word for check, seen in (rows.come_back(found) | rows.ring(found) | draws.even(found)).items()}
    assert words["round_trip"] == "bit for bit" and words["ring_order"] == "oldest first" and words["uniform"] == "even"


def test_mixed_row_is_seen_in_a_batch_without_next_obs() -> None:
    mixed = SOURCE.replace(
        "return buffer.sample(size)",
        "batch = buffer.sample(size); del batch['next_obs']; batch['obs'] = batch['obs'][::-1]; return batch",
    )
    with pytest.raises(WrongAnswer, match="mixes values of different added rows"):
        rows.ring(pool_of(load(mixed, "mine.py")))


def test_stated_exponent_is_used() -> None:
    assert draws.by_priority(pool("ALPHA = 0.6"))["prioritized"].word == "by priority"


def test_unknown_exponent_is_the_reason_why_priorities_are_not_checked() -> None:
    with pytest.raises(NotImplementedError, match="make has no argument alpha, and the file defines no ALPHA"):
        draws.by_priority(pool())
