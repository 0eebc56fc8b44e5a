"""Probes of adapters find no fault in sound buffers that take fewer fields, return fewer columns or refuse actions that
they were not made for, and do find one where there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters.behaviours import Meaning
from adapters.contract import Contract
from suites.check.bridge import adapter_of
from suites.check.checks import OVER_ADAPTER
from suites.check.functions import NotApplicable, load
from suites.check.probes import capacities, reading, steps
from suites.check.probes.capacities import StoredCount, StoredRows
from suites.check.probes.probing import BufferPool
from suites.check.subject import CheckSettings, Subject
from tests.check.plain import PlainBuffer
from tests.check.planted import OneForTheNew

FUNCTIONS = (Path(__file__).resolve().parent / "plain_functions.py").read_text().partition("as Buffer\n")[2]
PART_OF = {check: part for part, checks in OVER_ADAPTER.items() for check in checks}
SETTING = CheckSettings(draws=2_000)


class OneHot(PlainBuffer):
    """Keeps which of five actions was taken, and refuses others."""

    def valid(self, columns):
        if columns["act"].dtype.kind == "i":
            columns["act"] = np.eye(5)[columns["act"]].argmax(-1)
        return super().valid(columns)


class WrapsActions(PlainBuffer):
    def valid(self, columns):
        return super().valid({**columns, "act": columns["act"] % 5} if columns["act"].dtype.kind == "i" else columns)


class NarrowsActions(PlainBuffer):
    """Keeps integer actions as int32, but returns int64."""

    def valid(self, columns):
        columns = super().valid(columns)
        return columns | {"act": columns["act"].astype("int32")} if columns["act"].dtype == np.int64 else columns


class ObservationsAsFloats(PlainBuffer):
    """Returns observations of integers as float32, as the rollouts of Stable-Baselines3 2.7.0."""

    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {"obs": batch["obs"].astype("float32")} if batch["obs"].dtype == np.int64 else batch


class Withholding(PlainBuffer):
    """Draws by priority without replacement, and requires an update before the next batch, as PFRL does."""

    due = False

    def by_priority(self, size):
        assert self.due is False
        slots = self.random.choice(len(self), size, replace=False, p=self.tree.leaves[: len(self)] / self.tree.total)
        self.due = True
        return slots

    def put(self, columns, priorities):
        if self.due:
            self.due = None  # the indexes of the batch are no longer right
        super().put(columns, priorities)

    def update(self, indexes, priorities):
        assert self.due is not None or (np.asarray(priorities) > 1e6).any()  # unless that is what a probe looks at
        super().update(indexes, priorities)
        self.due = False


class Following(PlainBuffer):
    """Takes next_obs from the next row, so that the newest row cannot be drawn."""

    def valid(self, columns):
        return super().valid({"next_obs": columns["obs"], **columns})

    counted = property(lambda self: max(0, len(self) - 1))

    def candidates(self):
        return (max(0, self.added - self.capacity) + np.arange(len(self) - 1)) % self.capacity

    def evenly(self, size):
        return self.random.choice(self.candidates(), size)

    def by_priority(self, size):
        slots = self.candidates()
        shares = self.tree.leaves[slots]
        return self.random.choice(slots, size, p=shares / shares.sum())

    def rows(self, slots):
        return super().rows(slots) | {"next_obs": self.columns["obs"][(slots + 1) % self.capacity]}


class FollowingWithoutOldest(Following):
    def candidates(self):
        return super().candidates()[len(self) == self.capacity :]


class FollowingUnwritten(Following):
    """Returns its only row with a next_obs that was never written, as Flashbax does before `can_sample`."""

    def candidates(self):
        return super().candidates() if len(self) > 1 else np.zeros(1, int)


class FollowingFavoursOne(Following):
    """Draws the slot 7 three times as often."""

    def candidates(self):
        slots = super().candidates()
        return np.append(slots, [7, 7]) if len(slots) > 8 else slots


class FollowingDeafToUpdates(Following):
    def update(self, indexes, priorities):
        pass


def pool(kind: type, *, lacks: tuple[str, ...] = (), add: tuple[str, ...] = ()) -> BufferPool:
    """Return buffers of this class, whose `add` does not name the fields `add`, and whose batches lack columns."""
    drawn = "buffer.sample(size, beta)"
    source = FUNCTIONS.replace(drawn, f"{{name: each for name, each in {drawn}.items() if name not in {lacks}}}")
    for name in add:
        source = source.replace(f", {name}={name}", "").replace(f", {name}=None", "").replace(f", {name}", "")
    functions = load(source, f"{kind.__name__}_{'_'.join((*lacks, *add))}.py", kind)
    return BufferPool(adapter_of(Subject(functions, SETTING)), SETTING)


def seen(check: str, buffers: BufferPool) -> str:
    found = PART_OF[check](buffers)[check]
    buffers.close()
    return found.word


@pytest.mark.parametrize("kind", [PlainBuffer, OneHot, WrapsActions])
def test_a_library_with_five_actions_may_refuse_or_change_others(kind):
    assert seen("round_trip", pool(kind)) == "bit for bit"


def test_actions_that_are_kept_in_32_bits_are_found():
    assert seen("round_trip", pool(NarrowsActions)) == "as 32 bits"


@pytest.mark.parametrize("lacks", [(), ("next_obs", "done", "act")])
def test_observations_of_integers_as_floats_are_found(lacks):
    """Rollouts lack next_obs, and may lack more."""
    assert seen("dtype", pool(ObservationsAsFloats, lacks=lacks)) == "another kind"
    assert seen("dtype", pool(PlainBuffer, lacks=lacks)) == "kept"


@pytest.mark.parametrize("part", OVER_ADAPTER, ids=lambda part: part.__name__)
def test_columns_that_batches_lack_are_no_fault(part):
    is_sound(part, pool(PlainBuffer, lacks=("next_obs", "done")))


@pytest.mark.parametrize("part", OVER_ADAPTER, ids=lambda part: part.__name__)
@pytest.mark.parametrize("kind", [Following, FollowingWithoutOldest])
@pytest.mark.parametrize("add", [("next_obs",), ("next_obs", "priority")])
def test_rows_without_a_next_one_need_not_be_drawn(part, kind, add):
    is_sound(part, pool(kind, add=add))


@pytest.mark.parametrize("probe", [capacities.stored, capacities.even])
def test_rows_of_evicted_episodes_are_not_missed(probe):
    functions = load(f"{FUNCTIONS}\nEVICTS_EPISODES = True\n", "episodes.py", PlainBuffer)
    with pytest.raises(NotApplicable, match="whole episodes"):
        probe(Subject(functions, SETTING))


@pytest.mark.parametrize("kind", [Following, FollowingWithoutOldest, FollowingUnwritten])
def test_a_row_without_a_next_one_is_not_looked_at(kind):
    subject = pool(kind, add=("next_obs",)).kind.subject
    found = capacities.stored(subject)
    assert StoredRows(found["stored_rows"].word).meaning is not Meaning.FAULT, found
    assert StoredCount(found["stored_count"].word).meaning is not Meaning.FAULT, found


def withholding() -> Subject:
    source = FUNCTIONS.replace(", prioritized, alpha", ", alpha").replace("seed, alpha", "seed, True, alpha", 2)
    source = source.replace("act_dtype, seed, True, alpha, beta):", "act_dtype, seed, alpha, beta):")
    source = source.replace(", priority=None", "").replace(", priority=priority", "")
    return Subject(load(f"{source}\nWITHHOLDS = True\n", "withholding.py", Withholding), SETTING)


@pytest.mark.parametrize("part", OVER_ADAPTER, ids=lambda part: part.__name__)
def test_a_buffer_that_requires_updates_gets_them(part):
    is_sound(part, BufferPool(adapter_of(withholding()), SETTING))


def test_a_high_priority_hides_no_row_that_is_yet_to_get_its_own():
    """Of a buffer that gives new rows the priority 1, as rlox does, and takes none with a row."""
    source = FUNCTIONS.replace(", priority=None", "").replace(", priority=priority", "")
    setting = CheckSettings(draws=2_000, seed=2)  # with which priorities of 1 to 1,000 are drawn first
    kind = adapter_of(Subject(load(source, "without_priority.py", OneForTheNew), setting))
    seen = PART_OF["prioritized"](BufferPool(kind, setting))["prioritized"]
    assert seen.word == "by priority", seen


def test_a_buffer_that_requires_updates_gets_them_while_steps_are_fed():
    for check, seen in {**steps.rows(withholding()), **reading.twice(withholding())}.items():
        assert {**steps.CHECKS, **reading.CHECKS}[check](seen.word).meaning is Meaning.SOUND, seen


def is_sound(part, buffers: BufferPool, hazards: tuple[str, ...] = ()) -> None:
    found = part(buffers)
    buffers.close()
    for check, each in found.items():
        assert Contract.CHECKS[check](each.word).meaning is Meaning.SOUND or each.word in (
            "changes the new row",
            *hazards,
        ), each


@pytest.mark.parametrize(
    ("kind", "check", "word"),
    [
        (FollowingFavoursOne, "uniform", "uneven"),
        (FollowingDeafToUpdates, "prioritized", "not by priority"),
        (FollowingDeafToUpdates, "new_row_priority", "another"),
    ],
)
def test_faults_are_found_where_next_obs_is_the_next_rows(kind, check, word):
    assert seen(check, pool(kind, add=("next_obs", "priority"))) == word


class FloatActions(PlainBuffer):
    """Keeps actions as floats, as buffers for continuous actions do."""

    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {"act": batch["act"].astype("float32")}


class FloatActionsOfNext(FloatActions):
    def rows(self, slots):
        return super().rows(slots) | {"act": self.columns["act"][(slots + 1) % len(self)].astype("float32")}


def without_dtype(kind: type) -> BufferPool:
    """Return buffers whose `make` names no dtype of actions."""
    source = FUNCTIONS.replace("act_dtype, seed, prioritized, alpha, beta):", "seed, prioritized, alpha, beta):")
    functions = load(source.replace("act_dtype, seed", '"int64", seed'), "untold.py", kind)
    return BufferPool(adapter_of(Subject(functions, SETTING)), SETTING)


@pytest.mark.parametrize("part", OVER_ADAPTER, ids=lambda part: part.__name__)
def test_actions_as_floats_are_no_fault_of_a_buffer_that_is_told_no_dtype(part):
    is_sound(part, without_dtype(FloatActions), hazards=("floats for integers",))


def test_actions_as_floats_are_a_hazard_unless_a_dtype_was_asked_for():
    assert seen("dtype", without_dtype(FloatActions)) == "floats for integers"
    assert seen("dtype", without_dtype(PlainBuffer)) == "kept"
    assert seen("dtype", pool(FloatActions)) == "another kind"


def test_a_float_action_of_another_row_is_a_fault():
    assert seen("round_trip", without_dtype(FloatActionsOfNext)) == "changed"


class WidensRewards(PlainBuffer):
    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {"rew": batch["rew"].astype("float64")}


def test_a_wider_dtype_of_the_same_values_is_a_hazard():
    assert seen("dtype", pool(WidensRewards)) == "wider"
    assert seen("round_trip", pool(WidensRewards)) == "bit for bit"
