"""N-step transitions in buffers: failed calls, priorities, next_of, and agreement with cpprb."""

from __future__ import annotations

import copy
import itertools
import signal
import threading
import time

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .jobs import WIDE, WIDE_ENV_DICT, add_wide_for_ever, explorers, kill, wait_until
from .test_copies import WAYS
from .test_nstep import FIELDS, Model, nstep, same, steps

KINDS = [ReplayBuffer, PrioritizedReplayBuffer]
EVERY_KIND = [*KINDS, MPReplayBuffer, MPPrioritizedReplayBuffer]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"obs": np.zeros((2, 3))}, ValueError, "obs"),
        ({"rew": np.zeros((3, 2))}, ValueError, "rew"),
        ({"tag": ["a", "b"]}, ValueError, "tag"),
        ({"next_obs": [[1, 2], [3]]}, ValueError, "next_obs"),
        ({"done": []}, ValueError, "done"),
        ({"done": None}, None, None),
    ],
)
@pytest.mark.parametrize("waiting", [0, 1, 3])
def test_a_failed_add_changes_nothing(kind, change, error, text, waiting):
    buffer, model = kind(30, FIELDS, Nstep=nstep(4)), Model(4, 0.5)
    if waiting:
        buffer.add(**steps([0] * waiting))
        model.add(**steps([0] * waiting))
    bad = {**steps([0, 0], 100), **change}
    if error is None:  # because a field is missing
        del bad["done"]
        error, text = KeyError, "done"
    with pytest.raises(error, match=text):
        buffer.add(**bad)
    with pytest.raises(TypeError):
        buffer.add(1)
    for target in (buffer, model):
        target.add(**steps([0, 0, 1, 0, 0], waiting))
        target.on_episode_end()
    same(model, buffer.get_all_transitions())


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize("bad", [[1.0], [1.0, np.nan], [-1.0, 1.0], [1.0, np.inf], ["a", "b"], [[1], [2, 3]]])
def test_bad_priorities_of_pending_steps_change_nothing(bad, kind):
    buffer = kind(30, FIELDS, Nstep=nstep(4))
    with pytest.raises(ValueError, match="priorities"):
        buffer.add(**steps([0, 0]), priorities=bad)
    buffer.on_episode_end()
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_failed_store_leaves_the_window_unchanged(kind):
    buffer = kind(30, FIELDS, Nstep=nstep(3))
    buffer.add(**steps([0, 0]))
    before = buffer._get_pending()
    buffer.close()
    with pytest.raises(ValueError, match="closed"):
        buffer.add(**steps([0, 0], 2))
    with pytest.raises(ValueError, match="closed"):
        buffer.on_episode_end()
    after = buffer._get_pending()
    assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


def test_names_that_are_not_fields_are_ignored():
    buffer = ReplayBuffer(9, FIELDS, Nstep=nstep(2))
    assert buffer.add(**steps([0, 0]), priorities=[1], other=object()) == 0


def test_reading_a_value_may_add_to_the_same_buffer():
    buffer, model = ReplayBuffer(30, FIELDS, Nstep=nstep(3)), Model(3, 0.5)

    class Nested:
        def __array__(self, dtype=None, copy=None):
            buffer.add(**steps([0] * 4, 100))
            return np.zeros((1, 2))

    buffer.add(**{**steps([0]), "obs": Nested()})
    model.add(**steps([0] * 4, 100))
    model.add(**{**steps([0]), "obs": np.zeros((1, 2))})
    same(model, buffer.get_all_transitions())


def test_concurrent_threads_lose_no_step():
    fields = {"x": {"dtype": np.int64}, "done": {}}
    buffer = ReplayBuffer(10_000, fields, Nstep={"size": 3})

    def add(first):
        for i in range(first, first + 1000):
            buffer.add(x=i, done=0)

    threads = [threading.Thread(target=add, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.on_episode_end()
    assert sorted(buffer.get_all_transitions()["x"].ravel()) == list(range(4000))


def test_threads_waiting_in_a_locked_store_lose_no_step():
    """Storing releases the GIL, and other threads then find the window in use."""
    count, fields = 400, {"x": {"dtype": np.int64}, "wide": {"shape": 4000}, "done": {}}
    buffer = MPReplayBuffer(4 * count, fields, Nstep={"size": 3}, lock="buffer")
    buffer.add(x=[-1, -1, -1], wide=np.zeros((3, 4000)), done=[1, 1, 1])
    stop = threading.Event()

    def sample():
        while not stop.is_set():
            buffer.sample(100)  # 1.6 MB, copied while other threads run, with the lock held

    def add(first):
        for x in range(first, first + count):
            buffer.add(x=x, wide=np.full(4000, x, np.float32), done=0)

    learner = threading.Thread(target=sample)
    threads = [threading.Thread(target=add, args=(count * k,)) for k in range(3)]
    for thread in (learner, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    learner.join()
    buffer.on_episode_end()
    rows = buffer.get_all_transitions()
    assert sorted(rows["x"].ravel()) == [-1, -1, -1, *range(3 * count)]
    assert (rows["wide"][3:] == rows["x"][3:]).all()
    buffer.close()


class AlarmError(Exception):
    pass


def test_an_add_that_is_interrupted_while_it_waits_leaves_the_window():
    buffer = MPReplayBuffer(30, WIDE_ENV_DICT, Nstep={"size": 2}, lock="buffer")
    row = {"obs": np.zeros(WIDE), "act": 0, "rew": 0.0, "next_obs": [0, 0], "done": 0}

    def alarm(*_):
        raise AlarmError

    old = signal.signal(signal.SIGALRM, alarm)
    interrupted = 0
    try:
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=12) as (processes, added):
            wait_until(lambda: added[0].value > 0)
            give_up = time.monotonic() + 60
            for number in itertools.count():
                before = buffer._get_pending()["act"].ravel().tolist()
                kill(processes[0], signal.SIGSTOP)  # this process usually has the lock
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.08)
                    buffer.add(**{**row, "act": number})
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    expected = [number]
                except AlarmError:
                    interrupted += 1
                    expected = before
                kill(processes[0], signal.SIGCONT)
                assert buffer._get_pending()["act"].ravel().tolist() == expected
                if interrupted == 3 or time.monotonic() > give_up:
                    break
                time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        buffer.close()
    assert interrupted == 3


def priorities_of(buffer):
    batch = buffer.sample(2000, beta=1.0)
    pairs = zip(batch["tag"].ravel().tolist(), (1 / batch["weights"]).tolist(), strict=True)
    smallest = dict(pairs)
    return {tag: smallest[tag] for tag in sorted(smallest)}


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_each_transition_gets_the_priority_of_its_first_step(batch):
    buffer = PrioritizedReplayBuffer(30, FIELDS, Nstep=nstep(3), alpha=1.0, eps=0.0, seed=0)
    for first in range(0, 6, batch):
        numbers = np.arange(first, first + batch)
        buffer.add(**steps([0] * batch, first), priorities=numbers + 1.0)
    assert priorities_of(buffer) == pytest.approx({0: 1, 1: 2, 2: 3, 3: 4})
    buffer.on_episode_end()
    assert priorities_of(buffer) == pytest.approx({i: i + 1 for i in range(6)})
    assert buffer.get_max_priority() == 6


def test_steps_without_a_priority_get_the_largest_when_they_are_stored():
    buffer = PrioritizedReplayBuffer(30, FIELDS, Nstep=nstep(3), alpha=1.0, eps=0.0, seed=0)
    buffer.add(**steps([0, 0, 0, 0]), priorities=[1, 2, 4, 8])  # stores transitions 0 and 1
    buffer.add(**steps([0, 0], 4))  # stores transitions 2 and 3
    assert buffer.get_max_priority() == 8
    buffer.add(**steps([0], 6), priorities=[0.5])
    buffer.add(**steps([0], 7))
    buffer.on_episode_end()
    assert priorities_of(buffer) == pytest.approx({0: 2, 1: 4, 2: 8, 3: 16, 4: 16, 5: 16, 6: 1, 7: 16})


def test_sampling_an_empty_prioritized_buffer_is_an_error():
    """cpprb returns rows that were never written, with weights of NaN."""
    buffer = PrioritizedReplayBuffer(30, FIELDS, Nstep=nstep(3))
    buffer.add(**steps([0, 0]))
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(4)


def test_a_field_called_priorities_is_a_field():
    fields = {"done": {}, "priorities": {}}
    buffer = ReplayBuffer(9, fields, Nstep={"size": 2})
    buffer.add(done=[0, 0, 0], priorities=[-1, -2, -3])
    assert buffer.get_all_transitions()["priorities"].ravel().tolist() == [-1, -2]
    with pytest.raises(ValueError, match="priorities"):
        PrioritizedReplayBuffer(9, fields, Nstep={"size": 2})


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("next_of", ["obs", ["obs"], ("obs", "tag")])
def test_next_of_contains_the_value_of_the_last_step(kind, next_of):
    """cpprb silently drops next_*. In ours, it is an argument of add, and stored from the last step of the window."""
    fields = {name: field for name, field in FIELDS.items() if name != "next_obs"}
    buffer, model = kind(30, fields, Nstep=nstep(3), next_of=next_of), Model(3, 0.5)
    more = {"next_tag": np.arange(6) + 7.0} if "tag" in next_of else {}
    for target in (buffer, model):
        target.add(**steps([0, 0, 1, 0, 0, 0]), **more)
        target.on_episode_end()
    same(model, buffer.get_all_transitions())
    assert "next_obs" in buffer.sample(2)
    with pytest.raises(KeyError, match="next_obs"):
        buffer.add(**{name: value for name, value in steps([0]).items() if name != "next_obs"}, **more)


def test_next_of_an_unknown_field_is_refused():
    with pytest.raises(KeyError, match="state"):
        ReplayBuffer(9, FIELDS, Nstep=nstep(2), next_of="state")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_its_own_window(kind, way):
    buffer, model = kind(30, FIELDS, Nstep=nstep(3)), Model(3, 0.5)
    for target in (buffer, model):
        target.add(**steps([0, 0, 0, 0]))
    other, twin = WAYS[way](buffer), copy.deepcopy(model)
    assert other.is_Nstep()
    for target, first, dones in ((buffer, 4, [0, 1]), (model, 4, [0, 1]), (other, 50, [0]), (twin, 50, [0])):
        target.add(**steps(dones, first))
        target.on_episode_end()
    same(model, buffer.get_all_transitions())
    same(twin, other.get_all_transitions())


def test_create_buffer_and_reverse_buffers_support_n_step():
    for prioritized in (False, True):
        assert cpprb_impl.create_buffer(9, FIELDS, prioritized=prioritized, Nstep=nstep(2)).is_Nstep()
    buffer = cpprb_impl.ReverseReplayBuffer(9, FIELDS, stride=1, Nstep=nstep(2))
    buffer.add(**steps([0, 0, 0]))
    assert buffer.sample(2)["tag"].ravel().tolist() == [1, 0]


@pytest.mark.parametrize("options", [{}, {"Nstep": nstep(2)}])
def test_add_is_the_native_method(options):
    """No Python code runs in `add`: `_add_through` of a class is called only for fields of objects."""
    assert ReplayBuffer.add is cpprb_impl._native.Ring.add

    class Watched(ReplayBuffer):
        def _add_through(self, **rows):
            raise AssertionError

    assert Watched(9, FIELDS, **options).add(**steps([0, 0])) == 0
    with pytest.raises(AssertionError):
        Watched(9, {**FIELDS, "thing": {"dtype": object}}, **options).add(**steps([0]), thing=None)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer"])
def test_rows_agree_with_cpprb_where_cpprb_is_right(kind, seed):
    """Compares whole episodes without done, several steps per call, except the next_* of their last rows."""
    cpprb = pytest.importorskip("cpprb")
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    theirs, ours = (getattr(m, kind)(37, FIELDS, Nstep=nstep(size)) for m in (cpprb, cpprb_impl))
    added, tails = 0, []
    for _ in range(12):
        for count in rng.integers(1, 4, size=int(rng.integers(4, 9))):
            batch = steps([0] * int(count), added)
            added += int(count)
            assert ours.add(**copy.deepcopy(batch)) == theirs.add(**batch)
            assert ours.get_stored_size() == theirs.get_stored_size()
            assert ours.get_next_index() == theirs.get_next_index()
        for buffer in (theirs, ours):
            buffer.on_episode_end()
        tails += range(added - size + 1, added)
    theirs, ours = theirs.get_all_transitions(), ours.get_all_transitions()
    assert list(ours) == list(theirs)
    tail = np.isin(ours["tag"].ravel(), tails)
    for name in theirs:
        assert ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape
        rows = ~tail if name == "next_obs" else slice(None)
        assert ours[name][rows] == pytest.approx(theirs[name][rows], rel=1e-5)
    assert (theirs["next_obs"][tail] != ours["next_obs"][tail]).any()  # cpprb never sets them


def stored(module, kind, size, dones, **options):
    buffer = getattr(module, kind)(64, FIELDS, Nstep=nstep(size), **options)
    for i, done in enumerate(dones):
        buffer.add(**steps([done], i))
    buffer.on_episode_end()
    return buffer.get_all_transitions()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_done_includes_the_last_step_of_the_window(size):
    """cpprb 11.0.0 ignores that step, so that a learner bootstraps beyond a terminal state."""
    cpprb = pytest.importorskip("cpprb")
    dones = [0] * 8 + [1]
    theirs, ours = (stored(module, "ReplayBuffer", size, dones) for module in (cpprb, cpprb_impl))
    assert ours["done"].ravel().tolist() == [i + size > 8 for i in range(9)]
    assert not theirs["done"][9 - size]
    assert theirs["rew"] == pytest.approx(ours["rew"])  # the sums of rewards are right in cpprb


def test_several_dones_within_a_window_count_once():
    cpprb = pytest.importorskip("cpprb")
    fields = {"done": {}}
    largest = []
    for module in (cpprb, cpprb_impl):
        buffer = module.ReplayBuffer(64, fields, Nstep={"size": 6})
        for i in range(20):
            buffer.add(done=i % 3 == 0)
        buffer.on_episode_end()
        largest.append(buffer.get_all_transitions()["done"].max())
    assert largest[0] > 1
    assert largest[1] == 1
