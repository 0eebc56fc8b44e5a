"""One case of fuzzing constructors: any sizes, fields and options, under limits on memory and files.

The oracle: a constructor that raises one of its documented errors leaves no segment behind, and no file if the sizes
were too large. A constructor that returns has made a buffer that returns the rows stored in it, has files of the right
lengths, and refuses batches that are too large.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

KINDS: tuple[type, ...] = (ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer, MPPrioritizedReplayBuffer)
REFUSED = (TypeError, ValueError, OverflowError, KeyError, MemoryError, OSError)
TOO_LARGE = (MemoryError, ValueError, OverflowError)
DTYPES = ["u1", "?", "f4", ">i4", "i8", "S3", "g", "c16", "i4,f8", "U2"]
MOST_MEMORY, MOST_FILE = 1 << 30, 1 << 26  # bytes in addition to what the process uses; libFuzzer allows 2 GiB
MOST_SMALL = 1 << 16  # bytes of a transition, up to which rows are added


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Limit memory and file sizes, so that enormous buffers are refused."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    before = {}
    for what, most in ((resource.RLIMIT_AS, used + MOST_MEMORY), (resource.RLIMIT_FSIZE, MOST_FILE)):
        before[what] = resource.getrlimit(what)
        resource.setrlimit(what, (most, before[what][1]))
    try:
        yield
    finally:
        for what, limit in before.items():
            resource.setrlimit(what, limit)


def enormous(rng: random.Random) -> int:
    return (1 << rng.choice([rng.randrange(41, 66), 62, 63, 64])) + rng.choice([-2, -1, 0, 1, 2])


def size(rng: random.Random, unit: int) -> int:
    """Draw a size: small, enormous, or such that its product with `unit` bytes is near where integers wrap around."""
    return rng.choice(
        [
            lambda: rng.randrange(1, 10),
            lambda: 1 << rng.randrange(12),
            lambda: (1 << rng.choice([31, 32, 40])) + rng.choice([-1, 0, 1]),
            lambda: enormous(rng),
            lambda: enormous(rng) // unit + rng.choice([-1, 0, 1]),
            lambda: (1 << 64) // unit + rng.choice([-1, 0, 1, 2]),
        ]
    )()


def shape(rng: random.Random) -> Any:
    if rng.randrange(5):
        return rng.choice([1, 3, 40, (2, 3), (4, 4), (8, 8, 4), (1,), ()])
    return rng.choice(
        [
            lambda: enormous(rng),
            lambda: (enormous(rng), enormous(rng)),
            lambda: (2,) * rng.choice([8, 31, 32, 33]),
            lambda: (1,) * rng.choice([8, 31, 32, 33]),
            lambda: (enormous(rng), 0, 3),
            lambda: rng.choice([-1, 2.5, "3", None, [[1]], True, np.int64(7)]),
        ]
    )()


def row_bytes(fields: dict[str, dict[str, Any]]) -> int:
    total = 0
    for field in fields.values():
        elements = 1
        for length in np.atleast_1d(np.asarray(field["shape"], dtype=object)).ravel():
            elements *= int(length)
        total += elements * np.dtype(field["dtype"]).itemsize
    return total


class Arguments:
    """The arguments of a constructor, and the folder for its files."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.folder = folder
        self.fields: dict[str, dict[str, Any]] = {
            name: {"dtype": np.dtype(rng.choice(DTYPES)), "shape": shape(rng)}
            for name in ["a", "b", "c"][: rng.choice([0, 1, 1, 2, 2, 3])]
        }
        try:
            unit = row_bytes({name: self.fields[name] for name in rng.sample(list(self.fields), 1)})
        except (TypeError, ValueError):
            unit = 1
        self.size: Any = size(rng, max(unit, 1))
        if rng.randrange(8) == 0:
            self.size = rng.choice([0, -1, -(2**63), 2**64, 1e300, 2.0**62, float("nan"), float("inf"), "4", None, 1.5])
        self.options: dict[str, Any] = {"seed": 1}
        for option in ("next_of", "stack_compress"):
            if rng.randrange(3) == 0:
                self.options[option] = [name for name in self.fields if rng.randrange(2)]
        if rng.randrange(2):
            self.options["mmap_prefix"] = folder / "ring"
        self.steps = rng.randrange(6) == 0
        if self.steps:
            self.fields["done"] = {"dtype": np.dtype(bool), "shape": 1}
            self.options["Nstep"] = {"size": size(rng, 1), "rew": [n for n in self.fields if rng.randrange(6) == 0]}

    def __repr__(self) -> str:
        return f"({self.size!r}, {self.fields!r}, **{self.options!r})"

    def transitions(self, first: int, rows: int) -> dict[str, np.ndarray]:
        """Return rows that differ from each other, and whose stacks share no frames."""
        following = self.options.get("next_of", [])
        made = {}
        for name, field in self.fields.items():
            lengths = np.atleast_1d(np.asarray(field["shape"], dtype=np.int64))
            numbers = np.arange(first, first + rows).reshape(-1, *(1 for _ in lengths)) % 97
            for column, ahead in [(name, 0), *([(f"next_{name}", 1)] if name in following else [])]:
                values = np.zeros((rows, *lengths), field["dtype"])
                filled = np.broadcast_to(numbers + ahead, values.shape)
                for part in values.dtype.names or [None]:
                    values[part or ...] = filled.astype(values.dtype[part] if part else values.dtype)
                made[column] = values
        return made


def segments() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith(f"cpprb_impl-{os.getpid()}-")}


def check_files(arguments: Arguments, capacity: int) -> None:
    """Check that the file of each field without frames has room for every row."""
    frames = set(arguments.options.get("next_of", [])) | set(arguments.options.get("stack_compress", []))
    for name in arguments.fields.keys() - frames:
        file = arguments.folder / f"ring_{name}.dat"
        wanted = capacity * row_bytes({name: arguments.fields[name]})
        assert file.stat().st_size == wanted, f"{file.name} has {file.stat().st_size} bytes, not {wanted}"


def check_use(rng: random.Random, buffer: Any, arguments: Arguments) -> None:
    """Check that the buffer stores the rows that are added."""
    capacity = buffer.get_buffer_size()
    assert capacity == int(arguments.size), f"a capacity of {capacity} for {arguments.size}"
    if "mmap_prefix" in arguments.options:
        check_files(arguments, capacity)
    if not arguments.fields or row_bytes(arguments.fields) > MOST_SMALL:
        return
    added = 0
    for rows in (1, 1, 5, 1):
        buffer.add(**arguments.transitions(added, rows))
        added += rows
    if not arguments.steps:
        stored = min(added, capacity)
        assert buffer.get_stored_size() == stored
        first = added - stored
        held = buffer.get_all_transitions()
        for name, column in arguments.transitions(first, stored).items():
            wanted = np.roll(column, first % capacity, axis=0).reshape(held[name].shape)
            assert np.array_equal(held[name], wanted), f"{name} is {held[name]!r}, not {wanted!r}"
    elif buffer.get_stored_size() == 0:
        return
    many = (1 << rng.randrange(40, 64)) + rng.choice([-1, 0, 1])
    with contextlib.suppress(*TOO_LARGE):
        buffer.sample(many)
        raise AssertionError(f"a batch of {many} transitions")
    assert all(len(column) == 3 for column in buffer.sample(3).values())


def run(rng: random.Random, kinds: tuple[type, ...] = KINDS, note: Callable[[str], None] = lambda text: None) -> bool:
    """Return whether a buffer was made. Raises AssertionError if it is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = Arguments(rng, Path(folder))
        kind = rng.choice(kinds)
        note(f"{kind.__name__}{arguments}")
        before = segments()
        with limits():
            try:
                buffer = kind(arguments.size, arguments.fields, **arguments.options)
            except REFUSED as error:
                assert segments() == before, f"a segment is left behind: {kind.__name__}{arguments}"
                too_large = isinstance(error, MemoryError) and "address space" in str(error)
                assert not (too_large and os.listdir(folder)), f"files of no buffer: {kind.__name__}{arguments}"
                return False
            try:
                check_use(rng, buffer, arguments)
            except Exception as error:
                error.add_note(f"{kind.__name__}{arguments}")
                raise
            finally:
                buffer.close()
    assert segments() == before
    return True
