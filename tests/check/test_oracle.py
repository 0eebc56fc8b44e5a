"""What is wrong with a stack of frames, if it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from suites.check.probes.oracle import Judge, Wrong

STEPS = [100, 200, 201, 202, *range(300, 327)]


def judge() -> Judge:
    """Return the judge of a ring of 29 steps that overwrote 100 and 200."""
    when = np.full(1_000, -1)
    when[STEPS] = np.arange(len(STEPS))
    made = Judge.__new__(Judge)
    made.run = SimpleNamespace(when=when, steps=STEPS, capacity=29, env_of=lambda numbers: numbers * 0)
    return made


@pytest.mark.parametrize(
    ("frames", "wrong"),
    [
        ([201, 201, 201, 202], Wrong.BLANKED_OLD),  # padded with the oldest frame that is stored
        ([0, 0, 201, 202], Wrong.BLANKED_OLD),
        ([201, 201, 202, 202], Wrong.PADDING),
        ([322, 323, 323, 325], Wrong.STACK),
        ([324, 324, 324, 325], Wrong.BLANKED),
        ([100, 200, 201, 202], Wrong.STACK_OF_EPISODES),
    ],
)
def test_frames_that_were_overwritten_may_be_missing(frames, wrong):
    number = frames[-1]
    assert judge()._frame(np.array(frames), number, number % 100) is wrong


def test_other_padding_than_the_first_frame_is_wrong_while_that_is_stored():
    young = judge()
    young.run.steps = STEPS[:4]
    assert young._frame(np.array([201, 201, 201, 202]), 202, 2) is Wrong.PADDING
