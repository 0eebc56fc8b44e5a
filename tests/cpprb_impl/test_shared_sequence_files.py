"""Files of shared buffers with sequences: what could be drawn before can be drawn after, and nothing else."""

from __future__ import annotations

import copy
import io
import itertools
import multiprocessing
import os
import signal
import time
from contextlib import suppress

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.contents import held, links, state

from .sequence_pairs import FIELDS, SHAPES, Pair, PrioritizedPair, SharedPair, SharedPrioritizedPair, named, values_of
from .test_bad_files import forged
from .test_files import loaded, saved
from .test_shared_sequences import FRAMES, STEPS, WIDE, add_wide_for_ever, check_windows, steps, wide

fork = multiprocessing.get_context("fork")

WAYS = [
    (SharedPair, SharedPair),
    (SharedPair, Pair),
    (Pair, SharedPair),
    (SharedPrioritizedPair, SharedPrioritizedPair),
    (SharedPrioritizedPair, PrioritizedPair),
    (PrioritizedPair, SharedPrioritizedPair),
]
WAY_NAMES = ["-".join(kind.kind.__name__.removesuffix("ReplayBuffer") or "Private" for kind in way) for way in WAYS]


@pytest.fixture(autouse=True)
def _in_pieces(monkeypatch):
    """Files of these tests are small, so they are read and written a few rows at a time."""
    for module in (held, links, state):
        monkeypatch.setattr(module, "NUMBERS", 16)
    monkeypatch.setattr(state, "rows_per_piece", lambda _: 13)


def filled(kind: type[Pair], streams: int, shape: dict, *, wraps: bool, capacity: int | None = None) -> Pair:
    """Return a buffer with steps of streams that are in turn and out of turn, and its model."""
    rng = np.random.default_rng([streams, wraps, *map(ord, named(shape))])
    pair = kind(capacity or 14 * streams, streams, **shape)
    for _ in range(12 if wraps else 3):
        pair.add(rng, int(rng.choice([1, 2])), ends=0.15)
        pair.add_some(rng, ends=0.15)
        if isinstance(pair, Pair) and not isinstance(pair, SharedPair) and rng.random() < 0.2:
            pair.end_episodes()
    return pair


def loaded_into(kind: type[Pair], pair: Pair, *, capacity: int | None = None, streams: int | None = None) -> Pair:
    """Return a buffer that was loaded from the file of this one, and the same model."""
    shape = {name: getattr(pair.model, name) for name in ("size", "burn_in", "period", "ends", "from_state")}
    other = kind(capacity or pair.model.capacity, streams or pair.model.streams, **shape)
    loaded(saved(pair.buffer), other.buffer)
    other.model, other.is_first = copy.deepcopy(pair.model), list(pair.is_first)
    return other


def check_all(pair: Pair) -> None:
    """Exactly the sequences and episodes of the model can be drawn."""
    expected = pair.model.sequences()
    assert pair.buffer.get_valid_sequences() == len(expected)
    if expected:
        assert {*pair.drawn(40 * len(expected))} == expected
    if pair.model.ends != "cross":
        pair.check_episodes()
        episodes = pair.model.whole_episodes()
        assert not episodes or {*pair.drawn_episodes(40 * len(episodes))} == episodes


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
@pytest.mark.parametrize("wraps", [False, True], ids=["unwrapped", "wrapped"])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_exactly_what_could_be_drawn_can_be_drawn_and_streams_go_on(shape, wraps, way):
    kind, other_kind = way
    pair = filled(kind, 1 + SHAPES.index(shape) // 2 % 2 * 2, shape, wraps=wraps)
    other = loaded_into(other_kind, pair)
    check_all(other)
    rng = np.random.default_rng(3)
    for _ in range(10):
        other.add(rng) if rng.random() < 0.5 else other.add_some(rng)
        other.check()


@pytest.mark.parametrize("kind", [SharedPair, SharedPrioritizedPair])
@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_a_restored_buffer_draws_the_same_sequences(ends, kind):
    pair = filled(kind, 3, {"size": 3, "burn_in": 1, "period": 2, "ends": ends}, wraps=True)
    pair.drawn(8)
    if kind is SharedPrioritizedPair:
        pair.buffer.update_priorities(pair.batch["indexes"], np.arange(8) + 0.5)
    other = loaded_into(kind, pair)
    for _ in range(5):
        first, second = pair.buffer.sample_sequences(16), other.buffer.sample_sequences(16)
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize("way", WAYS[3:], ids=WAY_NAMES[3:])
@pytest.mark.parametrize("capacity", [60, 63], ids=["restored", "appended"])
def test_priorities_of_sequences_are_kept(capacity, way):
    kind, other_kind = way
    pair = filled(kind, 3, {"size": 4, "period": 2}, wraps=True, capacity=60)
    pair.drawn(30)
    pair.buffer.update_priorities(pair.batch["indexes"], np.arange(30) + 0.5)
    other = loaded_into(other_kind, pair, capacity=capacity)
    assert other.buffer.get_max_priority() == pair.buffer.get_max_priority()
    before, after = ({end: each.leaves()[end] for end in each.ends()} for each in (pair, other))
    assert before == after and len({*before.values()}) > 5


def test_a_file_may_be_passed_on_any_number_of_times():
    """Also if the first steps of runs are no longer stored."""
    pair = filled(SharedPair, 3, {"size": 3, "burn_in": 2, "period": 3, "ends": "pad"}, wraps=True)
    for kind in (SharedPair, Pair, SharedPair, SharedPair, Pair):
        pair = loaded_into(kind, pair)
        check_all(pair)


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("shape", SHAPES[::4], ids=named)
def test_a_larger_buffer_with_other_streams_draws_the_same(shape, streams):
    pair = filled(SharedPair, 3, shape, wraps=True)
    other = loaded_into(SharedPair, pair, capacity=100, streams=streams)
    check_all(other)
    other = loaded_into(Pair, pair, capacity=100, streams=1)
    check_all(other)


@pytest.mark.parametrize("other_kind", [SharedPair, Pair])
@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_a_smaller_buffer_draws_what_the_newest_rows_have(ends, other_kind):
    pair = filled(SharedPair, 1, {"size": 3, "period": 2, "ends": ends}, wraps=True, capacity=40)
    other = loaded_into(other_kind, pair, capacity=20)
    other.model.oldest = max(other.model.oldest, other.model.added - 20)
    check_all(other)


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
def test_rows_loaded_into_a_buffer_in_use_form_no_sequence_with_its_own(kind):
    source, buffer = (kind(100, STEPS, sequences={"size": 4}) for _ in range(2))
    source.add(**steps(1, 0, 40))
    buffer.add(**steps(0, 0, 19))
    loaded(saved(source), buffer)
    buffer.add(**steps(0, 19, 20))  # its own stream goes on
    expected = 5 * 4 + 2 + 5 * 4 + 1
    assert buffer.get_valid_sequences() == expected
    batch = buffer.sample_sequences(100 * expected)
    check_windows(batch)
    assert len({*zip(batch["explorer"][:, 0, 0], batch["step"][:, 0, 0], strict=True)}) == expected


def test_a_run_that_was_cut_begins_anew_where_other_rows_are_stored():
    source = MPReplayBuffer(20, STEPS, sequences={"size": 4, "period": 4})
    source.add(**steps(1, 0, 33, episode=100))  # row 13 is the oldest, and sequences end at 15, 19, ...
    full, used = (MPReplayBuffer(30, STEPS, sequences={"size": 4, "period": 4}) for _ in range(2))
    used.add(**steps(0, 0, 1))
    for buffer, ends in ((full, {19, 23, 27, 31}), (used, {16, 20, 24, 28, 32})):
        loaded(saved(source), buffer)
        assert {*buffer.sample_sequences(200)["step"][:, -1, 0]} == ends


@pytest.mark.parametrize("other", [MPReplayBuffer, ReplayBuffer])
@pytest.mark.parametrize(("given", "wanted"), [("cross", "stop"), ("pad", "stop"), ("stop", "pad"), ("stop", "cross")])
def test_a_file_of_other_sequences_never_gives_one_that_crosses(given, wanted, other):
    """Links of a shared buffer whose sequences end with episodes do not lead from one episode to the previous one."""
    source = MPReplayBuffer(60, STEPS, n_envs=2, sequences={"size": 3, "ends": given})
    source.add(**steps(0, 0, 50, envs=2))
    buffer = other(60, STEPS, n_envs=2, sequences={"size": 5, "burn_in": 1, "ends": wanted})
    loaded(saved(source), buffer)
    batch = buffer.sample_sequences(1000)
    mask = batch.get("mask", np.ones_like(batch["is_first"]))
    for name in ("stream", "step"):
        array = batch[name][..., 0]
        difference = np.diff(array, axis=1)[mask[:, 1:] & mask[:, :-1]]
        assert (difference == (name == "step")).all()
    episode = batch["step"][..., 0] // 7
    assert (episode == episode.max(axis=1, keepdims=True))[mask].all()
    np.testing.assert_array_equal(batch["is_first"], (batch["step"][..., 0] % 7 == 0) & mask)
    if wanted == "stop":  # step 21 is the first of its episode, and 20 the only one stored of the episode before
        assert {*batch["step"][:, -1, 0]} == {t for t in range(21, 50) if t % 7 >= 4}


def test_sequences_that_may_cross_do_so_after_loading():
    source = MPReplayBuffer(60, STEPS, sequences={"size": 10, "ends": "cross"})
    source.add(**steps(0, 0, 90))
    for kind in (MPReplayBuffer, ReplayBuffer):
        buffer = loaded(saved(source), kind(60, STEPS, sequences={"size": 10, "ends": "cross"}))
        batch = buffer.sample_sequences(3000)
        assert (np.diff(batch["step"][..., 0], axis=1) == 1).all() and {*batch["step"][:, -1, 0]} == {*range(39, 90)}


def all_ends(buffer, *, cross: bool = False) -> set[tuple[int, ...]]:
    """Check all sequences that can be drawn, and return the explorer, stream and step with which each ends."""
    count = buffer.get_valid_sequences()
    batch = buffer.sample_sequences(40 * count)
    check_windows(batch, cross=cross)
    names = ("explorer", "stream", "step")
    found = {*zip(*(batch[name][:, -1, 0].tolist() for name in names), strict=True)}
    assert len(found) == count
    return found


def explore(buffer, explorer: int, pause: float = 0) -> None:
    rng = np.random.default_rng(explorer)
    for at in itertools.count(0, 20):
        for first, count in zip((at, at + 1, at + 8), (1, 7, 12), strict=True):
            buffer.add(**steps(explorer, first, count, envs=2))
            time.sleep(pause * rng.random())


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize("ends", ["stop", "cross"])
def test_sequences_of_killed_explorers_are_saved_and_loaded(ends, kind):
    buffer = kind(600, STEPS, n_envs=2, sequences={"size": 4, "ends": ends})
    explorers = [fork.Process(target=explore, args=(buffer, k), daemon=True) for k in range(3)]
    for each in explorers:
        each.start()
    for each in explorers:
        time.sleep(0.2)
        each.kill()
        each.join()
    before = all_ends(buffer, cross=ends == "cross")
    single = PrioritizedReplayBuffer if kind is MPPrioritizedReplayBuffer else ReplayBuffer
    sequences = {"size": 4, "ends": ends}
    for other in (kind(600, STEPS, n_envs=2, sequences=sequences), single(700, STEPS, sequences=sequences)):
        loaded(saved(buffer), other)
        assert all_ends(other, cross=ends == "cross") == before and len(before) > 100


def test_a_file_that_is_saved_while_explorers_add_is_consistent():
    """Saving fails if rows were added meanwhile."""
    buffer = MPReplayBuffer(600, STEPS, n_envs=2, sequences={"size": 4})
    explorers = [fork.Process(target=explore, args=(buffer, k, 0.02), daemon=True) for k in range(3)]
    for each in explorers:
        each.start()
    files = []
    for _ in range(40):  # on a busy machine, every attempt may fail
        with suppress(RuntimeError):
            files.append(saved(buffer))
    for each in explorers:
        each.kill()
        each.join()
    files.append(saved(buffer))
    for file in files:
        for kind in (MPReplayBuffer, ReplayBuffer):
            other = loaded(file, kind(600, STEPS, n_envs=2, sequences={"size": 4}))
            assert other.get_valid_sequences() == 0 or all_ends(other)
            other.close()


def test_a_file_that_is_saved_while_a_process_is_stopped_in_a_call_is_consistent():
    buffer, other = (MPReplayBuffer(192, WIDE, sequences={"size": 4}) for _ in range(2))
    child = fork.Process(target=add_wide_for_ever, args=(buffer, 1), daemon=True)
    child.start()
    for lap in range(5):
        time.sleep(0.02)
        os.kill(child.pid, signal.SIGSTOP)
        for at in range(0, 200, 10):  # rows whose slots are held are stored after later ones
            buffer.add(**wide(0, 200 * lap + at, 10))
        other.clear()
        loaded(saved(buffer), other)
        assert other.get_valid_sequences() == buffer.get_valid_sequences() > 0
        check_windows(other.sample_sequences(200))
        os.kill(child.pid, signal.SIGCONT)
    child.kill()
    child.join()
    for each in (buffer, other):
        each.close()


def test_another_process_draws_what_was_loaded():
    """It has drawn before, and finds the loaded rows as it finds any others."""
    source, buffer = (MPPrioritizedReplayBuffer(50, STEPS, sequences={"size": 4}) for _ in range(2))
    source.add(**steps(1, 0, 30))
    expected = all_ends(source)
    buffer.add(**steps(0, 0, 10))
    ours, theirs = fork.Pipe()

    def learn() -> None:
        theirs.send(all_ends(buffer))
        theirs.recv()
        theirs.send(all_ends(buffer))

    child = fork.Process(target=learn)
    child.start()
    own = ours.recv()
    loaded(saved(source), buffer)
    ours.send("loaded")
    assert ours.recv() == own | expected
    child.join()


def test_a_row_that_is_replaced_during_saving_is_noticed(monkeypatch):
    """An explorer may have claimed the row's slot before the file was begun."""
    buffer = MPReplayBuffer(20, STEPS, sequences={"size": 3})
    buffer.add(**steps(0, 0, 20))
    calls = []

    def changing(self, slots):
        calls.append(slots)
        rows = super(MPReplayBuffer, self)._get_rows_in(slots)
        return np.where(rows == 7, 27, rows) if len(calls) > 1 else rows

    monkeypatch.setattr(MPReplayBuffer, "_get_rows_in", changing)
    with pytest.raises(RuntimeError, match="another thread or process changed the buffer while it was being saved"):
        buffer.save_transitions(io.BytesIO())


def load_while_another_adds(source, buffer, monkeypatch, first=None) -> None:
    """Load a file, and let a child add rows after the first piece of it."""
    file, add, calls = saved(source), MPReplayBuffer._add_linked, []

    def adding(self, number, *args, **rows):
        if len(calls) == 1:
            child = fork.Process(target=lambda: buffer.add(**steps(2, 0, 5)))
            child.start()
            child.join()
        calls.append(number)
        return add(self, first(self) if first else number, *args, **rows)

    monkeypatch.setattr(MPReplayBuffer, "_add_linked", adding)
    with pytest.raises(RuntimeError, match="another process added transitions while these were being loaded"):
        buffer.load_transitions(file)


@pytest.mark.parametrize("stored", [0, 30])
def test_rows_that_another_process_displaces_while_they_are_loaded_are_in_no_sequence(stored, monkeypatch):
    source, buffer = (MPReplayBuffer(200, STEPS, sequences={"size": 4}) for _ in range(2))
    source.add(**steps(1, 0, 60))
    if stored:
        buffer.add(**steps(0, 0, stored))
    load_while_another_adds(source, buffer, monkeypatch)
    if stored:
        assert buffer.get_stored_size() == stored + 5 + 60
        assert max(step for explorer, _, step in all_ends(buffer) if explorer == 1) == 12  # of the first 13 rows
    else:
        assert buffer.get_stored_size() == 0


def test_links_that_are_stored_whatever_numbers_their_rows_get_are_noticed(monkeypatch):
    source, buffer = (MPReplayBuffer(200, STEPS, sequences={"size": 4}) for _ in range(2))
    source.add(**steps(1, 0, 60))
    buffer.add(**steps(0, 0, 30))
    load_while_another_adds(source, buffer, monkeypatch, first=MPReplayBuffer._get_head)
    with pytest.raises(AssertionError):
        all_ends(buffer)


def test_a_slot_that_a_stopped_process_holds_gives_no_wrong_sequence():
    source, buffer = (MPReplayBuffer(192, WIDE, sequences={"size": 4}) for _ in range(2))
    source.add(**wide(1, 0, 192))
    file = saved(source)
    child = fork.Process(target=add_wide_for_ever, args=(buffer, 2), daemon=True)
    child.start()
    failed = 0
    for tries in range(200):
        if failed and tries >= 5:
            break
        time.sleep(0.02)  # after which the explorer may be between two calls, or not have begun
        os.kill(child.pid, signal.SIGSTOP)
        file.seek(0)
        try:
            buffer.load_transitions(file)
        except RuntimeError:
            failed += 1
        if buffer.get_valid_sequences() > 0:
            check_windows(buffer.sample_sequences(300))
        os.kill(child.pid, signal.SIGCONT)
    child.kill()
    child.join()
    buffer.close()
    assert failed > 0


@pytest.mark.parametrize("storage", ["frames", "stacks", "files", "state"])
def test_other_ways_to_store_fields_are_saved_with_sequences(storage, tmp_path):
    def make(name: str):
        options = {
            "frames": {"next_of": "obs"},
            "stacks": {"next_of": "obs", "stack_compress": "obs"},
            "files": {"mmap_prefix": str(tmp_path / name)},
            "state": {"next_of": "obs"},
        }[storage]
        sequences = {"size": 4, "state": "obs"} if storage == "state" else {"size": 4}
        return MPReplayBuffer(200, FRAMES, sequences=sequences, **options)

    buffer, other = make("one"), make("other")
    for t in range(300):
        frames = (t + np.arange(5)) % 251
        obs, next_obs = (np.broadcast_to(frames[i : i + 3], (4, 4, 3)) for i in (0, 1))
        buffer.add(obs=obs, step=t, done=t % 11 == 10, **({} if storage == "files" else {"next_obs": next_obs}))
    loaded(saved(buffer), other)
    assert other.get_valid_sequences() == buffer.get_valid_sequences()
    batch = other.sample_sequences(500)
    step = batch["step"][..., 0]
    assert (np.diff(step, axis=1) == 1).all() and (step // 11 == step[:, :1] // 11).all()
    np.testing.assert_array_equal(batch["obs"][..., 1, 2, 0], (step[:, 0] if storage == "state" else step) % 251)


@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_every_discipline_of_locks_saves_and_loads(lock):
    buffer, other = (
        MPPrioritizedReplayBuffer(100, STEPS, n_envs=2, lock=lock, sequences={"size": 3}) for _ in range(2)
    )
    buffer.add(**steps(0, 0, 70, envs=2))
    loaded(saved(buffer), other)
    assert all_ends(other) == all_ends(buffer)


def test_a_file_without_links_is_refused(tmp_path):
    plain, buffer = MPReplayBuffer(50, STEPS), MPReplayBuffer(50, STEPS, sequences={"size": 3})
    plain.add(**steps(0, 0, 9))
    buffer.add(**steps(0, 0, 9))
    plain.save_transitions(tmp_path / "file")
    with pytest.raises(ValueError, match=r"file\.npz: the file must have links between its transitions"):
        buffer.load_transitions(tmp_path / "file")
    assert buffer.get_stored_size() == 9
    loaded(saved(buffer), plain)
    assert plain.get_stored_size() == 18


@pytest.mark.parametrize("streams", [[3], [3, 1, 1], [-1, 3]], ids=str)
def test_a_file_with_wrong_streams_is_refused_before_it_is_loaded(streams, monkeypatch):
    pair, other = SharedPair(40, 2, size=3), SharedPair(40, 2, size=3).buffer
    pair.add(np.random.default_rng(0), 9)
    with monkeypatch.context() as context:
        context.setattr(links, "streams", lambda *_: np.array(streams))
        file = saved(pair.buffer)
    with pytest.raises(ValueError, match="newest of each stream must be 2 numbers from 0 on"):
        other.load_transitions(file)
    assert other.get_stored_size() == 0


@pytest.mark.parametrize("bad", [np.zeros((8, 2), np.uint32), np.zeros((9, 2), np.int64), np.zeros(9, np.uint32)])
def test_links_of_a_wrong_form_are_refused(bad):
    buffer = MPReplayBuffer(50, STEPS, sequences={"size": 3})
    buffer.add(**steps(0, 0, 9))
    data = forged(saved(buffer).getvalue(), arrays={"links": bad})
    with pytest.raises(ValueError, match=r"links must be uint32 of shape \(9, 2\)"):
        buffer.load_transitions(io.BytesIO(data))
    assert buffer.get_stored_size() == 9


@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_forged_links_never_lead_out_of_the_file(ends):
    """Whatever a file says, sequences consist of its own rows, and nothing hangs or crashes."""
    source = MPReplayBuffer(100, STEPS, sequences={"size": 3, "ends": ends})
    source.add(**steps(1, 0, 60))
    data, rng = saved(source).getvalue(), np.random.default_rng(0)
    for _ in range(30):
        given = rng.integers(2**32, size=(60, 2), dtype=np.uint32)
        given[:, 0] &= rng.choice([0xFFFFFFFF, 0xC0000007, 0x4000001F]).astype(np.uint32)
        given[:, 1] &= rng.choice([0xFFFFFFFF, 7]).astype(np.uint32)
        buffer = MPReplayBuffer(100, STEPS, sequences={"size": 3, "ends": ends})
        buffer.add(**steps(0, 0, 30))
        loaded(io.BytesIO(forged(data, arrays={"links": given})), buffer)
        batch = buffer.sample_sequences(500)
        mask = batch.get("mask", np.ones_like(batch["is_first"]))
        explorer = batch["explorer"][..., 0]
        assert (explorer == explorer.max(axis=1, keepdims=True))[mask].all()
        buffer.close()


def test_a_stream_that_is_not_stored_any_more_begins_anew():
    rows = MPReplayBuffer(10, STEPS, n_envs=2, sequences={"size": 3})
    rows.add(**{name: value[:1] for name, value in steps(0, 0, 1).items()}, env_ids=[0])
    rows.add(**{**steps(0, 0, 12), "stream": np.ones(12)}, env_ids=[1] * 12)
    other = loaded(saved(rows), MPReplayBuffer(10, STEPS, n_envs=2, sequences={"size": 3}))
    assert other._get_streams().tolist() == [0, 2]
    other.add(**{**steps(0, 12, 1), "stream": [1]}, env_ids=[1])
    assert {*other.sample_sequences(300)["step"][:, -1, 0]} == {5, 6, 9, 10, 11, 12}


def test_parts_of_a_file_have_its_sequences_except_those_that_they_divide():
    """The shards of a buffer over several hosts load parts, if their number has changed."""
    source = MPReplayBuffer(100, STEPS, n_envs=2, sequences={"size": 4})
    source.add(**steps(0, 0, 43, envs=2))
    file, parts = saved(source), [MPReplayBuffer(100, STEPS, sequences={"size": 4}) for _ in range(3)]
    for number, part in enumerate(parts):
        file.seek(0)
        part._load_part(file, number, len(parts))
    ends = [all_ends(part) for part in parts]
    assert sum(map(len, ends)) == len(set.union(*ends))
    divided = all_ends(source) - set.union(*ends)
    rows = [28, 57]  # of 86 rows of 2 streams in turn
    assert divided == {
        end for end in all_ends(source) if any(2 * (end[2] - 3) + end[1] < row <= 2 * end[2] + end[1] for row in rows)
    }


class WithHole(MPReplayBuffer):
    """A buffer whose slot 7 has no transition, because a process died while writing to it."""

    def _get_stored_slots(self) -> np.ndarray:
        slots = super()._get_stored_slots()
        return slots[slots != 7]


def test_a_stream_goes_on_although_a_hole_is_closed():
    buffer, other = (kind(30, STEPS, n_envs=2, sequences={"size": 3}) for kind in (WithHole, MPReplayBuffer))
    buffer.add(**steps(0, 0, 2, envs=2))
    buffer.add(env_ids=[1] * 6, **steps(1, 0, 6) | {"stream": [1] * 6})  # not the next steps of its stream
    loaded(saved(buffer), other)
    other.add(env_ids=[0], **steps(0, 2, 1))
    stream = other.sample_sequences(300)
    assert {*map(tuple, stream["step"][stream["stream"][..., 0] == 0].reshape(-1, 3))} == {(0, 1, 2)}


def test_streams_of_other_processes_are_not_in_the_file():
    """A forked child has streams of its own, each of which begins an episode."""
    buffer = MPReplayBuffer(30, FIELDS, sequences={"size": 2})
    buffer.add(**values_of(np.arange(5)), done=[0] * 5, truncated=[0] * 5)
    ours, theirs = fork.Pipe()
    child = fork.Process(target=lambda: theirs.send(saved(buffer).getvalue()))
    child.start()
    other = loaded(io.BytesIO(ours.recv()), MPReplayBuffer(30, FIELDS, sequences={"size": 2}))
    child.join()
    assert other._get_begins().tolist() == [True] and buffer._get_begins().tolist() == [False]
    assert other.get_valid_sequences() == 4
