"""A short soak of every setting finds no fault; the same job on cpprb must find some."""

from __future__ import annotations

import pytest

from cpprb_impl.layout.options import LOCKS

from . import certified
from .certified import NARROW
from .fleet import fleet
from .soak import Setting, settings, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.mark.parametrize("setting", [*settings(list(LOCKS))], ids=str)
def test_no_row_is_lost_or_torn(setting: Setting):
    outcome = soak(setting, seconds=0.3, writers=4)
    assert outcome.is_clean(), outcome


class WithoutOut:
    """cpprb's buffer with our interface: it ignores `out`, and raises our error if it is empty."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.add = buffer.add

    def sample(self, batch_size, out):
        if self.buffer.get_stored_size() == 0:
            raise ValueError("empty")
        return self.buffer.sample(batch_size)


def test_the_same_job_finds_torn_or_unwritten_rows_in_cpprb():
    """The negative control, which is repeated if cpprb's learner hangs."""
    cpprb = pytest.importorskip("cpprb")
    faults = {}
    for _ in range(10):
        buffer = WithoutOut(cpprb.MPReplayBuffer(64, certified.env_dict(NARROW)))
        with fleet(buffer, 4, 1, NARROW, 20, 32, prioritized=False) as ships:
            ships.start()
            faults = ships.faults_within(seconds=10)
        if faults:
            break
    assert faults.keys() & {"torn", "unwritten"}, faults
