"""Write one file and one pickle of each kind of buffer, which every later version of the package must load.

The data was written by revision 49407d2 with Python 3.11 and NumPy 1.26. To add a kind of buffer, add it to
`BUFFERS` or `OTHERS` and run

    .venv/bin/python -m tests.cpprb_impl.data.write

which writes the missing files. It never replaces a file, since only files of old revisions show that these can be read.
tests/integrations/data/write.py does the same for the classes that need PyTorch.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import socket
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cpprb_impl as m

WRITTEN = Path(__file__).parent / "written"
SIZE = 8
EPISODE = 5  # steps per episode
STEPS = 11  # more steps than SIZE; the last episode is unfinished
LATER = 4  # further steps, which complete n-step transitions and the last episode

FIELDS: dict[str, dict[str, Any]] = {
    "obs": {"shape": (2, 3)},
    "act": {"dtype": np.int64},
    "rew": {},
    "done": {"dtype": bool},
}
WITH_NEXT = {**FIELDS, "next_obs": FIELDS["obs"]}
FRAMES = {**FIELDS, "obs": {"shape": (2, 3), "dtype": np.uint8}}
FIRST_AXIS = {**FIELDS, "obs": {"shape": (3, 2), "dtype": np.uint8}}
OBJECTS = {**WITH_NEXT, "info": {"dtype": object}}
ENDS = {**WITH_NEXT, "truncated": {"dtype": bool}, "discount": {}}
ODD = {
    **FIELDS,
    "half": {"dtype": np.float16, "shape": ()},
    "complex": {"dtype": np.complex64},
    "time": {"dtype": "datetime64[s]"},
    "text": {"dtype": "S4"},
    "pair": {"dtype": np.dtype([("x", np.int16), ("y", np.float64)])},
}
NSTEP = {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}
ENDED_NSTEP = {**NSTEP, "truncated": "truncated", "discount": "discount"}


def step(time: int, n_envs: int, axis: int = -1) -> dict[str, Any]:
    """Return a step of each environment, with fields computed from the time. obs has the last three frames."""
    first = time + 10 * (time // EPISODE)  # no episode begins where the previous one ended
    number = np.array([first + 100 * environment for environment in range(n_envs)])
    frames = np.moveaxis(np.repeat(number[:, None, None] + [[[0, 1, 2]]], 2, axis=1), 2, axis)
    pair = np.zeros(n_envs, ODD["pair"]["dtype"])
    pair["x"], pair["y"] = number, number / 4
    return {
        "obs": frames,
        "next_obs": frames + 1,
        "act": number,
        "rew": number / 2,
        "done": np.full(n_envs, time % EPISODE == EPISODE - 1),
        "truncated": number % 7 == 6,
        "info": [("step", int(each)) for each in number] if n_envs > 1 else {"step": time},
        "half": number / 8,
        "complex": number + 1j,
        "time": number.astype("datetime64[s]"),
        "text": np.array([f"{each:04d}".encode() for each in number]),
        "pair": pair,
    }


@dataclass(frozen=True)
class Kind:
    """A kind of buffer: how to make an empty one, and the steps that are added to it."""

    make: Callable[[], Any]
    fields: Iterable[str] = tuple(WITH_NEXT)
    n_envs: int = 1
    axis: int = -1  # of the frames in a stack
    steps: int = STEPS
    priorities: bool = False
    some: bool = False  # whether each step leaves out one environment
    saved: bool = True  # whether it has save_transitions
    protocols: tuple[int, ...] = (4,)  # protocols of its pickles

    def add(self, buffer: Any, first: int, end: int) -> None:
        for time in range(first, end):
            row = {name: column for name, column in step(time, self.n_envs, self.axis).items() if name in self.fields}
            if self.priorities and time % 2:
                row["priorities"] = np.full(self.n_envs, 1 + time / 4)
            if self.some:
                chosen = np.arange(self.n_envs) != time % self.n_envs
                row = {name: np.asarray(column)[chosen] for name, column in row.items()} | {"env_ids": chosen}
            buffer.add(**row)
            if self.n_envs == 1 and row["done"].all() and hasattr(buffer, "on_episode_end"):
                buffer.on_episode_end()

    def fill(self, buffer: Any) -> Any:
        """Add the steps that are in the data, and draw samples between them."""
        half = self.steps * 2 // 3
        self.add(buffer, 0, half)
        if self.steps:
            buffer.sample(3)
        if self.priorities:
            buffer.update_priorities([0, 2, 5], [0.5, 4.0, 0.25])
        self.add(buffer, half, self.steps)
        return buffer

    def go_on(self, buffer: Any) -> None:
        """Continue to use the buffer, in a way that depends on its whole state."""
        if self.priorities:
            buffer.update_priorities(np.arange(4), [3.0, 2.0, 0.125, 1.0])
        self.add(buffer, self.steps, self.steps + LATER)
        if hasattr(buffer, "delete_episode"):
            buffer.delete_episode(0)


@dataclass(frozen=True)
class Hindsight(Kind):
    """A `HindsightReplayBuffer` with a pending episode."""

    saved: bool = False

    def add(self, buffer: Any, first: int, end: int) -> None:
        for time in range(first, end):
            buffer.add(obs=time, act=time % 3, next_obs=time + 1)
            if time % EPISODE == EPISODE - 1:
                buffer.on_episode_end(time)


def hindsight(**options: Any) -> m.HindsightReplayBuffer:
    fields: dict[str, dict[str, Any]] = {"obs": {}, "act": {"dtype": np.int64}, "next_obs": {}}
    # The reward function is from NumPy, since the pickle contains its name, which must not depend on these tests.
    return m.HindsightReplayBuffer(4 * SIZE, fields, EPISODE, np.clip, strategy="final", seed=1, **options)


def private(fields: Mapping[str, Any], *, kind: Any = m.ReplayBuffer, size: int = SIZE, **options: Any) -> Any:
    return lambda: kind(size, fields, seed=1, **options)


PER = m.PrioritizedReplayBuffer
BOTH = {"next_of": "obs", "stack_compress": "obs"}

BUFFERS = {
    "plain": Kind(private(WITH_NEXT), protocols=(2, 4, 5)),
    "empty": Kind(private(WITH_NEXT), steps=0),
    "odd_dtypes": Kind(private(ODD), tuple(ODD)),
    "next_of": Kind(private(FIELDS, next_of="obs")),
    "stack_compress": Kind(private(FRAMES, stack_compress="obs"), tuple(FRAMES)),
    "both": Kind(private(FRAMES, **BOTH), protocols=(4, 5)),
    "first_axis": Kind(private(FIRST_AXIS, next_of="obs", stack_compress={"obs": 0}), axis=1),
    "compressed": Kind(private(FRAMES, compress="lz4", **BOTH)),
    "n_envs": Kind(private(FRAMES, n_envs=2, **BOTH), n_envs=2),
    "some_environments": Kind(private(WITH_NEXT, n_envs=2, Nstep=NSTEP), n_envs=2, some=True),
    "nstep": Kind(private(FIELDS, Nstep=NSTEP, next_of="obs"), steps=STEPS + 1),
    "nstep_ends": Kind(private(ENDS, n_envs=2, Nstep=ENDED_NSTEP), (*WITH_NEXT, "truncated"), n_envs=2),
    "autoreset": Kind(private(WITH_NEXT, n_envs=2, autoreset="next_step"), n_envs=2),
    "autoreset_nstep": Kind(
        private(ENDS, n_envs=2, autoreset="next_step", Nstep=ENDED_NSTEP), (*WITH_NEXT, "truncated"), n_envs=2
    ),
    "prioritized": Kind(private(WITH_NEXT, kind=PER), priorities=True, protocols=(4, 5)),
    "prioritized_both": Kind(private(FRAMES, kind=PER, n_envs=2, **BOTH), n_envs=2, priorities=True),
    "prioritized_nstep": Kind(
        private(WITH_NEXT, kind=PER, Nstep=NSTEP, alpha=0.5, eps=0.01), priorities=True, steps=STEPS + 1
    ),
    "prioritized_autoreset": Kind(
        private(WITH_NEXT, kind=PER, n_envs=2, autoreset="next_step"), n_envs=2, priorities=True
    ),
    "check_for_update": Kind(private(WITH_NEXT, kind=PER, check_for_update=True, normalize="batch"), priorities=True),
    "reverse": Kind(private(WITH_NEXT, kind=m.ReverseReplayBuffer)),
    "reverse_nstep": Kind(private(WITH_NEXT, kind=m.ReverseReplayBuffer, Nstep=NSTEP), steps=STEPS + 1),
    "objects": Kind(private(OBJECTS), tuple(OBJECTS), saved=False, protocols=(4, 5)),
    "objects_nstep": Kind(private(OBJECTS, Nstep=NSTEP), tuple(OBJECTS), saved=False, steps=STEPS + 1),
    "objects_prioritized": Kind(private(OBJECTS, kind=PER), tuple(OBJECTS), saved=False, priorities=True),
    "objects_reverse": Kind(private(OBJECTS, kind=m.ReverseReplayBuffer), tuple(OBJECTS), saved=False),
    "selective": Kind(lambda: m.SelectiveReplayBuffer(SIZE, obs_shape=(2, 3), Nepisodes=3, seed=1), saved=False),
    "hindsight": Hindsight(lambda: hindsight(prioritized=False)),
    "hindsight_prioritized": Hindsight(lambda: hindsight(prioritized=True)),
    # Files only: one cannot be pickled, and the pickles of the others name a segment (`OTHERS`).
    "mmap_prefix": Kind(private(FRAMES, mmap_prefix="mapped", **BOTH), protocols=()),
    "shared": Kind(private(FRAMES, kind=m.MPReplayBuffer, **BOTH), protocols=()),
    "shared_prioritized": Kind(
        private(WITH_NEXT, kind=m.MPPrioritizedReplayBuffer, Nstep=NSTEP), priorities=True, protocols=()
    ),
}
FILES = [name for name, kind in BUFFERS.items() if kind.saved]
PICKLES = [(name, protocol) for name, kind in BUFFERS.items() for protocol in kind.protocols]

LARGE_BATCHES = {"laber_mean": m.LaBERmean, "laber_lazy": m.LaBERlazy, "laber_max": m.LaBERmax}
SHARED = {
    "segment": lambda: m.MPReplayBuffer(SIZE, FRAMES, n_envs=2, autoreset="next_step"),
    "segment_prioritized": lambda: m.MPPrioritizedReplayBuffer(SIZE, FIELDS, Nstep={**NSTEP, "next": ()}),
}
# These replace the names of segments and hosts in pickles of shared buffers.
ANY_SEGMENT, ANY_BOOT, ANY_HOST = "/cpprb_impl-0-any-0", "any boot", "any host"


def pickle_of_shared(buffer: Any) -> bytes:
    """Return a pickle without names of this host. With protocols below 4, strings can be replaced by longer ones."""
    with mock.patch.object(socket, "gethostname", return_value=ANY_HOST):
        written = pickle.dumps(buffer, protocol=2)
    return renamed(written, {buffer.segment: ANY_SEGMENT, this_boot(): ANY_BOOT})


def renamed(written: bytes, names: Mapping[str, str]) -> bytes:
    """Replace strings in a pickle of protocol 2."""
    for old, new in names.items():
        assert text(old) in written
        written = written.replace(text(old), text(new))
    return written


def text(string: str) -> bytes:
    return b"X" + struct.pack("<I", len(string)) + string.encode()


def this_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Reader(pickle.Unpickler):
    """Reads a pickle, and records the objects that it names."""

    def __init__(self, written: bytes) -> None:
        super().__init__(io.BytesIO(written))
        self.named: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        found = self.named[f"{module}.{name}"] = super().find_class(module, name)
        return found


def others() -> dict[str, Any]:
    """Return the contents of further pickles, by name."""
    return {
        "public_names": {name: getattr(m, name) for name in m.__all__},
        **{name: kind(2, 3, seed=1) for name, kind in LARGE_BATCHES.items()},
    }


def write_missing(folder: Path, contents: Mapping[str, Callable[[], bytes]]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        if not (folder / name).exists():
            (folder / name).write_bytes(content())
            print(folder / name)


def file_of(kind: Kind) -> bytes:
    file = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        kind.fill(kind.make()).save_transitions(file)
    return file.getvalue()


def contents() -> dict[str, Callable[[], bytes]]:
    """Return the function that makes each file of `WRITTEN`, by name."""
    made: dict[str, Callable[[], bytes]] = {}
    for name in FILES:
        made[f"{name}.npz"] = lambda kind=BUFFERS[name]: file_of(kind)
    for name, protocol in PICKLES:
        made[f"{name}.{protocol}.pickle"] = lambda kind=BUFFERS[name], protocol=protocol: pickle.dumps(
            kind.fill(kind.make()), protocol
        )
    for name, value in others().items():
        made[f"{name}.4.pickle"] = lambda value=value: pickle.dumps(value, 4)
    for name, make in SHARED.items():
        made[f"{name}.2.pickle"] = lambda make=make: pickle_of_shared(make())
    return made


if __name__ == "__main__":
    write_missing(WRITTEN, contents())
