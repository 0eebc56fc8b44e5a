"""Two stopwatches that take turns: in threads here, in processes in a gate."""

from __future__ import annotations

import socket
import threading
import time
from functools import partial

import pytest

from suites.runner import turns
from suites.runner.turns import OtherSideEndedError, Turns


def side_by_side(*sides, begins=0):
    """Run each function with a stopwatch of its own; return what each returned or raised."""
    ends, outcomes = socket.socketpair(), [None, None]

    def run(place):
        watch = Turns(ends[place], begins=place == begins)
        try:
            outcomes[place] = sides[place](watch)
        except BaseException as error:
            outcomes[place] = error

    threads = [threading.Thread(target=run, args=[place]) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    for end in ends:
        end.close()
    return outcomes


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(turns, "ROUND_SECONDS", 0.004)
    monkeypatch.setattr(turns, "CALIBRATION_SECONDS", 0.002)


def figure(run):
    def measured(watch):
        try:
            return watch.per_call(run)
        finally:
            watch.end()

    return measured


@pytest.mark.parametrize("begins", [0, 1])
def test_stopwatches_alternate_and_make_equally_many_calls(begins):
    working, seen, calls = [], [], [[], []]

    def work(place):
        def run(count):
            working.append(place)
            time.sleep(0.0002 * count)
            seen.append(tuple(working))
            working.remove(place)
            calls[place].append(count)

        return run

    first, second = side_by_side(figure(work(0)), figure(work(1)), begins=begins)
    assert first > 0 and second > 0
    in_turns = [each for each in seen if each[-1:]]
    # The first call of each side is not timed, and may happen while the other side still prepares.
    assert all(len(each) == 1 for each in in_turns[2:])
    assert calls[0][-1] == calls[1][-1] and len(set(calls[0][-1:] + calls[1][-1:])) == 1


def test_the_slower_side_has_the_larger_figure():
    fast, slow = side_by_side(
        figure(lambda count: time.sleep(0.0002 * count)), figure(lambda count: time.sleep(0.002 * count))
    )
    assert slow > 2 * fast


def fail(_watch):
    raise ValueError("no figure")


@pytest.mark.parametrize("begins", [0, 1])
def test_a_figure_that_is_missing_on_one_side_is_skipped_by_both(begins):
    def measured(broken):
        def both(watch):
            outcomes = []
            for number in range(3):
                try:
                    if number == 1 and broken:
                        raise ValueError("no figure")
                    outcomes.append(watch.per_call(lambda count: time.sleep(0.0001 * count)) > 0)
                except (ValueError, OtherSideEndedError) as error:
                    outcomes.append(type(error))
                finally:
                    watch.end()
            return outcomes

        return both

    assert side_by_side(measured(False), measured(True), begins=begins) == [
        [True, OtherSideEndedError, True],
        [True, ValueError, True],
    ]


@pytest.mark.parametrize("begins", [0, 1])
def test_a_process_that_has_ended_does_not_block_the_other(begins):
    ends = socket.socketpair()
    ends[1].close()
    watch = Turns(ends[0], begins=begins == 0)
    with pytest.raises(OtherSideEndedError):
        watch.per_call(lambda count: None)
    watch.end()
    ends[0].close()


def test_waiting_for_a_processor_is_not_part_of_a_figure(monkeypatch):
    waited = iter([1.0, 1.5, 2.0, 2.0])
    monkeypatch.setattr(turns, "_waited", lambda: next(waited))
    assert turns._seconds_without_waiting(lambda: None) == pytest.approx(-0.5, abs=0.4)
    assert turns._seconds_without_waiting(lambda: time.sleep(0.01)) == pytest.approx(0.01, abs=0.4)


def test_the_kernel_reports_how_long_a_thread_waited():
    if not turns.WAITED.exists():
        pytest.skip(f"this kernel has no {turns.WAITED}")
    assert turns._waited() >= 0


@pytest.mark.parametrize(("without", "loads"), [(None, True), ("caches", False)])
def test_a_study_can_time_the_first_calls_of_a_turn(without, loads, monkeypatch):
    monkeypatch.setattr(turns, "WITHOUT", without)
    calls = [[], []]

    def run(place, count):
        calls[place].append(count)
        time.sleep(0.0001 * count)

    side_by_side(*(figure(partial(run, place)) for place in (0, 1)))
    *_, loading, timed = calls[0]
    assert (loading < timed) == loads and loading > 0


def test_a_study_can_count_waiting(monkeypatch):
    monkeypatch.setattr(turns.Path, "read_text", lambda _: "0 7000000000 0")
    assert turns._waited() == 7.0
    monkeypatch.setattr(turns, "WITHOUT", "waiting")
    assert turns._waited() == 0.0
