"""The conformance checks accept a correct peer and detect wrong ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from adapters.base import Spec, WrongAnswer
from adapters.behaviours import ImportanceWeights
from adapters.checks import (
    AddedRows,
    check_distribution,
    check_overwriting,
    check_priorities,
    check_round_trip,
    check_rows,
    check_weights,
    chi_square_tail,
    keyed_columns,
)
from adapters.peers.baselines_style import BaselinesStyle

from .conftest import FIELDS

CARTPOLE = FIELDS["CartPole-v1"]
SPEC = Spec(capacity=64, fields=CARTPOLE, prioritized=True)


class MixesUpRows(BaselinesStyle):
    """Returns each row with the reward of another row."""

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        return {**batch, "rew": np.roll(batch["rew"], 1)}


class DrawsUniformly(BaselinesStyle):
    """Claims to be prioritized, but keeps every priority at 1."""

    def add_batch(self, columns, priorities=None):
        super().add_batch(columns)

    def sample(self, batch_size):
        batch = super().sample(batch_size)
        raw = [self.wanted[i] for i in batch["indexes"]]  # must be detected even though the weights are right
        weights = ((np.array(raw) / min(self.wanted)) ** (-0.6 * 0.4)).astype(np.float32)
        return {**batch, "weights": weights}

    def update_priorities(self, indexes, priorities):
        pass


class IgnoresUpdates(BaselinesStyle):
    def update_priorities(self, indexes, priorities):
        pass


class WrongWeights(BaselinesStyle):
    def sample(self, batch_size):
        batch = super().sample(batch_size)
        return {**batch, "weights": batch["weights"] ** 2}


class KeepsTheOldest(BaselinesStyle):
    """Drops new rows once it is full."""

    def add_batch(self, columns, priorities=None):
        room = self.capacity - len(self)
        super().add_batch({name: column[:room] for name, column in columns.items()})


class NeverDrawsSome(BaselinesStyle):
    def sample(self, batch_size):
        batch = super().sample(4 * batch_size)
        chosen = np.flatnonzero(batch["obs"][:, 0] > 60)[:batch_size]
        return {name: np.asarray(column)[chosen] for name, column in batch.items()}


def test_a_correct_peer_passes() -> None:
    adapter = BaselinesStyle(SPEC)
    check_priorities(adapter, SPEC)
    check_round_trip(adapter, SPEC, AddedRows(keyed_columns(CARTPOLE, 64), CARTPOLE))


def test_mixed_up_rows_are_detected() -> None:
    columns = keyed_columns(CARTPOLE, 64)
    adapter = MixesUpRows(SPEC)
    adapter.add_batch(columns)
    with pytest.raises(WrongAnswer, match="mixes values of different added rows"):
        check_round_trip(adapter, SPEC, AddedRows(columns, CARTPOLE))


def test_uniform_draws_are_detected() -> None:
    adapter = DrawsUniformly(SPEC)
    adapter.wanted = np.random.default_rng(SPEC.seed).permutation(np.geomspace(0.05, 5.0, 64))
    with pytest.raises(WrongAnswer, match="not drawn by priority"):
        check_priorities(adapter, SPEC)


class SetsOnAddOnly(IgnoresUpdates):
    """Uses the priorities passed to add, and ignores later ones."""

    def add_batch(self, columns, priorities=None):
        BaselinesStyle.add_batch(self, columns)
        if priorities is not None:
            self.buffer.update_priorities(range(len(priorities)), priorities.tolist())


def test_ignored_updates_are_detected() -> None:
    with pytest.raises(WrongAnswer, match="raised priority"):
        check_priorities(SetsOnAddOnly(SPEC), SPEC)


def test_wrong_weights_are_detected() -> None:
    with pytest.raises(WrongAnswer, match=r"weights: .*, expected .* by the formula"):
        check_priorities(WrongWeights(SPEC), SPEC)


@pytest.mark.parametrize("broken", [KeepsTheOldest, NeverDrawsSome])
def test_wrong_overwriting_is_detected(broken: type[BaselinesStyle]) -> None:
    columns = keyed_columns(CARTPOLE, 100)
    adapter = broken(SPEC)
    adapter.add_batch(columns)
    with pytest.raises(WrongAnswer):
        check_overwriting(adapter, SPEC, columns, batch_size=8)


@pytest.mark.parametrize("name", list(CARTPOLE))
def test_one_changed_value_is_detected_and_its_field_named(name: str) -> None:
    columns = keyed_columns(CARTPOLE, 50)
    batch = {key: column[:10].copy() for key, column in columns.items()}
    batch[name].reshape(10, -1)[4, -1] = ~batch[name].reshape(10, -1)[4, -1] if name == "done" else 77
    with pytest.raises(WrongAnswer, match=name):
        check_rows(batch, columns, CARTPOLE)


def test_one_changed_pixel_is_detected() -> None:
    fields = FIELDS["ALE/Seaquest-v5"]
    columns = keyed_columns(fields, 8)
    batch = {key: column.copy() for key, column in columns.items()}
    batch["next_obs"][5, 83, 83, 3] ^= 1
    with pytest.raises(WrongAnswer, match="next_obs: row 5"):
        check_rows(batch, columns, fields)


def test_pixels_may_be_scaled_to_the_floats_of_a_network_but_not_otherwise() -> None:
    fields = FIELDS["ALE/Seaquest-v5"]
    columns = keyed_columns(fields, 8)
    floats = {**columns, "obs": columns["obs"].astype(np.float32)}
    assert check_rows(floats, columns, fields).tolist() == list(range(8))
    floats["obs"][5, 83, 83, 3] += 0.25
    with pytest.raises(WrongAnswer, match="obs: dtype float32, expected uint8"):
        check_rows(floats, columns, fields)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("obs", lambda column: column.astype(np.int64), "obs: dtype"),
        ("obs", lambda column: column[:, :3], "obs: shape"),
        ("rew", lambda column: column[:, None, None], "rew: shape"),
        ("done", lambda column: column.astype(np.float32), "done: dtype"),
        ("act", lambda column: column[:-1], "act: shape"),
    ],
)
def test_wrong_shape_or_kind_is_detected(name, change, message) -> None:
    columns = keyed_columns(CARTPOLE, 10)
    with pytest.raises(WrongAnswer, match=message):
        check_rows({**columns, name: change(columns[name])}, columns, CARTPOLE)


def test_a_missing_field_is_detected() -> None:
    columns = keyed_columns(CARTPOLE, 10)
    with pytest.raises(WrongAnswer, match="next_obs: missing from the batch"):
        check_rows({name: column for name, column in columns.items() if name != "next_obs"}, columns, CARTPOLE)


def test_scalars_may_have_a_last_axis_and_wider_floats() -> None:
    columns = keyed_columns(CARTPOLE, 10)
    batch = {**columns, "rew": columns["rew"].astype(np.float64)[:, None], "done": columns["done"][:, None]}
    assert check_rows(batch, columns, CARTPOLE).tolist() == list(range(10))


def test_repeated_rows_count_as_their_first_occurrence() -> None:
    columns = {name: np.concatenate([column, column]) for name, column in keyed_columns(CARTPOLE, 5).items()}
    assert check_rows(columns, columns, CARTPOLE).tolist() == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_keyed_rows_differ_in_every_field_that_can_differ(fields) -> None:
    columns = keyed_columns(fields, 300, first=41)
    for name in ("obs", "next_obs", "rew"):
        assert len({row.tobytes() for row in columns[name]}) == 300
    assert len({row.tobytes() for row in np.concatenate([columns["obs"], columns["next_obs"]])}) == 600
    again = keyed_columns(fields, 100, first=141)
    assert all(np.array_equal(columns[name][100:200], again[name]) for name in fields)


def test_the_distribution_check_agrees_with_scipy() -> None:
    shares = np.array([0.2, 0.3, 0.5])
    random = np.random.default_rng(1)
    for tilt in (0.0, 0.03, 0.2):
        counts = random.multinomial(5000, shares + np.array([tilt, 0, -tilt]))
        fair = stats.chisquare(counts, shares * 5000).pvalue > 1e-6
        if fair:
            check_distribution(counts, shares)
        else:
            with pytest.raises(WrongAnswer):
                check_distribution(counts, shares)


def test_a_row_without_probability_must_not_be_drawn() -> None:
    with pytest.raises(WrongAnswer, match="row 1 was drawn although its probability is 0"):
        check_distribution(np.array([10, 1, 10]), np.array([0.5, 0.0, 0.5]))


@pytest.mark.parametrize("freedom", [1, 2, 7, 100, 20_000])
def test_tails_of_chi_square_are_those_of_scipy(freedom):
    statistics = [0.0, 1e-9, 0.5 * freedom, freedom, freedom + 1, freedom + 2, 2 * freedom + 100, 700.0]
    ours = [chi_square_tail(each, freedom) for each in statistics]
    np.testing.assert_allclose(ours, stats.chi2.sf(statistics, freedom), rtol=1e-9, atol=1e-300)


def test_weights_of_clipped_priorities_are_those_of_the_bound():
    """Priorities 0.5, 1 and 4 with eps 0.5 and a bound of 2 are raised to alpha as 1, 1.5 and 2."""
    contract = SimpleNamespace(eps=0.5, largest=2.0, weights=ImportanceWeights.OVER_BUFFER)
    clipping, raw = SimpleNamespace(contract=contract), np.array([0.5, 1.0, 4.0])
    spec = Spec(capacity=4, fields={}, prioritized=True, alpha=1.0, beta=1.0)
    check_weights(np.array([1, 1 / 1.5, 1 / 2]), raw, raw, clipping, spec)
    with pytest.raises(WrongAnswer, match="by the formula"):
        check_weights(np.array([1, 1 / 1.5, 1 / 4.5]), raw, raw, clipping, spec)
