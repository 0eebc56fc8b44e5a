"""What the state machine draws: how a buffer is made, and the steps that are added to it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from .model import Model, Row


@dataclass(frozen=True)
class Config:
    """All options that a buffer is made with."""

    prioritized: bool
    capacity: int
    obs: tuple[int, ...]  # the shape of obs
    axis: int  # the axis of obs along which frames are stacked
    advance: int  # the most frames by which obs advances, possibly more than it contains
    obs_dtype: str
    done_dtype: str
    other_dtype: str
    nstep: dict | None
    next_of: tuple[str, ...]
    stack_compress: tuple[str, ...]
    mmap: bool
    compress: bool
    exponents: tuple[float, float]
    check_for_update: bool
    seed: int  # always set, so that failures can be reproduced

    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return the shape and dtype of each field of a transition."""
        obs, other = (self.obs, np.dtype(self.obs_dtype)), ((1,), np.dtype(self.other_dtype))
        return {
            "number": ((1,), np.dtype(np.int64)),
            "obs": obs,
            "next_obs": obs,
            "rew": ((1,), np.dtype(np.float32)),
            "done": ((1,), np.dtype(self.done_dtype)),
            "other": other,
            "next_other": other,
        }

    def make(self, kinds: tuple[type, type], folder: str):
        env_dict = {
            name: {"shape": shape, "dtype": dtype}
            for name, (shape, dtype) in self.fields().items()
            if name.removeprefix("next_") not in self.next_of or not name.startswith("next_")
        }
        stacks = self.stack_compress if self.axis == -1 else dict.fromkeys(self.stack_compress, self.axis)
        options = {"next_of": self.next_of, "stack_compress": stacks, "Nstep": self.nstep}
        if self.compress:
            options["compress"] = "lz4"
        if self.mmap:
            options["mmap_prefix"] = tempfile.mkdtemp(dir=folder) + "/buffer"
        if self.prioritized:
            alpha, eps = self.exponents
            options.update(alpha=alpha, eps=eps, check_for_update=self.check_for_update)
        return kinds[self.prioritized](self.capacity, env_dict, seed=self.seed, **options)

    def model(self) -> Model:
        return Model(self.capacity, self.nstep, self.exponents if self.prioritized else None, self.check_for_update)


@st.composite
def ways_to_store(draw, other_dtype: str):
    """Draw next_of, stack_compress, mmap_prefix and compress, which have no effect that a caller can see."""
    next_of = tuple(name for name in ("obs", "other") if draw(st.booleans()))
    stacked = ("obs",) if "obs" in next_of else ("obs", "next_obs")
    stack_compress = tuple(name for name in stacked if draw(st.booleans()))
    mmap = other_dtype != "O" and draw(st.booleans())
    compress = bool(stack_compress) and not mmap and draw(st.booleans())
    return {"next_of": next_of, "stack_compress": stack_compress, "mmap": mmap, "compress": compress}


@st.composite
def configs(draw):
    other_dtype = draw(st.sampled_from(["f2", "i1", "c8", "?", "f8", "O"]))
    size = draw(st.sampled_from([None, None, 1, 2, 3, 5]))
    following = tuple(name for name in ("next_obs", "next_other") if draw(st.booleans()))
    # Sums are exact, since gamma is 0.5 and rewards are integers.
    nstep = size and {"size": size, "gamma": 0.5, "rew": "rew", "next": following}
    obs = draw(st.sampled_from([(3,), (2, 4), (1,), (2, 1, 2), (40, 3)]))  # 40 equal numbers can be compressed
    return Config(
        prioritized=draw(st.sampled_from([False, True, True])),
        capacity=draw(st.sampled_from([1, 3, 5, 8, 17, 33, 40, 70])),
        obs=obs,
        axis=draw(st.sampled_from([-1, *range(-len(obs), len(obs))])),
        advance=draw(st.sampled_from([1, 1, 2, 4])),
        obs_dtype=draw(st.sampled_from(["u1", "f4", "f8", "i2"])),
        done_dtype=draw(st.sampled_from(["?", "f4", "i8"])),
        other_dtype=other_dtype,
        nstep=nstep,
        exponents=(draw(st.sampled_from([0.0, 0.5, 0.6, 1.0])), draw(st.sampled_from([0.0, 1e-4, 0.5]))),
        check_for_update=draw(st.booleans()),
        seed=draw(st.integers(0, 9)),
        **draw(ways_to_store(other_dtype)),
    )


class Steps:
    """An endless sequence of numbered steps, whose observations are stacks of frames."""

    def __init__(self, config: Config) -> None:
        self.fields, self.axis, self.advance = config.fields(), config.axis, config.advance
        self.stack = config.obs[config.axis]
        self.frame = self.number = 0
        self.frames = self._begin()

    def _new_frame(self) -> np.ndarray:
        self.frame += 1
        shape, dtype = self.fields["obs"]
        value = -0.0 if self.frame % 11 == 0 else self.frame % 97  # -0.0 equals 0.0 but has different bytes
        return np.full(np.delete(shape, self.axis), value, dtype)

    def _begin(self) -> list[np.ndarray]:
        return [self._new_frame()] * self.stack

    def _other(self, number: int) -> np.ndarray:
        value = f"no. {number}" if self.fields["other"][1].hasobject else number % 97
        return np.array([value]).astype(self.fields["other"][1])

    def take(self, what: str) -> Row:
        """Return the next step. After it, the episode continues ("goes on"), ends ("done"), or is left ("jump")."""
        now = self.frames
        by = 1 + self.number % self.advance
        following = [*now, *(self._new_frame() for _ in range(by))][-self.stack :]
        self.frames = following if what == "goes on" else self._begin()
        self.number += 1
        jump = what == "jump" and self.number % 2 == 0
        values = {
            "number": [self.number],
            "obs": np.stack(now, axis=self.axis),
            "next_obs": np.stack(self._begin() if jump else following, axis=self.axis),
            "rew": [self.number % 5],
            "done": [what == "done"],
            "other": self._other(self.number),
            "next_other": self._other(self.number + (what == "goes on") * 1 + (what != "goes on") * 13),
        }
        return {name: np.array(values[name], dtype) for name, (_, dtype) in self.fields.items()}


KINDS_OF_STEPS = st.sampled_from(["goes on"] * 5 + ["done", "jump"])
FORMS = st.sampled_from(["arrays", "lists", "strided", "flat"])


def as_given(rows: list[Row], form: str) -> dict:
    """Return the arguments of one `add`."""
    columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    if form == "lists":
        return {name: column.tolist() for name, column in columns.items()}
    if form == "strided":
        return {name: np.repeat(column, 2, axis=0)[::2] for name, column in columns.items()}
    if form == "flat":  # a single row without its axis, and scalars as Python numbers
        return {
            name: c[0, 0].item() if c.shape == (1, 1) and not c.dtype.hasobject else c[0] if len(c) == 1 else c
            for name, c in columns.items()
        }
    return columns
