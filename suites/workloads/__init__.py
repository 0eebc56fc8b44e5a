"""Transitions recorded from real environments: seeded, cached, and verified by checksum at each load.

A recording is a pure function of its environment, count and seed, so the cache may be deleted at any time. The cache
contains the few arrays from which the columns are rebuilt, and their checksum.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adapters.base import Columns, Field, Step
from suites.workloads.recipes import RECIPES
from suites.workloads.recording import columns_of, record

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "workloads"
SEED = 20261120
#: An environment variable of launches: the recording of the user-defined workload, as name=path.
USER_WORKLOAD = "REPLAYBENCH_USER_WORKLOAD"
SOURCE, USUAL, COLUMN = "source", "usual rows", "column "  # keys in that file; COLUMN is a prefix
NAMES = (*RECIPES, *filter(None, [os.environ.get(USER_WORKLOAD, "").partition("=")[0]]))


@dataclass(frozen=True)
class Workload:
    """A kind of transition, and a recording of it."""

    name: str
    version: str
    source: str  # one sentence: where the transitions come from
    columns: Columns  # (transitions, *shape) each; obs, act, rew, next_obs, done if rows are steps
    sha256: str  # of the recording; shows whether two machines measured the same rows
    stack: int = 1  # frames per observation, along its last axis

    @classmethod
    def computed(cls, name: str, source: str, columns: Columns) -> Workload:
        """Return a workload whose rows are computed rather than recorded."""
        digest = hashlib.sha256(b"".join(column.tobytes() for column in columns.values())).hexdigest()
        return cls(name, "1", source, columns, digest)

    @property
    def transitions(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def fields(self) -> dict[str, Field]:
        return {key: Field(column.shape[1:], column.dtype.name) for key, column in self.columns.items()}

    @property
    def row_bytes(self) -> int:
        return sum(column[0].nbytes for column in self.columns.values())

    @property
    def is_plain(self) -> bool:
        """Whether the workload's rows are steps; otherwise they are dicts."""
        return tuple(self.columns) == Step._fields

    def describe(self) -> dict[str, Any]:
        """Return its description for the record."""
        about = ("name", "version", "source", "transitions", "row_bytes", "sha256")
        fields = {key: asdict(field) for key, field in self.fields.items()}
        return {name: getattr(self, name) for name in about} | {"fields": fields}

    def steps(self) -> list[Step] | list[dict]:
        """Return the recording as a training loop receives it, one `env.step` after the other."""
        return list(self.stepwise())

    def batches(self, rows: int) -> list[Step] | list[Columns]:
        """Return the recording as consecutive batches of `rows` rows, each a step or a dict of columns. An incomplete
        last batch is dropped."""
        rows = min(rows, self.transitions)
        starts = range(0, self.transitions - rows + 1, rows)
        pieces = ({key: column[at : at + rows] for key, column in self.columns.items()} for at in starts)
        return [Step(**piece) for piece in pieces] if self.is_plain else list(pieces)

    def stepwise(self) -> Iterator[Step] | Iterator[dict]:
        """Generate the steps one at a time, without keeping references to them.

        Each observation is a separate array, and each scalar a Python scalar. Within an episode, a step's `next_obs` is
        the same object as the next step's `obs`, as in a loop with `obs = next_obs`; this also halves the memory.
        """
        fields = self.fields
        following = {f"next_{key}": key for key, field in fields.items() if fields.get(f"next_{key}") == field}
        after: dict = {}
        for row in range(self.transitions):
            step = {}
            for key, column in self.columns.items():
                value = after.pop(key, None)
                step[key] = _own(column[row]) if value is None else value
            done = step.get("done", False)
            if following and not (done if isinstance(done, bool) else np.any(done)):
                after = {key: step[next_key] for next_key, key in following.items()}
            yield Step(**step) if self.is_plain else step


def _own(value: np.ndarray | np.generic) -> object:
    return value.copy() if value.ndim else value.item()


def load(name: str, transitions: int | None = None, seed: int = SEED, cache: Path = CACHE) -> Workload:
    """Load the workload `name` from the cache, or record it if the cache has no undamaged copy."""
    name_of_users, _, path = os.environ.get(USER_WORKLOAD, "").partition("=")
    if name == name_of_users:
        return _load_user_workload(name, Path(path), transitions)
    if name not in RECIPES:
        raise ValueError(f"unknown workload {name!r}; known: {', '.join(NAMES)}")
    recipe = RECIPES[name]
    count = transitions or recipe.transitions
    path = cache / f"{name.replace('/', '-')}.v{recipe.version}.{count}.{seed}.npz"
    found = _read(path)
    if found is None:
        env = recipe.make()
        raw = record(env, count, seed, recipe.policy, recipe.slices)
        env.close()
        found = raw, _write(path, raw)
    raw, digest = found
    columns = {key: column[:count] for key, column in columns_of(raw, recipe.stack, recipe.slices).items()}
    return Workload(name, recipe.version, recipe.source, columns, digest, recipe.stack)


def possible(names: Iterable[str]) -> list[str]:
    """Return the workloads that can be recorded here, and report the others on standard error."""
    found = []
    for name in names:
        if name in RECIPES and not RECIPES[name].is_possible:
            print(f"{name} is left out: {RECIPES[name].needs} is not installed", file=sys.stderr)
        else:
            found.append(name)
    return found


def usual_rows(name: str) -> int:
    """Return the number of rows in the workload's usual recording."""
    return RECIPES[name].transitions if name in RECIPES else load(name).transitions


def save_user_workload(name: str, source: str, columns: Columns, transitions: int, cache: Path = CACHE) -> None:
    """Save the recording of a user-defined workload, so that this process and its launches can `load` it.

    The file is named after its content. The recording may be longer than `transitions`, the usual number of rows.
    """
    raw = {COLUMN + key: column for key, column in columns.items()}
    raw |= {SOURCE: np.array(source), USUAL: np.array(transitions)}
    path = cache / "own" / f"{_digest(raw)}.npz"
    _write(path, raw, np.savez)  # random content does not compress
    os.environ[USER_WORKLOAD] = f"{name}={path}"


def _load_user_workload(name: str, path: Path, transitions: int | None) -> Workload:
    found = _read(path)
    if found is None:
        raise ValueError(f"the recording of {name} is missing or damaged")
    raw, digest = found
    count = transitions or int(raw[USUAL])
    columns = {key.removeprefix(COLUMN): column[:count] for key, column in raw.items() if key.startswith(COLUMN)}
    recording = Workload(name, "1", str(raw[SOURCE]), columns, digest)
    if recording.transitions < count:
        raise ValueError(f"{count} rows of {name} were requested, but only {recording.transitions} were recorded")
    return recording


def _digest(raw: Columns) -> str:
    digest = hashlib.sha256()
    for key in sorted(raw):
        digest.update(f"{key} {raw[key].dtype.str} {raw[key].shape};".encode())
        digest.update(np.ascontiguousarray(raw[key]).data)
    return digest.hexdigest()


def _read(path: Path) -> tuple[Columns, str] | None:
    """Return a recording and its digest, which is computed only once: hashing 100 MB takes 0.2 s per launch."""
    try:
        with np.load(path, allow_pickle=False) as file:
            raw = {key: file[key] for key in file.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zipfile.zlib.error) as error:
        print(f"workload cache {path.name} cannot be read ({error}): recording it again", file=sys.stderr)
        return None
    expected = str(raw.pop("sha256", ""))
    if not raw or (digest := _digest(raw)) != expected:
        print(f"workload cache {path.name} is damaged (its checksum differs): recording it again", file=sys.stderr)
        return None
    return raw, digest


def _write(path: Path, raw: Columns, save: Callable = np.savez_compressed) -> str:
    """Return the recording's digest. Writes atomically, since two launches may record the same workload at once."""
    digest = _digest(raw)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            save(file, sha256=np.array(digest), **raw)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return digest
