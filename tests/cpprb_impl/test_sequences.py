"""Sequences of consecutive steps: which can be drawn, what they contain, and how often each is drawn."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

from .sequence_model import PADDED
from .sequence_pairs import FIELDS, SHAPES, Pair, named, values_of


@pytest.mark.parametrize("streams", [1, 2, 5])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_exactly_the_sequences_of_the_model_can_be_drawn(shape, streams):
    rng = np.random.default_rng([streams, *map(ord, named(shape))])
    pair = Pair(12 * streams, streams, **shape)
    for step in range(150):
        pair.add(rng, int(rng.choice([1, 1, 2, 7, 30])), ends=float(rng.choice([0, 0.2, 0.6])))
        pair.interrupt(rng)
        if step % 3 == 0:
            pair.check()
        if step % 4 == 0 and shape["ends"] != "cross":
            pair.check_episodes()


@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_streams_may_step_out_of_turn(shape):
    rng = np.random.default_rng([*map(ord, named(shape))])
    pair = Pair(30, 3, **shape)
    for step in range(200):
        pair.add_some(rng) if rng.random() < 0.9 else pair.add(rng)
        pair.interrupt(rng)
        if step % 3 == 0:
            pair.check()
        if step % 4 == 0 and shape["ends"] != "cross":
            pair.check_episodes()


def test_a_sequence_that_ends_late_is_lost_as_early_as_others():
    rng = np.random.default_rng(0)
    pair = Pair(30, 2, size=2, period=2, ends="pad")
    pair.add_some(rng, [0], ends=0)
    pair.add_some(rng, [1] * 20, ends=0)
    pair.check()
    pair.buffer.on_episode_end()  # only now is the step of the first stream a sequence
    pair.model.end_episodes()
    for _ in range(25):
        pair.check()
        pair.add_some(rng, [1], ends=0)


def test_rows_that_are_linked_again_are_drawn_as_often_as_before():
    pair = Pair(30, size=2)
    pair.add(np.random.default_rng(0), 25)
    pair.check()
    pair.buffer._set_links(5, pair.buffer._get_links(5, 25))
    pair.check()


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_every_sequence_is_drawn_equally_often(shape, time_major):
    rng = np.random.default_rng(3)
    pair = Pair(90, 3, **shape)
    pair.add(rng, 50, ends=0.15)
    pair.check_frequencies(time_major=time_major)


def test_every_episode_is_drawn_equally_often_and_may_be_padded():
    pair = Pair(300, 2, size=1)
    pair.add(np.random.default_rng(2), 140, ends=0.1)
    pair.check_frequencies_of_episodes()


def test_an_episode_that_was_cut_is_not_drawn_whole(tmp_path):
    large, small = Pair(60, size=1), Pair(20, size=1)
    large.add(np.random.default_rng(4), 55, ends=0.2)
    large.buffer.save_transitions(tmp_path / "file")
    small.buffer.load_transitions(tmp_path / "file")
    large.model.oldest = 35
    small.model = large.model
    assert {*small.drawn_episodes(1000)} == large.model.whole_episodes()


def test_whole_episodes_need_sequences_that_end_with_them():
    with pytest.raises(ValueError, match="ends must not be 'cross'"):
        Pair(60, size=3, ends="cross").buffer.sample_episodes(2)


def test_a_sampler_that_draws_an_episode_first_fails_the_test_of_equal_frequency():
    episodes = [5] * 10 + [100] * 2  # starts in short episodes are then drawn too often
    rng = np.random.default_rng(1)
    chosen = rng.integers(len(episodes), size=40_000)
    starts = np.concatenate([[0], np.cumsum(episodes)])[chosen] + rng.integers(np.array(episodes)[chosen])
    assert stats.chisquare(np.bincount(starts, minlength=sum(episodes))).pvalue < 1e-6


@pytest.mark.parametrize("ends", ["stop", "pad"])
def test_the_last_step_of_each_episode_is_drawn(ends):
    pair = Pair(400, size=8, period=5, ends=ends)
    rng = np.random.default_rng(5)
    pair.add(rng, 390, ends=0.08)
    last = {steps[-1] for steps, has_ended in pair.model.episodes[0] if has_ended}
    if ends == "stop":
        last = {steps[-1] for steps, has_ended in pair.model.episodes[0] if has_ended and len(steps) >= 8}
    assert len(last) > 5 and last <= {step for each in pair.drawn(5000) for step in each}


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda buffer: pickle.loads(pickle.dumps(buffer)),
    "pickle 2": lambda buffer: pickle.loads(pickle.dumps(buffer, 2)),
}


def saved(buffer, tmp_path):
    buffer.save_transitions(tmp_path / "file")
    options = {name: value for name, value in buffer._layout.options.items() if name in ("sequences", "n_envs")}
    other = ReplayBuffer(buffer.get_buffer_size(), FIELDS, **options)
    other.load_transitions(tmp_path / "file")
    return other


@pytest.mark.parametrize("some", [False, True], ids=["all streams", "some streams"])
@pytest.mark.parametrize("how", [*COPIES, "file"])
@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_a_copy_draws_the_same_sequences_and_continues_the_streams(how, ends, some, tmp_path):
    rng = np.random.default_rng(7)
    pair = Pair(60, 3, size=3, burn_in=1, period=2, ends=ends)
    for _ in range(40):
        pair.add_some(rng) if some else pair.add(rng)
    other = copy.copy(pair)
    other.buffer = saved(pair.buffer, tmp_path) if how == "file" else COPIES[how](pair.buffer)
    assert other.drawn(50) == pair.drawn(50)
    other.model, other.is_first = copy.deepcopy(pair.model), list(pair.is_first)
    for _ in range(20):
        other.add_some(rng) if some else other.add(rng)
        other.check()


def test_rows_loaded_into_a_buffer_in_use_form_no_sequence_with_its_own(tmp_path):
    rng = np.random.default_rng(9)
    first, second = Pair(40, size=3), Pair(50, size=3)
    first.add(rng, 50, ends=0.1)
    first.buffer.save_transitions(tmp_path / "file")
    loaded = first.model.sequences()
    second.buffer.add(**{**first.rows([0] * 5, rng, 0), "number": np.arange(5) + 1000})
    second.buffer.load_transitions(tmp_path / "file")
    second.buffer.add(**{**first.rows([0] * 3, rng, 0), "number": np.arange(3) + 1005})
    numbers = second.buffer.sample_sequences(2000)["number"][..., 0]
    own = numbers >= 1000
    assert own.any() and (own.all(axis=1) | ~own.any(axis=1)).all()
    consecutive = (np.diff(numbers, axis=1) == 1).all(axis=1)
    assert consecutive.all()
    assert {*map(tuple, numbers[~own[:, 0]])} == loaded
    # The stream goes on: the step added last before the load is followed by the one added after it.
    assert [1003, 1004, 1005] in numbers.tolist()


def test_only_the_newest_rows_of_a_larger_file_are_linked(tmp_path):
    rng = np.random.default_rng(11)
    large, small = Pair(60, size=4), Pair(20, size=4)
    large.add(rng, 55, ends=0.1)
    large.buffer.save_transitions(tmp_path / "file")
    small.buffer.load_transitions(tmp_path / "file")
    large.model.oldest = 35
    numbers = small.buffer.sample_sequences(1000)["number"][..., 0]
    assert {*map(tuple, numbers)} == large.model.sequences()
    assert small.buffer.get_valid_sequences() == len(large.model.sequences())


@pytest.mark.parametrize("streams", [[3], [3, 1, 1], [-1, 3]], ids=str)
def test_a_file_with_wrong_streams_is_refused_before_it_is_loaded(streams, tmp_path, monkeypatch):
    pair = Pair(40, 2, size=3)
    pair.add(np.random.default_rng(0), 9)
    with monkeypatch.context() as context:
        context.setattr(ReplayBuffer, "_get_streams", lambda _: np.array(streams))
        pair.buffer.save_transitions(tmp_path / "file")
    other = Pair(40, 2, size=3).buffer
    before = other._get_random()
    with pytest.raises(ValueError, match=r"file\.npz: newest of each stream must be 2 numbers from 0 on"):
        other.load_transitions(tmp_path / "file")
    assert other.get_stored_size() == 0 and other._get_random() == before


def test_a_file_of_a_buffer_without_sequences_is_refused(tmp_path):
    plain, buffer = ReplayBuffer(9, FIELDS), ReplayBuffer(9, FIELDS, sequences={"size": 2})
    plain.add(**values_of(np.arange(4)), done=[0] * 4, truncated=[0] * 4)
    plain.save_transitions(tmp_path / "file")
    with pytest.raises(ValueError, match=r"file\.npz: the file must have links between its transitions"):
        buffer.load_transitions(tmp_path / "file")
    assert buffer.get_stored_size() == 0
    buffer.add(**values_of(np.arange(4)), done=[0] * 4, truncated=[0] * 4)
    buffer.save_transitions(tmp_path / "linked")
    plain.load_transitions(tmp_path / "linked")
    assert plain.get_stored_size() == 8


STACK = {"obs": {"shape": (2, 4), "dtype": np.uint8}, "done": {"dtype": bool}, "number": {"dtype": np.int64}}


@pytest.mark.parametrize(
    "options",
    [
        {"stack_compress": "obs"},
        {"stack_compress": "obs", "compress": "lz4"},
        {"next_of": "obs", "stack_compress": "obs"},
        {"mmap_prefix": "prefix"},
        {"next_of": "number"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_sequences_have_the_values_that_were_added_however_they_are_stored(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = ReplayBuffer(64, STACK, n_envs=2, sequences={"size": 5}, **options)
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(2, 400, 2), dtype=np.uint8)
    stacks = lambda env, step: np.moveaxis(frames[env, step : step + 4], 0, -1)  # noqa: E731
    for step in range(100):
        row = {"obs": [stacks(env, step) for env in (0, 1)], "number": [step, 1000 + step], "done": [step % 9 == 8] * 2}
        for name in options.get("next_of", "").split():
            row |= {f"next_{name}": [stacks(e, step + 1) for e in (0, 1)] if name == "obs" else [step + 1, step + 1001]}
        buffer.add(**row)
    batch = buffer.sample_sequences(200)
    for number, obs in zip(batch["number"].reshape(-1), batch["obs"].reshape(-1, 2, 4), strict=True):
        np.testing.assert_array_equal(obs, stacks(number // 1000, number % 1000))
    if "next_number" in batch:
        np.testing.assert_array_equal(batch["next_number"], batch["number"] + 1)
    if "next_obs" in batch:
        for number, obs in zip(batch["number"].reshape(-1), batch["next_obs"].reshape(-1, 2, 4), strict=True):
            np.testing.assert_array_equal(obs, stacks(number // 1000, number % 1000 + 1))
    assert (np.diff(batch["number"][..., 0]) == 1).all()


@pytest.mark.parametrize("state", ["obs", "next_obs", ["obs", "next_obs"]], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"stack_compress": "obs"}, {"stack_compress": "obs", "compress": "lz4"}], ids=str
)
def test_a_state_may_be_a_field_that_is_stored_once(state, options):
    buffer = ReplayBuffer(64, STACK, next_of="obs", sequences={"size": 5, "state": state}, **options)
    frames = np.random.default_rng(0).integers(256, size=(70, 2), dtype=np.uint8)
    stacks = np.stack([np.moveaxis(frames[step : step + 4], 0, -1) for step in range(61)])
    buffer.add(obs=stacks[:-1], next_obs=stacks[1:], number=np.arange(60), done=np.zeros(60))
    batch = buffer.sample_sequences(40)
    for name, ahead in {"obs": 0, "next_obs": 1}.items():
        steps = batch["number"][..., 0] + ahead
        np.testing.assert_array_equal(batch[name], stacks[steps[:, 0] if name in np.atleast_1d(state) else steps])


@pytest.mark.parametrize("time_major", [False, True])
def test_arrays_of_the_caller_are_filled(time_major):
    pair = Pair(60, size=3, burn_in=2, from_state=True, ends="pad")
    pair.add(np.random.default_rng(0), 50)
    made = pair.buffer.sample_sequences(6, time_major=time_major)
    out = {name: np.full_like(array, 1) for name, array in made.items()}
    given = pair.buffer.sample_sequences(6, time_major=time_major, out=out)
    assert given is out
    assert {*pair.drawn(1000)} >= {tuple(n) for n in _numbers(out, time_major)}
    del out["mask"]
    with pytest.raises(KeyError, match="mask"):
        pair.buffer.sample_sequences(6, time_major=time_major, out=out)
    with pytest.raises(ValueError, match="must have shape"):
        pair.buffer.sample_sequences(7, time_major=time_major, out={**given, "mask": made["mask"]})


def _numbers(batch, time_major):
    number, mask = batch["number"][..., 0], batch["mask"]
    both = np.where(mask, number, PADDED)
    return both.T if time_major else both


def test_the_arrays_of_a_released_batch_are_used_again():
    pair = Pair(60, size=4)
    pair.add(np.random.default_rng(0), 50)
    addresses = {pair.buffer.sample_sequences(16)["obs"].ctypes.data for _ in range(9)}
    assert len(addresses) == 1
    kept = [pair.buffer.sample_sequences(4) for _ in range(9)]
    assert len({batch["number"].ctypes.data for batch in kept}) == 9


def test_samples_of_rows_and_of_sequences_may_alternate():
    pair = Pair(60, size=4)
    pair.add(np.random.default_rng(0), 50)
    for _ in range(9):
        assert pair.buffer.sample(16)["obs"].shape == (16, 2, 3)
        assert pair.buffer.sample_sequences(16)["obs"].shape == (16, 4, 2, 3)
        assert pair.buffer.sample_sequences(16, time_major=True)["obs"].shape == (4, 16, 2, 3)


def test_a_forked_child_continues_the_streams_of_a_private_buffer():
    pair = Pair(20, size=4)
    rng = np.random.default_rng(0)
    pair.add(rng, 3, ends=0)
    child = os.fork()
    if child == 0:
        pair.add(rng, ends=0)
        os._exit(0 if pair.drawn(3) == [(0, 1, 2, 3)] * 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pair.buffer.get_valid_sequences() == 0


def test_steps_of_several_environments_in_one_stream_are_warned_of():
    buffer = ReplayBuffer(99, {"obs": {}, "next_obs": {}, "done": {}}, sequences={"size": 3})
    step = np.repeat(np.arange(40), 2)
    step[1::2] += 100
    with pytest.warns(UserWarning, match="sequences: none of 32 steps begins where the one before ended"):
        buffer.add(obs=step, next_obs=step + 1, done=np.zeros(80))


def test_the_reset_steps_of_a_vector_environment_are_in_no_sequence():
    buffer = ReplayBuffer(
        100, {"obs": {"dtype": int}, "done": {}}, n_envs=2, autoreset="next_step", sequences={"size": 3}
    )
    for step in range(45):
        buffer.add(obs=[step, 100 + step], done=[step % 7 == 6, step % 5 == 4])
    # Episodes of stream 0: 0 to 6, 8 to 13, 15 to 20, ...; the steps 7, 14, ... only reset.
    numbers = buffer.sample_sequences(3000)["obs"][..., 0]
    assert (np.diff(numbers, axis=1) == 1).all()
    resets = set(range(7, 45, 7)) | {100 + each for each in range(5, 45, 5)}
    assert not resets & {*numbers.ravel()}
    assert {13, 20, 109} <= {*numbers.ravel()}


GOOD = {"size": 3}
BAD = {
    "no dict": (ReplayBuffer, [3], TypeError, "sequences must be a dict"),
    "no size": (ReplayBuffer, {}, KeyError, "sequences needs 'size'"),
    "unknown": (ReplayBuffer, {**GOOD, "lenght": 3}, TypeError, "got 'lenght'"),
    "float": (ReplayBuffer, {"size": 3.0}, TypeError, "sequences: size must be an int, got 3.0"),
    "zero": (ReplayBuffer, {"size": 0}, ValueError, "sequences: size must be from 1 to .*, got 0"),
    "bool": (ReplayBuffer, {"size": True}, ValueError, "sequences: size must be from 1 to .*, got True"),
    "negative burn-in": (ReplayBuffer, {**GOOD, "burn_in": -1}, ValueError, "burn_in must be from 0 to .*, got -1"),
    "no period": (ReplayBuffer, {**GOOD, "period": 0}, ValueError, "period must be from 1 to .*, got 0"),
    "period": (ReplayBuffer, {**GOOD, "period": 4}, ValueError, "period must be at most size=3, .*, got 4"),
    "too long": (ReplayBuffer, {"size": 9, "burn_in": 2}, ValueError, "burn_in must be at most 10, .*, got 11"),
    "ends": (ReplayBuffer, {**GOOD, "ends": "wrap"}, ValueError, "one of stop, pad, cross, got 'wrap'"),
    "done": (ReplayBuffer, {**GOOD, "done": "finished"}, KeyError, "done must name fields of env_dict, got 'finished'"),
    "wide done": (ReplayBuffer, {**GOOD, "done": ["obs"]}, ValueError, "one number or bool per transition, got 'obs'"),
    "state": (ReplayBuffer, {**GOOD, "state": "lstm"}, KeyError, "state must name fields of env_dict, got 'lstm'"),
    "eta": (ReplayBuffer, {**GOOD, "eta": 0.9}, ValueError, "eta must be None in a buffer without priorities"),
    "large eta": (PrioritizedReplayBuffer, {**GOOD, "eta": 1.1}, ValueError, "eta must be from 0 to 1, got 1.1"),
}


@pytest.mark.parametrize(("kind", "sequences", "error", "message"), BAD.values(), ids=BAD)
def test_bad_options_are_named(kind, sequences, error, message):
    with pytest.raises(error, match=message):
        kind(10, FIELDS, sequences=sequences)


def test_options_that_do_not_combine_are_named():
    with pytest.raises(ValueError, match="sequences must be None with Nstep"):
        ReplayBuffer(9, FIELDS, sequences=GOOD, Nstep={"size": 2})
    with pytest.raises(ValueError, match="field mask must be renamed"):
        ReplayBuffer(9, {**FIELDS, "mask": {}}, sequences=GOOD)
    with pytest.raises(ValueError, match="sequences needs a buffer without fields of Python objects"):
        ReplayBuffer(9, {"obs": {"dtype": object}}, sequences=GOOD)


def test_a_buffer_without_the_option_says_what_is_missing():
    buffer = ReplayBuffer(9, FIELDS)
    for call in (lambda: buffer.sample_sequences(2), buffer.get_valid_sequences):
        with pytest.raises(ValueError, match="requires a buffer that was created with the option `sequences`"):
            call()


def test_an_error_says_how_many_steps_are_missing():
    pair = Pair(40, size=6, burn_in=3)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="6 consecutive steps must be stored, got 0, so 6 are missing"):
        pair.buffer.sample_sequences(2)
    pair.add(rng, 4, ends=0)
    pair.add(rng, 1, ends=1.9)
    pair.add(rng, 2, ends=0)
    with pytest.raises(ValueError, match="an episode of 6 consecutive steps must be stored, got 5, so 1 are missing"):
        pair.buffer.sample_sequences(2)


def test_an_error_says_after_how_many_steps_an_episode_may_end_if_sequences_are_padded():
    sequences = {"size": 4, "burn_in": 2, "ends": "pad", "state": "h", "done": "done"}
    buffer = ReplayBuffer(40, {"h": {}, "done": {"dtype": bool}}, sequences=sequences)
    buffer.add(h=np.arange(2), done=[False, True])
    said = "6 consecutive steps must be stored, or an episode that has ended with at least 3, got 2"
    with pytest.raises(ValueError, match=said):
        buffer.sample_sequences(2)
    buffer.add(h=np.arange(3), done=[False, False, True])
    assert buffer.sample_sequences(2)["lengths"].tolist() == [3, 3]


def test_an_error_says_if_every_sequence_has_lost_its_first_step():
    pair = Pair(5, size=5, period=5)
    rng = np.random.default_rng(0)
    pair.add(rng, 5, ends=0)
    pair.check()
    pair.add(rng, 1, ends=0)
    with pytest.raises(ValueError, match=r"5 consecutive steps are stored, but none .* begin at every 5-th step"):
        pair.buffer.sample_sequences(2)
    pair.add(rng, 4, ends=0)
    pair.check()


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("count", [2**40, 2**58, 2**61, 2**62, 2**63 - 1])
def test_batches_that_are_too_large_are_refused(count, time_major):
    pair = Pair(40, size=3, burn_in=1)
    pair.add(np.random.default_rng(0), 20)
    with pytest.raises(MemoryError, match=r"does not fit into memory: one of its columns needs [1-9]"):
        pair.buffer.sample_sequences(count, time_major=time_major)
    pair.check()


def test_bad_arguments_change_nothing():
    pair = Pair(40, size=3)
    pair.add(np.random.default_rng(0), 20)
    twin = copy.deepcopy(pair.buffer)
    for bad in (-1, None, "4"):
        with pytest.raises((TypeError, ValueError)):
            pair.buffer.sample_sequences(bad)
    np.testing.assert_array_equal(pair.buffer.sample_sequences(9)["number"], twin.sample_sequences(9)["number"])
    pair.buffer.close()
    with pytest.raises(ValueError, match="closed"):
        pair.buffer.sample_sequences(3)
    with pytest.raises(ValueError, match="closed"):
        pair.buffer.get_valid_sequences()
