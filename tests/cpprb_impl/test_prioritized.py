"""Proportional sampling, weights and updates, in one process and shared (Schaul et al. 2015)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import MPPrioritizedReplayBuffer, PrioritizedReplayBuffer

FIELDS = {"x": {"dtype": np.int64}}


@pytest.fixture(params=["single", "buffer", "critical", "none"])
def make(request):
    made = []

    def build(size, **kwargs):
        if request.param == "single":
            buffer = PrioritizedReplayBuffer(size, FIELDS, **kwargs)
        else:
            buffer = MPPrioritizedReplayBuffer(size, FIELDS, lock=request.param, **kwargs)
        made.append(buffer)
        return buffer

    yield build
    for buffer in made:
        buffer.close()


def draw_counts(buffer, size, draws=400_000, batch=2000):
    return sum(np.bincount(buffer.sample(batch)["indexes"], minlength=size) for _ in range(draws // batch))


def expected(priorities, alpha, eps):
    mass = (np.asarray(priorities, dtype=np.float64) + eps) ** alpha
    return mass / mass.sum()


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 255, 257, 5000])
@pytest.mark.parametrize("alpha", [0, 0.6, 1])
def test_draws_follow_priorities(make, size, alpha):
    buffer = make(size, alpha=alpha, eps=1e-4, seed=5)
    priorities = np.random.default_rng(0).lognormal(sigma=1.5, size=size)
    buffer.add(x=np.arange(size), priorities=priorities)
    counts = draw_counts(buffer, size)
    wanted = expected(priorities, alpha, 1e-4) * counts.sum()
    # Stratified draws vary less than multinomial ones, so chi-square is an upper bound here.
    assert stats.chisquare(counts, wanted).pvalue > 1e-6 if size > 1 else counts.tolist() == [400_000]


def test_the_check_of_draws_detects_wrong_draws():
    buffer = PrioritizedReplayBuffer(100, FIELDS, seed=5)
    priorities = np.linspace(1, 1.3, 100)
    buffer.add(x=np.arange(100), priorities=priorities[::-1])
    counts = draw_counts(buffer, 100)
    assert stats.chisquare(counts, expected(priorities, 0.6, 1e-4) * counts.sum()).pvalue < 1e-6


def test_draws_are_exact_over_six_orders_of_magnitude_after_updates_and_a_wrap(make):
    size, rng = 300, np.random.default_rng(1)
    buffer = make(size, alpha=1.0, eps=0.0, seed=2)
    priorities = np.zeros(size)
    at = 0
    for _ in range(40):
        count = int(rng.integers(1, 60))
        new = 10.0 ** rng.uniform(-3, 3, size=count)
        buffer.add(x=np.arange(count), priorities=new)
        priorities[(at + np.arange(count)) % size] = new
        at += count
        indexes = buffer.sample(16)["indexes"]
        changed = 10.0 ** rng.uniform(-3, 3, size=16)
        buffer.update_priorities(indexes, changed)
        for index, priority in zip(indexes, changed, strict=True):
            priorities[index] = priority  # the last of several equal indexes applies
    counts = draw_counts(buffer, size, draws=2_000_000)
    often = expected(priorities, 1.0, 0.0) * counts.sum() > 5
    wanted = expected(priorities, 1.0, 0.0) * counts.sum()
    lumped = np.append(counts[often], counts[~often].sum()), np.append(wanted[often], wanted[~often].sum())
    assert stats.chisquare(*lumped).pvalue > 1e-6


@pytest.mark.parametrize("beta", [0, 0.4, 1.0])
def test_weights_follow_the_definition(make, beta):
    buffer = make(64, alpha=0.7, eps=1e-3)
    priorities = np.random.default_rng(3).uniform(0.1, 5, size=50)
    buffer.add(x=np.arange(50), priorities=priorities)
    batch = buffer.sample(40, beta=beta)
    chance = expected(priorities, 0.7, 1e-3)
    weights = (50 * chance) ** -beta
    assert batch["weights"].dtype == np.float32
    assert np.allclose(batch["weights"], (weights / weights.max())[batch["indexes"]], rtol=1e-4)
    assert np.array_equal(batch["x"].ravel(), batch["indexes"])


def test_new_rows_get_the_largest_priority(make):
    buffer = make(32, alpha=1.0, eps=0.0, seed=1)
    assert buffer.get_max_priority() == 1.0
    buffer.add(x=[0, 1])
    buffer.add(x=[2], priorities=[6.0])
    buffer.add(x=[3])
    assert buffer.get_max_priority() == 6.0
    counts = draw_counts(buffer, 4, draws=140_000)
    assert stats.chisquare(counts, np.array([1, 1, 6, 6]) / 14 * counts.sum()).pvalue > 1e-6
    buffer.clear()
    assert buffer.get_max_priority() == 1.0


def test_earlier_samples_do_not_change(make):
    """cpprb's weights and indexes are views of memory that the next sample overwrites, and a larger sample frees."""
    buffer = make(100)
    buffer.add(x=np.arange(100), priorities=np.arange(100) + 1.0)
    first = buffer.sample(10)
    kept = {name: column.copy() for name, column in first.items()}
    buffer.sample(10)
    buffer.sample(5000)
    assert all(np.array_equal(first[name], kept[name]) for name in first)


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
def test_the_maximum_does_not_fall_below_that_of_a_row_not_yet_sampled(kind: type) -> None:
    buffer = kind(100, {"a": {}})
    buffer.add(a=np.zeros(64), priorities=np.full(64, 3.0))
    buffer.sample(1)
    buffer.add(a=1, priorities=100.0)
    buffer.update_priorities(np.arange(64), np.full(64, 2.0))
    assert buffer.get_max_priority() == pytest.approx(100.0)
    buffer.sample(1)
    buffer.update_priorities([64], [5.0])
    assert buffer.get_max_priority() == pytest.approx(5.0, rel=1e-3)
    buffer.close()


def test_a_priority_too_large_to_be_stored_is_refused() -> None:
    buffer = PrioritizedReplayBuffer(8, {"a": {}}, alpha=1)
    with pytest.raises(ValueError, match=r"priorities\[1\] must be small enough .* got 1e\+39"):
        buffer.add(a=[1, 2], priorities=[1.0, 1e39])
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 1e300])
def test_bad_priorities_are_refused_by_index(make, bad):
    """In cpprb, bad priorities corrupt the tree."""
    buffer = make(8, alpha=1.0, seed=1)
    buffer.add(x=np.arange(8))
    for use in (
        lambda: buffer.add(x=[100, 101], priorities=[1.0, bad]),
        lambda: buffer.update_priorities([3, 4], [1.0, bad]),
    ):
        with pytest.raises(ValueError, match=r"priorities\[1\]"):
            use()
    assert buffer.get_next_index() == 0 and buffer.get_max_priority() == 1.0
    counts = draw_counts(buffer, 8, draws=80_000)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_lengths_and_indexes_are_checked(make):
    """cpprb writes beyond its arrays, which corrupts the heap."""
    buffer = make(8)
    buffer.add(x=np.arange(4))
    buffer.sample(1)
    with pytest.raises(ValueError, match="priorities must have one value per row, got 3 values for 2 rows"):
        buffer.add(x=[1, 2], priorities=[1, 2, 3])
    with pytest.raises(ValueError, match="priorities must have one value per index, got 1 values for 2 indexes"):
        buffer.update_priorities([1, 2], [1.0])
    for index in (8, -1, 2**40):
        with pytest.raises(IndexError, match=r"indexes\[1\]"):
            buffer.update_priorities([0, index], [1.0, 1.0])
    with pytest.raises(TypeError, match="priorities"):
        buffer.update_priorities([1], None)
    assert buffer.get_stored_size() == 4


def test_an_index_without_a_row_is_refused_in_a_single_process_buffer():
    buffer = PrioritizedReplayBuffer(8, FIELDS)
    buffer.add(x=np.arange(4))
    with pytest.raises(IndexError, match="no transition is stored"):
        buffer.update_priorities([5], [1.0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, np.uint8])
def test_any_index_dtype_and_read_only_arrays_are_accepted(make, dtype):
    buffer = make(8)
    buffer.add(x=np.arange(8))
    buffer.sample(4)
    indexes, priorities = np.array([1, 2], dtype=dtype), np.array([3.0, 4.0], dtype=np.float32)
    indexes.flags.writeable = priorities.flags.writeable = False
    buffer.update_priorities(indexes, priorities)
    assert buffer.get_max_priority() == 4.0


def test_sampling_without_a_drawable_row_is_an_error(make):
    """cpprb returns rows that were never written, with weights of NaN."""
    buffer = make(8, eps=0.0)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    buffer.add(x=[1], priorities=[0.0])
    with pytest.raises(ValueError, match="priority is 0"):
        buffer.sample(1)
    buffer.add(x=[2], priorities=[1.0])
    assert set(buffer.sample(100)["x"].ravel()) == {2}


@pytest.mark.parametrize("beta", [-0.1, np.nan, np.inf])
def test_a_bad_beta_is_refused(make, beta):
    buffer = make(4)
    buffer.add(x=[1])
    with pytest.raises(ValueError, match="beta"):
        buffer.sample(1, beta=beta)


@pytest.mark.parametrize("options", [{"alpha": -1}, {"alpha": np.nan}, {"eps": -1e-9}, {"eps": np.inf}])
def test_bad_exponents_are_refused(make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make(4, **options)


def test_an_update_for_an_overwritten_row_is_ignored():
    """In cpprb, the new row receives the old row's priority."""
    for buffer in (
        PrioritizedReplayBuffer(4, FIELDS, check_for_update=True, alpha=1.0, eps=0.0),
        MPPrioritizedReplayBuffer(4, FIELDS, alpha=1.0, eps=0.0),
    ):
        buffer.add(x=np.arange(4))
        buffer.sample(2)
        buffer.add(x=[9])
        buffer.update_priorities([0, 1], [0.0, 0.0])
        for _ in range(16):  # enough samples to forget the first one, which may have drawn the old row
            assert set(buffer.sample(200)["indexes"]) == {0, 2, 3}
        buffer.update_priorities([0], [0.0])
        assert set(buffer.sample(200)["indexes"]) == {2, 3}
        buffer.close()


def test_a_late_update_after_clear_is_ignored_in_a_shared_buffer():
    with_rows = MPPrioritizedReplayBuffer(4, FIELDS, alpha=1.0, eps=0.0)
    with_rows.add(x=np.arange(4))
    with_rows.sample(1)
    with_rows.clear()
    with_rows.update_priorities([2], [9.0])
    with_rows.add(x=[7, 8, 9])
    with_rows.update_priorities([2], [9.0])
    assert with_rows.get_max_priority() == 1.0
    with_rows.close()


def test_equal_priorities_are_drawn_equally():
    """cpprb's float sums favour some rows."""
    size = 200_000
    buffer = PrioritizedReplayBuffer(size, FIELDS, seed=11)
    buffer.add(x=np.arange(size))
    counts = sum(np.bincount(buffer.sample(1000)["indexes"], minlength=size) for _ in range(4000))
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("alpha", [0.3, 0.6, 1.0])
def test_the_maximum_falls_once_no_transition_has_it(alpha):
    """A single large error must not favour every new transition forever."""
    buffer = PrioritizedReplayBuffer(2000, {"a": {}}, alpha=alpha)
    buffer.add(a=np.arange(1000), priorities=np.full(1000, 3.0))
    buffer.update_priorities([7], [1e6])
    assert buffer.get_max_priority() == 1e6
    buffer.update_priorities([7], [2.0])
    assert buffer.get_max_priority() == pytest.approx(3.0, rel=1e-4)
    new = buffer.add(a=0)
    leaves = buffer._get_leaves([new, 8])
    assert leaves[0] == pytest.approx(leaves[1], rel=1e-4)


def test_the_maximum_falls_when_its_transition_is_overwritten():
    buffer = PrioritizedReplayBuffer(16, {"a": {}})
    buffer.add(a=np.zeros(16), priorities=np.r_[50.0, np.full(15, 0.5)])
    buffer.sample(1)
    buffer.update_priorities([1], [0.5])
    assert buffer.get_max_priority() == 50.0
    buffer.add(a=np.zeros(16), priorities=np.full(16, 0.5))
    buffer.sample(1)
    buffer.update_priorities([1], [0.5])
    assert buffer.get_max_priority() == 1.0  # the initial value


def test_the_maximum_includes_transitions_that_were_added_since_the_last_sample():
    buffer = PrioritizedReplayBuffer(100, {"a": {}})
    buffer.add(a=np.zeros(100), priorities=np.r_[np.zeros(99), 5.0])
    buffer.update_priorities([0], [0.1])
    assert buffer.get_max_priority() == 5.0
    buffer.sample(1)
    buffer.add(a=np.zeros(100), priorities=np.full(100, 3.0))  # overwrites the row of priority 5
    buffer.update_priorities([0], [0.1])
    assert buffer.get_max_priority() == pytest.approx(3.0)


def test_the_maximum_remains_while_a_transition_has_it():
    buffer = PrioritizedReplayBuffer(300, {"a": {}})
    buffer.add(a=np.zeros(300))
    for priority in np.geomspace(1.5, 1e7, 40):
        buffer.update_priorities([299], [priority])
        for _ in range(3):
            buffer.update_priorities(buffer.sample(2)["indexes"] % 299, [0.1, 0.2])
            assert buffer.get_max_priority() == priority
