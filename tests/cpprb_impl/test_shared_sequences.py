"""Sequences from buffers shared by processes: the model's, whatever other processes, threads and children add."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

from .sequence_pairs import ALPHA, EPS, FIELDS, SHAPES, SharedPair, SharedPrioritizedPair, named

KINDS = [SharedPair, SharedPrioritizedPair]
STEPS = {"explorer": {"dtype": int}, "stream": {"dtype": int}, "step": {"dtype": int}, "done": {"dtype": bool}}
fork = multiprocessing.get_context("fork")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_exactly_the_sequences_of_the_model_can_be_drawn(shape, kind):
    streams = 1 + SHAPES.index(shape) % 3
    rng = np.random.default_rng([streams, *map(ord, named(shape))])
    pair = kind(12 * streams + 1, streams, **shape)  # its rows need not be a multiple of the streams
    for step in range(100):
        pair.add(rng, int(rng.choice([1, 1, 2, 7, 30])), ends=float(rng.choice([0, 0.2, 0.6])))
        pair.interrupt(rng)
        if step % 3 == 0:
            pair.check()
        if step % 4 == 0 and shape["ends"] != "cross":
            pair.check_episodes()
    pair.buffer.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES[::3], ids=named)
def test_streams_may_step_out_of_turn(shape, kind):
    rng = np.random.default_rng([*map(ord, named(shape))])
    pair = kind(30, 3, **shape)
    for step in range(100):
        pair.add_some(rng) if rng.random() < 0.9 else pair.add(rng)
        pair.interrupt(rng)
        if step % 3 == 0:
            pair.check()
    pair.buffer.close()


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("shape", SHAPES[1::3], ids=named)
def test_every_sequence_is_drawn_equally_often(shape, time_major):
    rng = np.random.default_rng(3)
    pair = SharedPair(90, 3, **shape)
    pair.add(rng, 50, ends=0.15)
    pair.check_frequencies(time_major=time_major)


def test_every_episode_is_drawn_equally_often_and_may_be_padded():
    pair = SharedPair(300, 2, size=1)
    pair.add(np.random.default_rng(2), 160, ends=0.1)
    pair.check_frequencies_of_episodes()


@pytest.mark.parametrize("shape", SHAPES[1::5], ids=named)
def test_draws_and_weights_follow_the_priorities(shape):
    rng = np.random.default_rng(1)
    pair = SharedPrioritizedPair(60, 2, **shape)
    pair.add(rng, 29, ends=0.15)
    numbers = pair.buffer.get(np.arange(58))["number"][:, 0]
    ends = np.flatnonzero(np.isin(numbers, [*pair.ends()]))
    priorities = rng.random(len(ends)) * 3
    pair.drawn(1)  # priorities of rows that this process has seen
    pair.buffer.update_priorities(ends, priorities)
    leaves = dict(zip(numbers[ends].tolist(), (priorities + EPS) ** ALPHA, strict=True))
    draws = 60_000
    last = [max(each) for each in pair.drawn(draws, beta=0.6)]
    counts = np.bincount(last, minlength=max(leaves) + 1)[[*leaves]]
    assert counts.sum() == draws
    assert stats.chisquare(counts, draws * np.array([*leaves.values()]) / sum(leaves.values())).pvalue > 1e-6
    expected = (np.array([leaves[each] for each in last]) / min(leaves.values())) ** -0.6
    np.testing.assert_allclose(pair.batch["weights"], expected, rtol=1e-4)


def test_weights_without_normalization_are_relative_to_the_mean_over_sequences():
    """Not over rows, with some of which no sequence ends."""
    buffer = MPPrioritizedReplayBuffer(200, STEPS, sequences={"size": 4}, alpha=1, eps=0, normalize=None)
    buffer.add(**steps(0, 0, 100), priorities=np.arange(1, 101))
    ends = np.array([step for step in range(100) if step % 7 >= 3])
    batch = buffer.sample_sequences(64, beta=0.5)
    expected = ((batch["step"][:, -1, 0] + 1) / (ends + 1).mean()) ** -0.5
    np.testing.assert_allclose(batch["weights"], expected, rtol=1e-5)


def test_weights_count_sequences_that_lost_a_step_but_fewer_of_a_stream_than_a_sequence_has_steps():
    """Until they are drawn, or all sequences are counted."""
    size, streams, rng = 4, 3, np.random.default_rng(5)
    options = {"sequences": {"size": size}, "n_envs": streams, "alpha": 1, "eps": 0, "normalize": None}
    buffer, at, lost = MPPrioritizedReplayBuffer(90, STEPS, **options), 0, []
    for turn in range(150):
        if turn % 20 == 19:
            buffer.clear()
        for _ in range(2):
            count = int(rng.integers(4, 12))
            buffer.add(**steps(0, at, count, streams, episode=20))
            at += count
        priorities = rng.choice([0, 1, 3], 30)
        drawn = buffer.sample_sequences(30)["indexes"]
        if turn % 2:
            buffer.update_priorities(drawn, priorities)
        else:
            other = fork.Process(target=buffer.update_priorities, args=(rng.integers(0, 90, 30), priorities))
            other.start()
            other.join()
        buffer.add(**steps(0, at, 2, streams, episode=20))
        at += 2
        counted = buffer._draw_sequences(1)[3]
        valid = buffer.get_valid_sequences()
        lost.append(counted - valid)
        assert buffer._draw_sequences(1)[3] == valid
    assert min(lost) == 0 < max(lost) <= streams * (size - 1)
    buffer.close()


def test_errors_of_steps_become_priorities_and_only_of_the_sequences_that_were_drawn():
    pair = SharedPrioritizedPair(30, size=3, options={"alpha": 1, "eps": 0})
    pair.add(np.random.default_rng(0), 20, ends=0)
    (drawn,) = pair.drawn(1)
    index = pair.batch["indexes"]
    pair.buffer.update_priorities(index, [[1.0, -7.0, 1.0]])
    assert pair.buffer._get_leaves(index) == pytest.approx(0.9 * 7 + 0.1 * 3)
    pair.drawn(1)
    pair.buffer.update_priorities([0, 1], [50.0, 50.0])  # with these, no sequence ends
    assert pair.buffer.get_max_priority() == pytest.approx(0.9 * 7 + 0.1 * 3)
    assert all(max(each) > 1 for each in pair.drawn(200))
    assert max(drawn) > 1


def steps(explorer: int, first: int, count: int, envs: int = 1, episode: int = 7) -> dict[str, np.ndarray]:
    """Return consecutive steps of an explorer's streams, all in turn."""
    step = np.repeat(np.arange(first, first + count), envs)
    stream = np.tile(np.arange(envs), count)
    return {
        "explorer": np.full(len(step), explorer),
        "stream": stream,
        "step": step,
        "done": step % episode == episode - 1,
    }


def check_windows(batch: dict[str, np.ndarray], episode: int = 7, *, cross: bool = False) -> None:
    """Each sequence is of one stream and, unless sequences cross ends, of one episode, without a gap."""
    explorer, stream, step = (batch[name][..., 0] for name in ("explorer", "stream", "step"))
    assert (explorer == explorer[:, :1]).all() and (stream == stream[:, :1]).all()
    assert (np.diff(step, axis=1) == 1).all()
    assert cross or (step // episode == step[:, :1] // episode).all()
    np.testing.assert_array_equal(batch["is_first"], step % episode == 0)


def explore(buffer, explorer: int, enough) -> None:
    rng = np.random.default_rng(explorer)
    at = 0
    while not enough.is_set():
        count = int(rng.integers(1, 40))
        buffer.add(**steps(explorer, at, count, envs=2))
        at += count


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_learner_gets_whole_sequences_while_processes_add(start):
    buffer = MPReplayBuffer(600, STEPS, n_envs=2, sequences={"size": 4})
    context = multiprocessing.get_context(start)
    enough = context.Event()
    explorers = [context.Process(target=explore, args=(buffer, k, enough), daemon=True) for k in range(3)]
    for each in explorers:
        each.start()
    seen, batches = set(), 0
    while (len(seen) < 3 or batches < 300) and all(each.is_alive() for each in explorers):
        if buffer.get_valid_sequences() > 0:
            batch = buffer.sample_sequences(64)
            check_windows(batch)
            seen |= {*batch["explorer"][:, 0, 0].tolist()}
            batches += 1
    enough.set()
    for each in explorers:
        each.join()
    assert [each.exitcode for each in explorers] == [0, 0, 0] and seen == {0, 1, 2}
    rows = buffer.get_all_transitions()
    held = {*zip(*(rows[name][:, 0].tolist() for name in ("explorer", "stream", "step")), strict=True)}
    whole = [(e, s, t) for e, s, t in held if t % 7 >= 3 and all((e, s, t - i) in held for i in range(4))]
    valid = buffer.get_valid_sequences()
    assert 0 < valid <= len(whole)  # a row that was stored after its turn continues none, and no row continues it
    last = buffer.sample_sequences(60 * valid)
    ends, counts = np.unique(
        np.stack([last[n][:, -1, 0] for n in ("explorer", "stream", "step")]), axis=1, return_counts=True
    )
    assert {*zip(*ends.tolist(), strict=True)} <= {*whole} and len(counts) == valid
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_no_sequence_is_lost_while_processes_add_and_none_laps_the_buffer(start):
    buffer = MPReplayBuffer(60_000, STEPS, n_envs=2, sequences={"size": 4})
    context = multiprocessing.get_context(start)
    explorers = [context.Process(target=add_steps, args=(buffer, k, 700), daemon=True) for k in range(3)]
    for each in explorers:
        each.start()
    for each in explorers:
        each.join()
    assert [each.exitcode for each in explorers] == [0, 0, 0] and buffer.get_stored_size() == 3 * 700 * 7 * 2
    ends = sum(step % 7 >= 3 for step in range(7 * 700 - 3))  # of sequences in one stream; none ends before step 0
    assert buffer.get_valid_sequences() == 3 * 2 * ends


def add_steps(buffer, explorer: int, calls: int) -> None:
    """Add seven steps of two streams with each call, so that most episodes are of two calls."""
    for at in range(-3, 7 * calls - 3, 7):
        buffer.add(**steps(explorer, at, 7, envs=2))


def test_a_forked_child_begins_streams_of_its_own():
    buffer = MPReplayBuffer(100, STEPS, sequences={"size": 3, "ends": "cross"})
    buffer.add(**steps(0, 0, 5))
    child = fork.Process(target=buffer.add, kwargs=steps(1, 0, 5))
    child.start()
    child.join()
    buffer.add(**steps(0, 5, 5))  # the parent's stream goes on
    assert buffer.get_valid_sequences() == 3 + 8
    batch = buffer.sample_sequences(300)
    assert (batch["explorer"] == batch["explorer"][:, :1]).all() and (np.diff(batch["step"][..., 0], axis=1) == 1).all()
    firsts = batch["is_first"][batch["explorer"][..., 0] == 1]
    assert firsts.any() and not firsts.all()


def test_threads_of_a_process_may_each_add_an_environment():
    buffer = MPReplayBuffer(4_000, STEPS, n_envs=3, sequences={"size": 5})

    def play(env: int) -> None:
        for at in range(800):
            buffer.add(env_ids=[env], **{name: value[:1] for name, value in steps(env, at, 1).items()})

    threads = [threading.Thread(target=play, args=(env,)) for env in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert buffer.get_valid_sequences() == 3 * (800 // 7 * 3)
    check_windows(buffer.sample_sequences(2_000))


WIDE = {**STEPS, "wide": {"shape": 50_000}}  # calls that write several rows let other threads run


def wide(explorer: int, first: int, count: int) -> dict[str, np.ndarray]:
    return {**steps(explorer, first, count), "wide": np.full((count, 50_000), explorer, np.float32)}


def test_threads_that_add_long_rows_at_the_same_time_keep_their_streams():
    buffer = MPReplayBuffer(600, WIDE, n_envs=2, sequences={"size": 4})

    def play(env: int) -> None:
        for at in range(0, 288, 16):
            buffer.add(env_ids=[env] * 16, **wide(env, at, 16) | {"stream": np.full(16, env)})

    threads = [threading.Thread(target=play, args=(env,)) for env in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert buffer.get_valid_sequences() == 2 * (288 // 7 * 4)
    check_windows(buffer.sample_sequences(500))
    buffer.close()


def test_threads_that_sample_long_rows_at_the_same_time_get_their_own_batches():
    buffer = MPReplayBuffer(600, WIDE, sequences={"size": 4})
    for at in range(0, 592, 16):
        buffer.add(**wide(0, at, 16))
    wrong = []

    def learn() -> None:
        for _ in range(15):
            batch = buffer.sample_sequences(8)
            if not (batch["wide"][..., 0] == 0).all() or (np.diff(batch["step"][..., 0], axis=1) != 1).any():
                wrong.append(batch["step"])

    threads = [threading.Thread(target=learn) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    buffer.close()


def add_wide_for_ever(buffer, explorer: int) -> None:
    for at in itertools.count(0, 12):
        buffer.add(**wide(explorer, at, 12))


def test_a_row_whose_slot_a_stopped_process_holds_is_in_no_sequence_with_others():
    """The row is stored later, after the rows that follow it."""
    buffer = MPReplayBuffer(192, WIDE, sequences={"size": 4})
    child = fork.Process(target=add_wide_for_ever, args=(buffer, 1), daemon=True)
    child.start()
    for lap in range(15):
        time.sleep(0.02)
        os.kill(child.pid, signal.SIGSTOP)
        for at in range(0, 200, 10):  # a little more than the buffer holds
            buffer.add(**wide(0, 200 * lap + at, 10))
        check_windows(buffer.sample_sequences(300))
        os.kill(child.pid, signal.SIGCONT)
    child.kill()
    child.join()
    buffer.close()


def test_episodes_are_whole_while_explorers_lap_the_buffer():
    buffer = MPReplayBuffer(400, STEPS, n_envs=2, sequences={"size": 4})
    explorers = [fork.Process(target=explore, args=(buffer, k, fork.Event()), daemon=True) for k in range(2)]
    for each in explorers:
        each.start()
    drawn = 0
    while drawn < 300:
        try:
            batch = buffer.sample_episodes(16)
        except ValueError:  # none is stored yet
            continue
        drawn += 1
        assert (batch["step"].reshape(-1, 7) % 7 == np.arange(7)).all()
        for name in ("explorer", "stream"):
            assert (np.ptp(batch[name].reshape(-1, 7), axis=1) == 0).all()
        assert (np.diff(batch["step"].reshape(-1, 7), axis=1) == 1).all()
    for each in explorers:
        each.kill()
        each.join()


def add_and_clear(buffer) -> None:
    row = {"explorer": np.zeros(7), "stream": np.zeros(7), "done": np.arange(7) == 6, "wide": np.zeros((7, 50_000))}
    for k in itertools.count():
        buffer.add(**row, step=np.full(7, k))
        buffer.clear()


def test_an_episode_that_is_cleared_while_it_is_read_is_not_returned():
    buffer = MPReplayBuffer(16, WIDE, sequences={"size": 2})
    explorer = fork.Process(target=add_and_clear, args=(buffer,), daemon=True)
    explorer.start()
    while buffer.get_stored_size() == 0:
        time.sleep(0.001)
    for _ in range(5_000):
        try:
            batch = buffer.sample_episodes(2)
        except (ValueError, RuntimeError):  # none is stored, or all are overwritten too fast
            continue
        assert batch["offsets"].tolist() == [0, 7, 14]
        assert (np.ptp(batch["step"].reshape(2, 7), axis=1) == 0).all()
    explorer.kill()
    explorer.join()
    buffer.close()


def test_errors_of_sequences_that_were_overwritten_are_not_looked_at():
    buffer = MPPrioritizedReplayBuffer(8, STEPS, sequences={"size": 4, "period": 4, "ends": "pad"})
    buffer.add(**steps(0, 0, 2, episode=2))
    drawn = buffer.sample_sequences(1)
    errors = np.where(drawn["mask"], 1.0, np.nan)
    buffer.update_priorities(drawn["indexes"], errors)
    buffer.add(**steps(0, 0, 19, episode=50))
    buffer.update_priorities(drawn["indexes"], errors)
    with pytest.raises(ValueError, match="finite"):
        again = buffer.sample_sequences(1)
        buffer.update_priorities(again["indexes"], np.full((1, 4), np.nan))


@pytest.mark.parametrize("extra", [1, 5, 37])
def test_of_a_call_with_more_rows_than_the_buffer_holds_the_last_ones_are_linked(extra):
    buffer = MPReplayBuffer(20, STEPS, sequences={"size": 4})
    buffer.add(**steps(0, 0, 10))
    buffer.add(**steps(0, 10, 20 + extra))
    check_windows(buffer.sample_sequences(100))
    buffer.add(**steps(0, 30 + extra, 1))
    check_windows(buffer.sample_sequences(100))
    kept = range(11 + extra, 31 + extra)
    assert buffer.get_valid_sequences() == sum(t % 7 >= 3 and t - 3 in kept for t in kept)


def test_attached_buffers_draw_and_continue_their_own_streams():
    buffer = MPReplayBuffer(50, STEPS, sequences={"size": 3})
    other = MPReplayBuffer.attach(buffer.segment)
    for at in range(6):
        buffer.add(**steps(0, at, 1))
        other.add(**steps(1, at, 1))
    assert buffer.get_valid_sequences() == other.get_valid_sequences() == 8
    check_windows(other.sample_sequences(100))


def test_clearing_begins_each_stream_anew():
    buffer = MPReplayBuffer(50, STEPS, sequences={"size": 3})
    other = MPReplayBuffer.attach(buffer.segment)
    other.add(**steps(1, 0, 4))
    buffer.clear()
    with pytest.raises(ValueError, match="3 consecutive steps must be stored, got 0"):
        buffer.sample_sequences(1)
    other.add(**steps(1, 4, 2))
    with pytest.raises(ValueError, match="3 consecutive steps must be stored, got 2"):
        buffer.sample_sequences(1)
    other.add(**steps(1, 6, 1))
    assert buffer.sample_sequences(1)["step"].ravel().tolist() == [4, 5, 6]
    with pytest.raises(ValueError, match="cannot sample an episode"):  # its first steps were removed
        buffer.sample_episodes(1)


def test_sequences_begin_at_the_first_step_after_clearing():
    buffer = MPReplayBuffer(50, STEPS, sequences={"size": 2, "period": 2})
    other = MPReplayBuffer.attach(buffer.segment)
    other.add(**steps(1, 0, 3))
    buffer.clear()
    other.add(**steps(1, 3, 2))
    assert buffer.sample_sequences(1)["step"].ravel().tolist() == [3, 4]


FRAMES = {
    "obs": {"shape": (4, 4, 3), "dtype": np.uint8},
    "step": {"dtype": int},
    "done": {"dtype": bool},
}


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize("storage", ["frames", "stacks", "files", "state"])
def test_other_ways_to_store_fields_combine_with_sequences(kind, storage, tmp_path):
    options = {
        "frames": {"next_of": "obs"},
        "stacks": {"next_of": "obs", "stack_compress": "obs"},
        "files": {"mmap_prefix": str(tmp_path / "rows")},
        "state": {"next_of": "obs"},
    }[storage]
    sequences = {"size": 4, "state": "obs"} if storage == "state" else {"size": 4}
    buffer = kind(200, FRAMES, sequences=sequences, **options)
    has_next = "next_of" in options
    for t in range(300):
        frames = (t + np.arange(5)) % 251
        obs, next_obs = (np.broadcast_to(frames[i : i + 3], (4, 4, 3)) for i in (0, 1))
        buffer.add(obs=obs, step=t, done=t % 11 == 10, **({"next_obs": next_obs} if has_next else {}))
    batch = buffer.sample_sequences(50)
    step = batch["step"][..., 0]
    assert (np.diff(step, axis=1) == 1).all()
    of = step[:, 0] if storage == "state" else step
    np.testing.assert_array_equal(batch["obs"][..., 1, 2, 0], of % 251)
    np.testing.assert_array_equal(batch["obs"][..., 3, 0, 2], (of + 2) % 251)
    if has_next:
        np.testing.assert_array_equal(batch["next_obs"][..., 3, 0, 2], (step + 3) % 251)
    buffer.close()


@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_every_discipline_of_locks_links_rows(lock):
    buffer = MPPrioritizedReplayBuffer(100, STEPS, n_envs=2, lock=lock, sequences={"size": 3})
    buffer.add(**steps(0, 0, 30, envs=2))
    check_windows(buffer.sample_sequences(50))


def test_sizes_are_checked_against_the_whole_buffer():
    with pytest.raises(ValueError, match="size \\+ burn_in must be at most 10"):
        MPReplayBuffer(20, FIELDS, n_envs=2, sequences={"size": 11})


def test_memory_of_links_is_8_bytes_a_row():
    plain, linked = (MPReplayBuffer(10_000, STEPS, sequences=given) for given in (None, {"size": 3}))
    assert linked.nbytes - plain.nbytes == pytest.approx(8 * 10_000, abs=8_192)


def test_windows_of_consecutive_numbers_fail_the_check_if_one_row_is_another():
    buffer = MPReplayBuffer(50, STEPS, sequences={"size": 4})
    buffer.add(**steps(0, 0, 30))
    for name in ("explorer", "stream", "step"):
        batch = buffer.sample_sequences(5)
        check_windows(batch)
        batch[name][3, 2] += 1
        with pytest.raises(AssertionError):
            check_windows(batch)
