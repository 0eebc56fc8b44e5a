"""Chooses how a class is called: the API family whose calls fit its constructor, methods and signatures.

Nothing of the class is called, and no library is imported for the choice. `families/NAME.py` is fitted to the class's
own names (`fitting`); the family that needs the fewest changes is taken.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites.check import signatures
from suites.check.fitting import FamilyFit, Misfit, fit
from suites.check.functions import BadFunctions, BufferFunctions, load

FOLDER = Path(__file__).parent / "families"
#: Other values of LIKE, as libraries are called on PyPI or imported: a family, or the beginning of several.
#: Where two families fit equally well, the first in the order of the file names is taken.
ALIASES = {
    **dict.fromkeys(("cleanrl", "stable_baselines3", "sb3_contrib", "sbx", "sbx_rl"), "sb3"),
    **dict.fromkeys(("openai_baselines", "stable_baselines"), "baselines"),
    **dict.fromkeys(("spinningup", "spinup", "td3"), "arrays"),
    **dict.fromkeys(("ray", "ray_rllib"), "rllib"),
    **dict.fromkeys(("keras_rl2", "rl"), "keras_rl"),
    "chainerrl": "pfrl",
    "dopamine_rl": "dopamine",
    "flashbax": "flashbax",
    "her": "sb3_her",
    "dqn_tutorial": "memory",
    "udacity": "fixed_batch",
}

CALLED = "{buffer} is called like {family} ({about}): {calls}"
OWN = "{buffer} is called as {path} says"
RENAMED = "its names for {names}"
LEFT_OUT = "without {names}"
ABSENT = "with plain objects for the spaces of {packages}, which is not installed"
LIKE_UNKNOWN = "LIKE must be one of {families}, or a file, got {like!r}"
NO_FILE = "LIKE={path} cannot be read: {error}"
NO_MODULE = "BUFFER must be module:Class, got {text!r}"
NOT_IMPORTED = "module {module} cannot be imported: {error}"
NO_NAME = "module {module} has no {name!r}{hint}"
DID_YOU_MEAN = "; did you mean {names}?"
NOT_CALLABLE = "{module}:{name} must be a class or a function that returns a buffer, got {kind}"
NO_FAMILY = """{buffer} is called like none of the {number} API families:
{misfits}
{own_file}"""
OWN_FILE = """Write its calls in a file, and check that (with the same PROJECT): BUFFER=path/to/file.py
    {imported}

    def make(capacity):
        return Buffer({arguments})  # an empty one
    def add(buffer, obs, act, rew, next_obs, done):
        ...  # store one step: four float32 as obs, an integer as act
    def sample(buffer, size):
        ...  # draw a batch; if it stores actions as floats, return act.astype(int)
        return {{"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done}}
    def size(buffer):
        return len(buffer)  # the number of rows
    def update(buffer, indexes, priorities):
        ...  # only with priorities: then make(capacity, alpha, beta), and sample returns weights and indexes, too
An example is in docs/check-own-api.md."""
MISFIT = "    {families}: {reason}"
FORCED = "{buffer} cannot be called like {like}:\n{misfits}\n{own_file}"


@dataclass(frozen=True)
class Recognised:
    """The functions of a family, fitted to a class."""

    functions: BufferFunctions
    called: str  # how the class will be called, and why


def families() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def recognise(buffer: str | Callable[..., Any], like: str | None = None) -> Recognised:
    """Return the functions through which a class, or a function that makes buffers, is called. It may be given as
    "module:Class".

    `like` names the family, a library with several of them, or a file with functions. Raises `BadFunctions`.
    """
    if isinstance(buffer, str):
        text, buffer = buffer, imported(buffer)
    else:
        text = f"{buffer.__module__}:{buffer.__qualname__}"
    name = text.rpartition(":")[2]
    if like is not None and like.endswith(".py"):
        return Recognised(_own(like, buffer, import_line(text)), OWN.format(buffer=name, path=like))
    tried = _known(like) if like else families()
    fits, misfits = _fits(buffer, tried)
    if not fits:
        said = {"buffer": name, "misfits": _by_reason(misfits), "own_file": own_file(text, buffer)}
        raise BadFunctions((FORCED if like else NO_FAMILY).format(**said, like=like, number=len(misfits)))
    family = max(fits, key=lambda each: fits[each].closeness)
    found = fits[family]
    functions = load(found.source, str(FOLDER / f"{family}.py"), buffer, import_line(text), family)
    return Recognised(functions, _called(name, family, found))


def own_file(text: str, buffer: Callable[..., Any]) -> str:
    """Return a file to fill in with the calls of the buffer `text` ("module:Class"), which no family can call."""
    arguments = signatures.constructor(buffer).names or ("...",)
    return OWN_FILE.format(imported=import_line(text), arguments=", ".join(arguments))


def _known(like: str) -> list[str]:
    """Return the families of this name: `flashbax_flat`, and for `flashbax` all that begin with it."""
    spelled = re.sub(r"[-. ]", "_", like.lower())
    name = ALIASES.get(spelled, spelled)
    found = [each for each in families() if each == name or each.startswith(f"{name}_")]
    if not found:
        raise BadFunctions(LIKE_UNKNOWN.format(families=", ".join(sorted({*families(), *ALIASES})), like=like))
    return found


def _own(path: str, buffer: Callable[..., Any], line: str) -> BufferFunctions:
    try:
        source = Path(path).read_text()
    except OSError as error:
        raise BadFunctions(NO_FILE.format(path=path, error=error)) from error
    return load(source, path, buffer, line)  # type: ignore[arg-type]


def _by_reason(misfits: Mapping[str, str]) -> str:
    families: dict[str, list[str]] = {}
    for family, reason in misfits.items():
        families.setdefault(reason, []).append(family)
    return "\n".join(MISFIT.format(families=", ".join(names), reason=reason) for reason, names in families.items())


def _fits(buffer: Callable[..., Any], tried: Sequence[str]) -> tuple[dict[str, FamilyFit], Mapping[str, str]]:
    fits, misfits = {}, {}
    for family in tried:
        try:
            fits[family] = fit((FOLDER / f"{family}.py").read_text(), buffer)
        except Misfit as misfit:
            misfits[family] = str(misfit)
    return fits, misfits


def _called(name: str, family: str, found: FamilyFit) -> str:
    about = (FOLDER / f"{family}.py").read_text().split('"""')[1].splitlines()[0].rstrip(".")
    parts = [CALLED.format(buffer=name, family=family, about=about, calls="; ".join(found.calls))]
    if found.renamed:
        renamed = ", ".join(f"{was} ({own})" for was, own in found.renamed.items())
        parts.append(RENAMED.format(names=renamed))
    if found.left_out:
        parts.append(LEFT_OUT.format(names=", ".join(dict.fromkeys(found.left_out))))
    if found.absent:
        parts.append(ABSENT.format(packages=", ".join(found.absent)))
    return "; ".join(parts)


def imported(text: str) -> Callable[..., Any]:
    """Return the class, or function, that "module:Class" names. Raises `BadFunctions`."""
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise BadFunctions(NO_MODULE.format(text=text))
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise BadFunctions(NOT_IMPORTED.format(module=module_name, error=f"{type(error).__name__}: {error}")) from error
    for part in name.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, [each for each in dir(found) if not each.startswith("_")])
            hint = DID_YOU_MEAN.format(names=" or ".join(close)) if close else ""
            raise BadFunctions(NO_NAME.format(module=module_name, name=part, hint=hint))
        found = getattr(found, part)
    if not callable(found):
        raise BadFunctions(NOT_CALLABLE.format(module=module_name, name=name, kind=type(found).__name__))
    return found


def import_line(text: str) -> str:
    """Return the line of a script that imports what "module:Class" names as `Buffer`."""
    module, _, name = text.partition(":")
    outer, dot, _ = name.partition(".")
    return f"from {module} import {outer}; Buffer = {name}" if dot else f"from {module} import {name} as Buffer"
