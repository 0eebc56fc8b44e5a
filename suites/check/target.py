"""What is checked: a class in a module, functions in a file, or an adapter."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters import registry
from adapters.base import Adapter, Columns, Field, Spec, Step
from suites.check import functions, recognise, remote
from suites.check.bridge import adapter_of
from suites.check.functions import BadFunctions, BufferFunctions
from suites.check.subject import CheckSettings, Subject

PEER = "peer:"  # before the name of a peer of this project


@dataclass(frozen=True)
class Target:
    """A buffer to check, as a subject of functions and as a kind of adapter."""

    subject: Subject
    kind: type[Adapter]
    called: str  # how it is called, for people


def target(
    buffer: str, like: str | None, project: Path | None, setting: CheckSettings, through: str | None = None
) -> Target:
    """Return the buffer named by `module:Class`, the path of a Python file, or "peer:" and a peer's name. Modules are
    also looked for in the folder `project`. The functions of a file are run by the Python `through`, if it is given.
    Raises `BadFunctions`."""
    if buffer.endswith(".py") and not Path(buffer).is_file():
        raise BadFunctions(f"BUFFER must be module:Class or an existing Python file, got {buffer!r}")
    if through is not None:
        return _of(remote.load(Path(buffer), through, project), setting, _through(Path(buffer)))
    if project is not None:
        sys.path.insert(0, str(project))
    if buffer.startswith(PEER):
        kind = registry.adapter_class(buffer.removeprefix(PEER))
        return Target(Subject(functions_of(kind), setting), kind, kind.usage)
    if buffer.endswith(".py"):
        return _from_file(Path(buffer), setting)
    known = recognise.recognise(buffer, like)
    return _of(known.functions, setting, known.called)


def _from_file(file: Path, setting: CheckSettings) -> Target:
    source = file.read_text(encoding="utf-8")
    sys.path.insert(0, str(file.resolve().parent))
    return _of(functions.load(source, str(file)), setting, _through(file))


def _through(file: Path) -> str:
    return f"through the functions in {file.name}"


def _of(found: BufferFunctions, setting: CheckSettings, called: str) -> Target:
    subject = Subject(found, setting)
    return Target(subject, adapter_of(subject), called)


def functions_of(kind: type[Adapter]) -> BufferFunctions:
    """Return the functions of an adapter. Scripts cannot repeat a finding through them, as they need this project."""

    def fields(obs_shape: Any, obs_dtype: str, act_shape: Any, act_dtype: str) -> Mapping[str, Field]:
        obs, act = Field(tuple(obs_shape), obs_dtype), Field(tuple(act_shape), act_dtype)
        return {"obs": obs, "act": act, "rew": Field((), "float32"), "next_obs": obs, "done": Field((), "bool")}

    def make(  # type: ignore[no-untyped-def]
        capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, **more
    ):
        return kind.make(Spec(capacity, fields(obs_shape, obs_dtype, act_shape, act_dtype), seed=seed, **more))

    def make_prioritized(  # type: ignore[no-untyped-def]
        capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, prioritized, alpha, beta
    ):
        more = {"prioritized": prioritized, "alpha": alpha, "beta": beta}
        return make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, **more)

    def add(buffer: Adapter, obs: Any, act: Any, rew: float, next_obs: Any, done: bool) -> None:
        buffer.add([Step(obs, act, rew, next_obs, done)])

    def add_batch(buffer: Adapter, obs: Any, act: Any, rew: Any, next_obs: Any, done: Any) -> None:
        buffer.add_batch({"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done})

    def sample(buffer: Adapter, size: int) -> Columns:
        return buffer.sample(size)

    def update(buffer: Adapter, indexes: Any, priorities: Any) -> None:
        buffer.update_priorities(indexes, priorities)

    def size(buffer: Adapter) -> int:
        return len(buffer)

    named: dict[str, Any] = {"make": make, "add": add, "sample": sample, "size": size}
    if kind.contract.priorities.value:
        named |= {"make": make_prioritized, "update": update}
    if kind.contract.batch_add.value:
        named |= {"add_batch": add_batch}
    return BufferFunctions(named, "", eps=kind.contract.eps, largest=kind.contract.largest)
