"""Pauses and evaluations of a training, and its progress line."""

from __future__ import annotations

import os
import signal
from multiprocessing import connection, get_context

import pytest

from suites.apex_dqn.display import line, short
from suites.apex_dqn.progress import ENDED, Counters, Evaluation


def test_a_late_reply_to_an_earlier_pause_is_ignored(monkeypatch):
    progress = Counters(1)
    assert not progress.all_paused(0.0)
    monkeypatch.setattr("time.sleep", lambda _: progress.go_on())  # the pause ends while the explorer waits
    assert progress.may_add(0)
    monkeypatch.undo()
    assert not progress.all_paused(0.0)  # the explorer is about to add rows
    monkeypatch.setattr("time.sleep", lambda _: setattr(progress.stop, "value", True))
    assert not progress.may_add(0)
    assert progress.paused[0] == progress.pause.value


def test_an_explorer_that_ended_is_paused():
    progress = Counters(2)
    progress.paused[:] = [ENDED, 0]
    assert not progress.all_paused(0.0) and not progress.all_ended()
    progress.paused[1] = ENDED
    assert progress.all_paused(0.0) and progress.all_ended()


def test_an_evaluator_that_is_killed_while_it_reports_does_not_block_the_next():
    progress, context = Counters(1), get_context("fork")

    def report(dies):
        if dies:
            connection.Connection._send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        progress.evaluated.send(Evaluation(1.0, 2.0, 3))

    for dies in (True, False):
        evaluator = context.Process(target=report, args=(dies,), daemon=True)
        evaluator.start()
        evaluator.join(30)
        assert evaluator.exitcode == (-signal.SIGKILL if dies else 0)
    assert progress.evaluations.recv() == Evaluation(1.0, 2.0, 3) and not progress.evaluations.poll()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (999.6, "1.00k"), (1_234, "1.23k"), (99_960, "100k"), (999_499, "999k"), (4.567e6, "4.57M")],
)
def test_counts_are_abbreviated(count, shown):
    assert short(count) == shown


def test_the_progress_line_fits_into_80_columns():
    assert line(120.4, 487.25, 1_234_567, 12_345, 61_234, 512, 3) == (
        " 120 s  score 487.2  1.23M transitions 12.3k/s  61.2k steps 512/s  3 restarts"
    )
    assert len(line(9_999, -500.0, 12_345_678, 12_345, 123_456, 1_234, 10)) <= 80
