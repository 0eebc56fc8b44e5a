"""Sequences of stacks as single frames: stacked again, they are what `sample_sequences` returns by default."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

SHAPE = (2, 3)  # of a frame, with only three different values, so that different steps have equal frames
FRAMES = 4


class Screen:
    """An environment's last frames, which its first stack repeats or pads with zeros."""

    def __init__(self, rng, axis: int, *, zeros: bool) -> None:
        self.rng, self.axis, self.zeros = rng, axis, zeros
        self.begin()

    def frame(self):
        return np.full(SHAPE, self.rng.integers(3), np.uint8) + (np.arange(3, dtype=np.uint8) == self.rng.integers(9))

    def begin(self) -> None:
        first = self.frame()
        older = np.zeros_like(first) if self.zeros else first
        self.frames = [older] * (FRAMES - 1) + [first]

    def stack(self):
        return np.stack(self.frames, axis=self.axis)

    def step(self) -> None:
        self.frames = [*self.frames[1:], self.frame()]


class Filled:
    """A buffer to which environments add steps of random episodes."""

    def __init__(self, kind=ReplayBuffer, *, envs=1, axis=-1, zeros=False, capacity=60, sequences, **options) -> None:
        self.rng, self.axis, self.zeros = np.random.default_rng(0), axis, zeros
        self.screens = [Screen(self.rng, axis, zeros=zeros) for _ in range(envs)]
        shape = self.screens[0].stack().shape
        fields = {"obs": {"shape": shape, "dtype": np.uint8}, "done": {"dtype": bool}, "act": {"shape": 2}}
        options = {"stack_compress": {"obs": axis}, **options}
        self.follows = options.get("next_of") == "obs"
        self.buffer = kind(capacity * envs, fields, n_envs=envs, sequences=sequences, seed=0, **options)

    def add(self, steps: int, some: bool = False) -> None:
        for _ in range(steps):
            envs = self.rng.integers(len(self.screens), size=2) if some else range(len(self.screens))
            rows = [self.row(self.screens[env]) for env in envs]
            row = {name: np.array([each[name] for each in rows]) for name in rows[0]}
            self.buffer.add(**row, **({"env_ids": envs} if some else {}))

    def row(self, screen: Screen) -> dict[str, np.ndarray]:
        obs, done = screen.stack(), self.rng.random() < 0.1
        screen.step()
        row = {"obs": obs, "done": done, "act": self.rng.random(2)}
        if self.follows:
            row["next_obs"] = screen.stack()
        if done:
            screen.begin()
        return row

    def check(self, count: int = 30, out: bool = False, **options) -> None:
        """Draw the same sequences in both ways, and compare them."""
        state = self.buffer._get_random()
        expected = self.buffer.sample_sequences(count, **options)
        self.buffer._set_random(state)
        if out:
            shapes = self.buffer.sample_sequences(count, frames="single", **options)
            out = {name: np.ones_like(array) for name, array in shapes.items()}
            self.buffer._set_random(state)
            options["out"] = out
        found = self.buffer.sample_sequences(count, frames="single", **options)
        assert found.keys() == expected.keys() and (not out or found is out)
        stacks = [name for name in ("obs", "next_obs") if name in found]
        time_major = options.get("time_major", False)
        for name in found.keys() - {*stacks}:
            np.testing.assert_array_equal(found[name], expected[name])
        in_order = lambda array: array.swapaxes(0, 1) if time_major else array  # noqa: E731
        is_first = in_order(expected["is_first"])
        mask = in_order(expected["mask"]) if "mask" in expected else np.ones_like(is_first)
        again = {}
        for name in stacks:
            frames = in_order(found[name])
            assert frames.shape == (count, is_first.shape[1] + FRAMES - 1, *SHAPE)
            again[name] = windows(frames) * mask[:, :, None, None, None]
            for b, t in np.argwhere(mask):
                begins = np.flatnonzero(is_first[b, : t + 1])
                if not begins.size or not mask[b, : begins[-1]].any():
                    continue
                # The frames before the first one of an episode are those of the previous episode.
                missing = FRAMES - 1 - (t - begins[-1])
                if name == "obs" and missing > 0:
                    again[name][b, t, :missing] = 0 if self.zeros else frames[b, begins[-1] + FRAMES - 1]
                elif name == "next_obs":
                    again[name][b, t, :-1] = again["obs"][b, t, 1:]
            along = 2 + self.axis % (len(SHAPE) + 1)
            np.testing.assert_array_equal(np.moveaxis(again[name], 2, along), in_order(expected[name]))


def windows(frames: np.ndarray) -> np.ndarray:
    """Return the stacks of consecutive frames: (B, steps, FRAMES, *SHAPE)."""
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(frames, FRAMES, axis=1), -1, 2).copy()


STORED = {
    "stacks": {},
    "next": {"next_of": "obs"},
    "compressed": {"compress": "lz4"},
    "compressed next": {"next_of": "obs", "compress": "lz4"},
    "file": {"mmap_prefix": "prefix", "next_of": "obs"},
}


@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize(("axis", "zeros"), [(-1, True), (-1, False), (0, True), (1, False)])
def test_single_frames_stacked_again_are_the_stacks(axis, zeros, envs, stored, ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sequences = {"size": 6, "burn_in": 2, "ends": ends}
    filled = Filled(envs=envs, axis=axis, zeros=zeros, sequences=sequences, **stored)
    for steps, time_major, out in [(40, False, False), (30, True, False), (7, True, True), (111, False, True)]:
        filled.add(steps)
        filled.check(time_major=time_major, out=out)


@pytest.mark.parametrize("next_of", ["obs", ()])
@pytest.mark.parametrize("ends", ["stop", "cross"])
def test_streams_may_step_out_of_turn(ends, next_of):
    filled = Filled(envs=3, sequences={"size": 5, "ends": ends}, next_of=next_of)
    for _ in range(8):
        filled.add(30, some=True)
        filled.check()


def test_frames_of_prioritized_sequences_are_single():
    filled = Filled(PrioritizedReplayBuffer, sequences={"size": 5}, next_of="obs")
    filled.add(100)
    filled.check(beta=0.5)


def test_a_state_is_one_stack():
    filled = Filled(sequences={"size": 5, "state": "obs"}, next_of="obs")
    filled.add(50)
    batch = filled.buffer.sample_sequences(7, frames="single")
    assert batch["obs"].shape == (7, *SHAPE, FRAMES) and batch["next_obs"].shape == (7, 5 + FRAMES - 1, *SHAPE)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
@pytest.mark.parametrize("some", [False, True])
def test_a_copy_returns_single_frames(how, some):
    filled = Filled(envs=3, capacity=300, sequences={"size": 20, "ends": "cross"}, next_of="obs")
    filled.add(350, some=some)
    filled.buffer = how(filled.buffer)
    filled.add(10, some=some)
    filled.check()


@pytest.mark.parametrize("options", [{}, {"next_of": "obs"}])
def test_fields_that_are_not_stacks_are_unchanged(options):
    filled = Filled(sequences={"size": 5}, stack_compress=None, **options)
    filled.add(50)
    state = filled.buffer._get_random()
    expected = filled.buffer.sample_sequences(9)
    filled.buffer._set_random(state)
    for name, array in filled.buffer.sample_sequences(9, frames="single").items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("step", [0, 2, 4], ids=["unchanged", "two frames", "whole"])
def test_stacks_that_do_not_advance_by_one_frame_are_refused(step):
    fields = {"number": {"dtype": np.int64}, "image": {"shape": 4, "dtype": np.int64}, "done": {}}
    buffer = ReplayBuffer(50, fields, stack_compress="image", sequences={"size": 4})
    for number in range(20):
        buffer.add(number=number, image=number * step + np.arange(4), done=0)
    assert buffer.sample_sequences(5)["image"].shape == (5, 4, 4)
    with pytest.raises(ValueError, match="frames must be 'stacks' for image: within an episode, a stack is not that"):
        buffer.sample_sequences(5, frames="single")


def test_equal_frames_may_advance():
    buffer = ReplayBuffer(50, {"image": {"shape": 4}, "done": {}}, stack_compress="image", sequences={"size": 4})
    buffer.add(image=np.ones((20, 4)), done=np.zeros(20))
    np.testing.assert_array_equal(buffer.sample_sequences(5, frames="single")["image"], np.ones((5, 7)))


@pytest.mark.parametrize(
    ("frames", "error"), [("all", ValueError), (None, TypeError), (True, TypeError), (4, TypeError)]
)
def test_other_frames_are_refused(frames, error):
    filled = Filled(sequences={"size": 5})
    filled.add(50)
    with pytest.raises(error, match="frames must be 'stacks' or 'single', got"):
        filled.buffer.sample_sequences(3, frames=frames)


def test_shared_buffers_return_stacks():
    filled = Filled(MPReplayBuffer, sequences={"size": 5})
    filled.add(50)
    assert filled.buffer.sample_sequences(3, frames="stacks")["obs"].shape == (3, 5, *SHAPE, FRAMES)
    with pytest.raises(ValueError, match="frames must be 'stacks' in a shared buffer"):
        filled.buffer.sample_sequences(3, frames="single")
