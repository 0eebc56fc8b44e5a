"""A buffer that cannot be filled in time is reported at the time limit, or as soon as this is certain."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from adapters.base import Spec
from adapters.checks import keyed_columns
from adapters.peers.cpprb import adapter as cpprb
from suites.runner import filling
from suites.runner.filling import TooSlow, fill
from suites.workloads.cartpole import FIELDS


class Slow:
    """Takes a given number of seconds, on a simulated clock, for each call of 1,000 rows."""

    contract = cpprb.CONTRACT

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds, self.now, self.rows, self.extra = seconds, 0.0, 0, iter(())
        monkeypatch.setattr(filling, "time", SimpleNamespace(monotonic=lambda: self.now))

    def add_batch(self, columns, priorities) -> None:
        self.now += self.seconds + next(self.extra, 0.0)
        self.rows += len(columns["done"])

    def __len__(self) -> int:
        return 10_000


SPEC = Spec(10_000, FIELDS)
COLUMNS = keyed_columns(FIELDS, 10_000)
RECORDING = SimpleNamespace(columns=COLUMNS, transitions=10_000, row_bytes=49)


@pytest.mark.parametrize("seconds", [0.9, 1.1])
def test_a_buffer_that_is_full_within_the_limit_is_filled(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(seconds, monkeypatch)
    fill(slow, SPEC, RECORDING, 10)
    assert slow.rows == 10_000


def test_the_first_call_may_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(0.8, monkeypatch)
    slow.extra, slow.contract = iter([60.0, 2.0]), replace(slow.contract, compiles=True)
    fill(slow, SPEC, RECORDING, 10)
    assert slow.rows == 10_000 and slow.now > 60


def test_a_slightly_slow_buffer_is_filled_until_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(1.3, monkeypatch)
    with pytest.raises(TooSlow, match="10,000 rows: not full after 10 s"):
        fill(slow, SPEC, RECORDING, 10)
    assert slow.rows == 9_000


def test_filling_is_abandoned_early_if_it_cannot_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(2.5, monkeypatch)
    with pytest.raises(TooSlow, match=r"10,000 rows: adding 1,000 took 2\.5 s, and the limit for all is 10 s"):
        fill(slow, SPEC, RECORDING, 10)
