"""The options of buffer constructors: their types, defaults and checks, each stated once.

A new option needs a line in a class and one in `OPTIONS`, a line in `parse_options` (bindings/options.cpp) and one in
the struct that this function fills, the code that uses it, and a docstring. An option at its default is not part of a
`Layout`, so that buffers created by earlier versions have equal layouts; options that were always part of layouts are
in `ALWAYS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypedDict, TypeVar

from cpprb_impl.layout.fields import flag, integer
from cpprb_impl.layout.siblings import ignore_siblings

EnvDict = Mapping[str, Mapping[str, Any]]
Names = str | Sequence[str] | None
Stacks = Names | Mapping[str, int]

LOCKS = ("none", "critical", "buffer")
BACKENDS = ("sharedctypes", "SharedMemory")


class BufferOptions(TypedDict, total=False):
    """Options of every buffer."""

    next_of: Names
    stack_compress: Stacks
    default_dtype: Any
    Nstep: Mapping[str, Any] | None
    sequences: Mapping[str, Any] | None
    n_envs: int
    autoreset: str | None
    compress: str | None
    mmap_prefix: str | PathLike[str] | None
    seed: int | None


class SharedOptions(BufferOptions, total=False):
    """Options of shared buffers."""

    lock: str
    prefault: bool
    logger: Any
    ctx: Any
    backend: str


class PriorityOptions(TypedDict, total=False):
    """Options that concern priorities."""

    alpha: float
    eps: float
    normalize: str | None
    check_for_update: bool


class PrioritizedOptions(BufferOptions, PriorityOptions, total=False):
    """Options of the single-process prioritized buffer."""


class SharedPrioritizedOptions(SharedOptions, PriorityOptions, total=False):
    """Options of the shared prioritized buffer."""


def check_exponent(name: str, value: float) -> float:
    """Return `value` as a float. Raises TypeError or ValueError naming `name` unless it is finite and not negative."""
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite and not negative, got {value!r}") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be finite and not negative, got {number!r}")
    return number


def check_normalize(normalize: str | None) -> str | None:
    """Return `normalize`, which selects the divisor of importance weights. Raises ValueError unless it is valid."""
    if normalize is not None and not (isinstance(normalize, str) and normalize in ("buffer", "batch")):
        raise ValueError(f"normalize must be 'buffer', 'batch' or None, got {normalize!r}")
    return normalize


def _mode(name: str, value: Any) -> str | None:
    if value not in (None, "next_step"):
        raise ValueError(f"{name} must be 'next_step' or None, got {value!r}")
    return None if value is None else str(value)


def _one_of(known: Sequence[str]) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        return str(value)

    return check


class Option(NamedTuple):
    """A constructor option. `check` returns a value as a layout stores it, or raises an error that names the option."""

    default: Any = None
    check: Callable[[str, Any], Any] | None = None  # None: depends on the fields, or not part of a layout


OPTIONS: dict[str, Option] = {
    "next_of": Option(),
    "stack_compress": Option(),
    "compress": Option(),
    "default_dtype": Option(),
    "Nstep": Option(),
    "sequences": Option(),
    "n_envs": Option(1, integer),
    "autoreset": Option(None, _mode),
    "mmap_prefix": Option(),
    "seed": Option(),
    "alpha": Option(0.6, check_exponent),
    "eps": Option(1e-4, check_exponent),
    "normalize": Option("buffer", lambda _name, value: check_normalize(value)),
    "check_for_update": Option(False, flag),
    "lock": Option("none", _one_of(LOCKS)),
    "prefault": Option(False, flag),
    "logger": Option(),
    "ctx": Option(),
    "backend": Option("sharedctypes", _one_of(BACKENDS)),
}
#: option -> its type
TYPES = {**PrioritizedOptions.__annotations__, **SharedPrioritizedOptions.__annotations__}
OF_PRIORITIES = PrioritizedOptions.__annotations__.keys() - BufferOptions.__annotations__.keys()
OF_SHARING = SharedOptions.__annotations__.keys() - BufferOptions.__annotations__.keys()
#: Constructor options that are not part of a layout, or are part of it only in a different form.
APART = {"default_dtype", "Nstep", "seed", "logger", "ctx", "backend"}
ALWAYS = {"next_of", "stack_compress", "lock", "prefault", *PriorityOptions.__annotations__}

Init = TypeVar("Init", bound=Callable[..., None])


def known(kind: type, **defaults: Any) -> dict[str, Any]:
    """Return the names in an options class, in the order of `OPTIONS`, with their defaults."""
    names: frozenset[str] = kind.__optional_keys__  # type: ignore[attr-defined]
    return {name: defaults.get(name, option.default) for name, option in OPTIONS.items() if name in names}


def shows(options: Mapping[str, Any]) -> Callable[[Init], Init]:
    """Decorate a constructor that takes these options, so that its signature shows each option with its default."""

    def decorate(init: Init) -> Init:
        own = inspect.signature(init).parameters.values()
        plain = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=TYPES[name])
            for name, value in options.items()
        ]
        others = inspect.Parameter("others", inspect.Parameter.VAR_KEYWORD, annotation=Any)
        init.__signature__ = inspect.Signature([*plain, *shown, others])  # type: ignore[attr-defined]
        return init

    return decorate


def read(of: str, takes: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a constructor: the given ones, checked as far as possible without fields, and the defaults.

    Warns of options that only other classes have; raises TypeError for a name that no class has.
    """
    ignore_siblings(of, [name for name in given if name not in takes])
    return checked({**takes, **{name: value for name, value in given.items() if name in takes}})


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a layout stores them, as far as possible without fields. Raises errors that name an option."""
    return {name: check(name, value) if (check := OPTIONS[name].check) else value for name, value in options.items()}


def stored(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked options that a layout contains."""
    return {
        name: value
        for name, value in options.items()
        if name not in APART and (name in ALWAYS or value != OPTIONS[name].default)
    }
