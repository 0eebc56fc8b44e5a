"""Sequences from shared buffers whose explorers are killed (`make windows` draws more)."""

import numpy as np
import pytest
from tqdm import tqdm

from cpprb_impl import MPReplayBuffer

from . import windows


def drawn(setting: windows.Setting, make=windows.made) -> windows.Outcome:
    return windows.run(setting, 1, kills=3, windows=20_000, bar=tqdm(disable=True), make=make)


@pytest.mark.slow
@pytest.mark.parametrize("setting", windows.settings(), ids=str)
def test_no_sequence_is_wrong_while_explorers_are_killed(setting):
    outcome = drawn(setting)
    assert outcome.is_good() and outcome.windows >= 20_000 and outcome.kills == 3 + windows.EXPLORERS, outcome


def crossing(setting: windows.Setting, seed: int):
    sequences = {"size": windows.SIZE, "ends": "cross"}
    return MPReplayBuffer(windows.CAPACITY, windows.FIELDS, n_envs=setting.n_envs, sequences=sequences, seed=seed)


def test_sequences_that_cross_ends_are_found():
    assert drawn(windows.Setting(False, 1, 16), crossing).wrong > 1000


def batch() -> dict[str, np.ndarray]:
    row = np.array([[5 << windows.STREAM_AT | 3 << windows.EPISODE_AT | step for step in range(4)]])
    is_first = np.array([[True, False, False, False]])
    return {
        "row": row[:, :, None],
        "twin": np.repeat(row[:, :, None], 5, axis=2),
        "done": np.zeros((1, 4, 1), bool),
        "is_first": is_first,
    }


def test_consecutive_whole_steps_are_right():
    assert windows.wrong(batch()) == 0


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [("row", (0, 2), 7), ("twin", (0, 2, 4), 0), ("done", (0, 1), True), ("is_first", (0, 1), True)],
)
def test_a_sequence_with_one_wrong_value_is_wrong(field, place, value):
    changed = batch()
    changed[field][place] = value
    assert windows.wrong(changed) == 1
