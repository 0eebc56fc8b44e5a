"""Transitions whose fields are all computed from one number, so that a mixed or torn row is detected."""

from __future__ import annotations

import numpy as np

ENV_DICT = {
    "obs": {"shape": 4},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": (4,)},
    "done": {"dtype": bool},
}


def make_rows(first: int, count: int, width: int = 4) -> dict[str, np.ndarray]:
    """Return rows number `first` to `first + count - 1`. Numbers below 2^24 are exact in float32."""
    number = np.arange(first, first + count)
    wide = np.repeat(number[:, None], width, axis=1)
    return {
        "obs": wide.astype(np.float32),
        "act": number.astype(np.int64),
        "rew": -number.astype(np.float32),
        "next_obs": (wide + 1).astype(np.float32),
        "done": number % 3 == 0,
    }


def numbers_of(batch: dict[str, np.ndarray]) -> np.ndarray:
    """Return the numbers of the rows. Raises AssertionError if the fields of a row do not belong together."""
    torn = torn_rows(batch)
    assert not torn.any(), f"{torn.sum()} of {len(torn)} rows are torn"
    return batch["act"].ravel()


def torn_rows(batch: dict[str, np.ndarray]) -> np.ndarray:
    number = batch["act"].ravel()
    return ~(
        (batch["obs"] == number[:, None]).all(axis=1)
        & (batch["next_obs"] == number[:, None] + 1).all(axis=1)
        & (batch["rew"].ravel() == -number)
        & (batch["done"].ravel() == (number % 3 == 0))
    )


def stored_numbers(buffer) -> list[int]:
    return sorted(numbers_of(buffer.get_all_transitions()))
