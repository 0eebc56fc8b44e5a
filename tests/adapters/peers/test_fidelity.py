"""The buffers that this project wrote to behave like those of Baselines and ChainerRL, compared with the originals.

The originals need a venv of their own, so this file runs there:

    .peers/legacy/bin/python -m pytest tests/adapters/peers/test_fidelity.py

Both get the same rows, the same seed and the same updates; everything they return must be the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from adapters.base import Adapter, Columns, Spec, Step
from adapters.checks import as_steps, keyed_columns
from adapters.peers.baselines import Baselines
from adapters.peers.baselines_style import BaselinesStyle
from adapters.peers.chainerrl import ChainerRL
from adapters.peers.chainerrl_style.adapter import ChainerRLStyle
from adapters.peers.chainerrl_style.buffer import RandomAccessQueue
from adapters.venvs import NotInstalled, version

from ..conftest import FIELDS

CARTPOLE = FIELDS["CartPole-v1"]
PAIRS = {"baselines": (Baselines, BaselinesStyle), "chainerrl": (ChainerRL, ChainerRLStyle)}
REFUSALS = (AssertionError, ValueError, RuntimeError, IndexError, TypeError, ZeroDivisionError, AttributeError)
CAPACITY = 50  # not a power of two


def originals_are_here() -> str | None:
    """Return the reason why they are not installed, or None."""
    for original, _ in PAIRS.values():
        try:
            version(original.distribution, None)
        except NotInstalled as reason:
            return f"{reason}; it is in the venv 'legacy', run this there"
    return None


WHY_NOT = originals_are_here()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture(params=list(PAIRS))
def pair(request: pytest.FixtureRequest) -> Callable[..., list[Adapter]]:
    def make(**asked) -> list[Adapter]:
        return [cls(Spec(CAPACITY, CARTPOLE, **asked)) for cls in PAIRS[request.param]]

    return make


def same(original: Columns, style: Columns) -> None:
    assert original.keys() == style.keys()
    for name in original:
        theirs, ours = np.asarray(original[name]), np.asarray(style[name])
        assert theirs.dtype == ours.dtype, name
        np.testing.assert_array_equal(theirs, ours, err_msg=name)


def rows(count: int, first: int = 0) -> list[Step]:
    return as_steps(keyed_columns(CARTPOLE, count, first))


@pytest.mark.parametrize("stored", [20, CAPACITY, 3 * CAPACITY + 7])
@pytest.mark.parametrize("batch", [1, 5, 20])
def test_the_same_seed_gives_the_same_uniform_draws(pair, batch: int, stored: int) -> None:
    original, style = pair(seed=3)
    for adapter in (original, style):
        adapter.add(rows(stored))
    assert len(original) == len(style) == min(stored, CAPACITY)
    for _ in range(40):
        same(original.sample(batch), style.sample(batch))


@pytest.mark.parametrize("alpha", [0.6, 1.0])
@pytest.mark.parametrize("batch", [1, 8])
def test_the_same_seed_gives_the_same_prioritized_draws_and_weights(pair, batch: int, alpha: float) -> None:
    """Covers the first lap and many laps, rows with and without priorities, and updates from 10^-6 to 10^3."""
    original, style = pair(seed=5, prioritized=True, alpha=alpha)
    random = np.random.default_rng(7)
    for turn in range(120):
        given = None if turn % 3 else random.uniform(0.01, 5.0, 9)
        fresh = 10 ** random.uniform(-6, 3, batch)
        drawn = []
        for adapter in (original, style):
            adapter.add_batch(keyed_columns(CARTPOLE, 9, 9 * turn), given)
            drawn.append(adapter.sample(batch))
        same(*drawn)
        for adapter, batch_drawn in zip((original, style), drawn, strict=True):
            adapter.update_priorities(batch_drawn["indexes"], fresh)


def test_a_late_update_changes_the_same_rows(pair) -> None:
    """If rows were added since the sample, Baselines changes the slot's new row, and ChainerRL changes a wrong row."""
    original, style = pair(seed=1, prioritized=True, alpha=1.0)
    for turn in range(60):
        drawn = []
        for adapter in (original, style):
            adapter.add(rows(CAPACITY if turn == 0 else 3, 1000 * turn))
            drawn.append(adapter.sample(8))
            adapter.add(rows(5, 1000 * turn + 500))
        same(*drawn)
        for adapter, batch in zip((original, style), drawn, strict=True):
            adapter.update_priorities(batch["indexes"], np.linspace(0.1, 4.0, 8))


def test_baselines_never_draws_the_last_slot() -> None:
    for cls in PAIRS["baselines"]:
        adapter = cls(Spec(CAPACITY, CARTPOLE, prioritized=True))
        adapter.add(rows(30))
        drawn = {index for _ in range(200) for index in adapter.sample(32)["indexes"]}
        assert drawn == set(range(29))


def test_chainerrl_loses_rows_whose_errors_were_applied_to_other_rows() -> None:
    """A batch is drawn, ten new rows replace the oldest ten, and the errors are then applied to other rows."""
    for cls in PAIRS["chainerrl"]:
        adapter = cls(Spec(CAPACITY, CARTPOLE, prioritized=True))
        adapter.add(rows(CAPACITY))
        batch = adapter.sample(20)
        out = {float(reward) for reward in batch["rew"]}
        newest = rows(10, 1000)
        adapter.add(newest)
        adapter.update_priorities(batch["indexes"], np.ones(20))
        kept = {step.rew for step in rows(CAPACITY)[10:]} | {step.rew for step in newest}
        seen = set()
        for _ in range(300):
            batch = adapter.sample(8)
            seen |= {float(reward) for reward in batch["rew"]}
            adapter.update_priorities(batch["indexes"], np.ones(8))
        never = kept - seen
        assert never and never <= out


@pytest.mark.parametrize("prioritized", [False, True])
def test_stored_rows_are_the_arrays_of_the_caller(pair, prioritized: bool) -> None:
    for adapter in pair(prioritized=prioritized):
        steps = rows(CAPACITY)
        adapter.add(steps)
        for step in steps:
            step.obs[:] = -1.0
        assert (adapter.sample(16)["obs"] == -1.0).all()


@pytest.mark.parametrize("priority", [0.0, -1.0, float("nan"), float("inf")])
def test_original_and_style_refuse_the_same_priorities(pair, priority: float) -> None:
    refused = []
    for adapter in pair(prioritized=True):
        adapter.add(rows(CAPACITY))
        batch = adapter.sample(2)
        try:
            adapter.update_priorities(batch["indexes"], np.array([1.0, priority]))
        except REFUSALS:
            refused.append(True)
        else:
            refused.append(False)
    assert refused[0] == refused[1]


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize(("stored", "batch"), [(0, 1), (1, 1), (1, 2), (3, 8)])
def test_original_and_style_refuse_the_same_batch_sizes(pair, stored: int, batch: int, prioritized: bool) -> None:
    answers = []
    for adapter in pair(prioritized=prioritized):
        adapter.add(rows(stored))
        try:
            answers.append(adapter.sample(batch))
        except REFUSALS:
            answers.append(None)
    if None in answers:
        assert answers == [None, None]
    else:
        same(*answers)


def test_chainerrl_refuses_a_second_sample_before_the_update() -> None:
    for cls in PAIRS["chainerrl"]:
        adapter = cls(Spec(CAPACITY, CARTPOLE, prioritized=True))
        adapter.add(rows(CAPACITY))
        adapter.sample(4)
        with pytest.raises(REFUSALS):
            adapter.sample(4)


@pytest.mark.parametrize("num_steps", [1, 3])
def test_n_step_rows_equal_those_of_chainerrl(num_steps: int) -> None:
    stored = []
    for cls in PAIRS["chainerrl"]:
        buffer = cls(Spec(CAPACITY, CARTPOLE)).buffer
        buffer = type(buffer)(CAPACITY, num_steps=num_steps)
        for i in range(40):
            buffer.append(state=i, action=-i, reward=float(i), next_state=i + 1, is_state_terminal=i % 7 == 3)
        stored.append([buffer.memory[i] for i in range(len(buffer))])
    assert stored[0] == stored[1]
    assert isinstance(buffer.memory, RandomAccessQueue)


def test_the_comparison_detects_a_difference(pair) -> None:
    """The control: a single changed row, or a different seed, is detected."""
    original, style = pair(seed=3)
    original.add(rows(CAPACITY))
    style.add(rows(CAPACITY, first=1))
    with pytest.raises(AssertionError):
        same(original.sample(16), style.sample(16))
    _, style = pair(seed=4)
    original, _ = pair(seed=3)  # made last, since it seeds the global random states from which the originals draw
    for adapter in (original, style):
        adapter.add(rows(CAPACITY))
    with pytest.raises(AssertionError):
        same(original.sample(16), style.sample(16))
