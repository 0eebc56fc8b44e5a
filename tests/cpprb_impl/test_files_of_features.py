"""Buffers with n-step transitions and shared frames are saved, loaded and copied like all others."""

from __future__ import annotations

import copy
import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, ReverseReplayBuffer
from cpprb_impl.contents import state
from cpprb_impl.contents.held import HeldSlots

from .test_files import saved

PLAIN = {"obs": {"shape": (2, 3)}, "act": {"dtype": np.int64}, "rew": {}, "done": {"dtype": bool}}
FIELDS = {**PLAIN, "next_obs": PLAIN["obs"]}
NSTEP = {"size": 3, "rew": "rew", "gamma": 0.5, "next": "next_obs"}
OPTIONS = {
    "plain": {},
    "next_of": {"next_of": "obs"},
    "stack_compress": {"stack_compress": "obs"},
    "both": {"next_of": ["obs", "act"], "stack_compress": "obs"},
    "Nstep": {"Nstep": NSTEP},
    "all": {"Nstep": NSTEP, "next_of": "obs", "stack_compress": "obs"},
}


def step(number: int) -> dict[str, np.ndarray]:
    frames = np.broadcast_to(np.arange(number, number + 3, dtype=np.float32), (2, 3))
    done = number % 6 == 5
    return {"obs": frames, "act": number, "rew": 1.0, "done": done, "next_obs": frames + 1, "next_act": number + 1}


def play(buffer, first: int, steps: int) -> list[dict[str, np.ndarray]]:
    """Add and sample as a learner does; return all samples."""
    batches = []
    for number in range(first, first + steps):
        priority = {"priorities": number % 5 + 0.5} if isinstance(buffer, PrioritizedReplayBuffer) else {}
        buffer.add(**step(number), **priority)
        if number % 6 == 5:
            buffer.on_episode_end()
        if buffer.get_stored_size():
            batches.append(buffer.sample(3))
            if priority:
                buffer.update_priorities(batches[-1]["indexes"], batches[-1]["act"].ravel() % 7 + 0.1)
    return batches


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]), name


def made(kind, name, size=8, fields=FIELDS):
    options = OPTIONS[name]
    without = {f"next_{of}" for of in np.atleast_1d(options.get("next_of", []))}
    return kind(size, {key: field for key, field in fields.items() if key not in without}, **options)


def through_file(buffer, name):
    other = made(type(buffer), name)
    other.load_transitions(saved(buffer))
    return other


WAYS = {
    "file": through_file,
    "pickle": lambda buffer, _: pickle.loads(pickle.dumps(buffer)),
    "copy": lambda buffer, _: copy.copy(buffer),
    "deepcopy": lambda buffer, _: copy.deepcopy(buffer),
}


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, ReverseReplayBuffer])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 9, 31])
@pytest.mark.parametrize("way", WAYS)
def test_a_restored_buffer_continues_like_the_original(kind, options, steps, way):
    buffer = made(kind, options)
    play(buffer, 0, steps)
    other = WAYS[way](buffer, options)
    for get in ("get_stored_size", "get_next_index", "get_current_episode_len", "is_Nstep"):
        assert getattr(buffer, get)() == getattr(other, get)()
    same(buffer.get_all_transitions(), other.get_all_transitions())
    batches = [play(each, steps, 25) for each in (buffer, other)]
    assert len(batches[0]) == len(batches[1])
    for one, two in zip(*batches, strict=True):
        same(one, two)
    same(buffer.get_all_transitions(), other.get_all_transitions())


@pytest.mark.parametrize("way", ["copy", "pickle", "deepcopy"])
def test_pending_steps_of_a_copy_are_independent(way):
    buffer = made(PrioritizedReplayBuffer, "Nstep")
    play(buffer, 0, 2)
    other = WAYS[way](buffer, "Nstep")
    other.add(**step(2))
    assert (buffer.get_stored_size(), other.get_stored_size()) == (0, 1)


@pytest.mark.parametrize("written", ["plain", "next_of", "stack_compress", "both"])
@pytest.mark.parametrize("wanted", ["plain", "next_of", "stack_compress", "both"])
@pytest.mark.parametrize("size", [5, 8, 30])
def test_a_file_can_be_loaded_with_any_way_of_storing_frames(monkeypatch, written, wanted, size):
    monkeypatch.setattr(state, "PIECE", 200)
    fields = {**FIELDS, "next_act": PLAIN["act"]}
    buffer, other = made(ReplayBuffer, written, fields=fields), made(ReplayBuffer, wanted, size, fields)
    play(buffer, 0, 19)
    play(other, 40, 2)
    expected = made(ReplayBuffer, "plain", size, fields)
    play(expected, 40, 2)
    expected.add(**buffer._encode_sample(HeldSlots(buffer)[:][-size:]))
    other.load_transitions(saved(buffer))
    ours, theirs = other.get_all_transitions(), expected.get_all_transitions()
    if size < 8:  # of more rows than fit, the older ones are not added, so the slots differ
        ours, theirs = ({n: c[each["act"].ravel().argsort()] for n, c in each.items()} for each in (ours, theirs))
    same(ours, {name: theirs[name] for name in ours})


def test_frames_are_stored_once():
    fields = {"obs": {"shape": (10, 10, 4), "dtype": np.uint8}}
    sizes = {}
    for name, options in {"shared": {"next_of": "obs", "stack_compress": "obs"}, "not": {}}.items():
        named = fields if name == "shared" else {**fields, "next_obs": fields["obs"]}
        buffer = ReplayBuffer(500, named, **options)
        for number in range(500):
            obs = np.broadcast_to(np.arange(number, number + 4) % 250, (10, 10, 4))
            buffer.add(obs=obs, next_obs=obs + 1 if number % 250 < 245 else np.broadcast_to(obs[..., 1:2], obs.shape))
        sizes[name] = len(saved(buffer).getvalue())
        assert len(pickle.dumps(buffer)) < sizes[name] + 2000
    assert sizes["shared"] < sizes["not"] / 6


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    size=st.integers(1, 12),
    options=st.sampled_from(["next_of", "stack_compress", "both"]),
    piece=st.integers(1, 500),
)
def test_frames_in_any_order_are_saved(data, size, options, piece):
    """This holds for any values, in batches or not, without marks at the ends of episodes."""
    buffer = made(ReplayBuffer, options, size)
    for _ in range(data.draw(st.integers(0, 6))):
        rows = [step(data.draw(st.integers(0, 9))) for _ in range(data.draw(st.integers(1, 5)))]
        buffer.add(**{name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]})
    before, state.PIECE = state.PIECE, piece
    try:
        for way in WAYS.values():
            same(buffer.get_all_transitions(), way_of(way, buffer, options, size).get_all_transitions())
    finally:
        state.PIECE = before


def way_of(way, buffer, options, size):
    if way is not through_file:
        return way(buffer, options)
    other = made(ReplayBuffer, options, size)
    other.load_transitions(saved(buffer))
    return other


@pytest.mark.parametrize("options", ["plain", "both", "all"])
def test_buffers_with_mmap_prefix_are_saved_and_loaded(tmp_path, options):
    fields = {**FIELDS, "next_act": PLAIN["act"]}
    buffer = made(ReplayBuffer, options, fields=fields)
    mapped = ReplayBuffer(8, fields, mmap_prefix=tmp_path / "data", **OPTIONS[options])
    play(buffer, 0, 19)
    mapped.load_transitions(saved(buffer))
    other = made(ReplayBuffer, options, fields=fields)
    other.load_transitions(saved(mapped))
    for one, two, three in zip(*(play(each, 19, 9) for each in (buffer, mapped, other)), strict=True):
        same(one, two)
        same(one, three)


def test_other_n_step_options_are_refused():
    buffer = made(ReplayBuffer, "Nstep")
    play(buffer, 0, 5)
    for nstep in ({**NSTEP, "size": 2}, {**NSTEP, "gamma": 0.9}, {**NSTEP, "rew": None}, {**NSTEP, "next": None}, None):
        other = ReplayBuffer(8, FIELDS, Nstep=nstep)
        with pytest.raises(ValueError, match="Nstep is"):
            other.load_transitions(saved(buffer))
        assert other.get_stored_size() == 0


def test_pending_steps_are_not_lost_when_rows_are_appended():
    buffer, other = made(ReplayBuffer, "Nstep"), made(ReplayBuffer, "Nstep")
    play(buffer, 0, 5)
    play(other, 30, 2)  # these steps are pending
    other.load_transitions(saved(buffer))
    assert other.get_all_transitions()["act"].ravel().tolist() == [0, 1, 2]
    other.add(**step(32))
    assert other.get_all_transitions()["act"].ravel().tolist() == [0, 1, 2, 30]


def forged(file: io.BytesIO, **arrays) -> io.BytesIO:
    from .test_bad_files import forged as forge

    return io.BytesIO(forge(file.getvalue(), arrays=arrays))


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"column_0_first_0": np.arange(7)}, r"must be int64 of shape \(8,\)"),
        ({"column_0_first_0": np.arange(8.0)}, "must be int64"),
        ({"column_0_first_0": np.full(8, -1)}, "must be from 0 to"),
        ({"column_0_first_1": np.full(8, 10**9)}, "must be from 0 to"),
        ({"column_0_first_1": np.full(8, 2**63 - 1)}, "must be from 0 to"),
        ({"column_0": np.zeros((3, 2), np.float32)}, "must be from 0 to"),
        ({"column_0": np.zeros((2**10, 3), np.float32)}, "shape"),
        ({"column_0": np.zeros((2**10, 2), np.float64)}, "dtype"),
    ],
)
def test_impossible_frames_are_refused(arrays, says):
    buffer = made(ReplayBuffer, "both", fields={**FIELDS, "next_act": PLAIN["act"]})
    play(buffer, 0, 19)
    other = made(ReplayBuffer, "both", fields={**FIELDS, "next_act": PLAIN["act"]})
    other.load_transitions(forged(saved(buffer)))
    other.clear()
    with pytest.raises(ValueError, match=says):
        other.load_transitions(forged(saved(buffer), **arrays))
    assert other.get_stored_size() == 0


def test_impossible_pending_steps_are_refused():
    buffer = made(PrioritizedReplayBuffer, "Nstep")
    play(buffer, 0, 9)
    file = saved(buffer)
    names = [name for name in zipfile.ZipFile(file).namelist() if name.startswith("own_")]
    assert len(names) == 6  # fields and priorities
    for array in (np.zeros((5, 1)), np.zeros(3), np.full(2, -1.0), np.full(2, np.inf), np.array(["a", "b"])):
        other = made(PrioritizedReplayBuffer, "Nstep")
        with pytest.raises(ValueError, match=r"^the file: "):
            other.load_transitions(forged(file, own_5=array))
        assert other.get_stored_size() == 0 and other._is_empty()


def reward(states, _, goals):
    return -(np.abs(states - goals).sum(axis=1) > 0).astype(float)


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_hindsight_buffers_are_saved_with_their_pending_episode(way):
    fields = {"obs": {"shape": 2}, "act": {}, "next_obs": {"shape": 2}}
    buffer = HindsightReplayBuffer(30, fields, 5, reward, additional_goals=2, seed=3)
    for number in range(13):
        buffer.add(obs=[number] * 2, act=number, next_obs=[number + 1] * 2)
        if number % 5 == 4:
            buffer.on_episode_end([7, 7])
    other = WAYS[way](buffer, None)
    for each in (buffer, other):
        each.on_episode_end([1, 1])
    same(buffer.get_all_transitions(), other.get_all_transitions())
    same(buffer.sample(10), other.sample(10))
