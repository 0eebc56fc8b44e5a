"""The functions through which a buffer is checked. Their signatures say what the buffer can do.

A Python file defines them: the file of an API family (suites/check/families), or the user's own.

    make(capacity, ...)            return an empty buffer
    add(buffer, obs, act, ...)     store one step
    sample(buffer, size)           return a batch: a dict of columns, (size, *shape) each
    update(buffer, indexes, priorities)      optional: set priorities of rows of the last batch
    size(buffer)                   optional: the number of rows that can be sampled

`make`, `add` and `sample` are passed only the arguments that they name (`OPTIONS`, `STEP` and `DRAW`). Further
functions are optional, too: `add_batch(buffer, obs, act, ...)` with columns, `windows(buffer, size, length)`, which
returns columns of (size, length, *shape), `save(buffer, path)` and `load(buffer, path)`, which fills an empty buffer,
`at(buffer, indexes)`, which returns the rows with the "indexes" of an earlier batch, and `cut(buffer)`, which ends the
episode in progress after its newest step, as a program must that stops within an episode.

A batch has the columns "obs", "act", "rew", "next_obs" and "done" (whether bootstrapping ends here), as far as the
buffer has them, and with priorities "weights" and "indexes". With n-step returns it may have "discount", the factor of
the value of next_obs. Frames of a stack are on the last axis of "obs", oldest first. Windows may also have the columns
"terminated", "truncated" and "first", and "mask", which is false where a window has no step. A batch may have "info"
as it was added, and "desired_goal" as it was added or drawn for the row.

`WAYS`, if defined, names other ways to use the buffer: {name: options that `make` is passed in addition}. An option
named `stack`, `n_step`, `gamma` or `envs` also tells the probes what such a buffer must return.

Constants state what the buffer promises. The first five apply to buffers with priorities.

    EPS            what it adds to a priority before that is raised to alpha
    LARGEST        what it clips priorities to, after EPS is added
    ALPHA          its alpha, if `make` has no argument of this name
    WITHHOLDS      True if a sampled row cannot be sampled again before its update
    WEIGHTS_OVER   what importance weights are divided by: the largest weight of the "buffer", that of the "batch", or
                   "nothing" (then they are (rows * probability) ** -beta). Any of these is sound unless the file states
                   one. "batch mean", "batch sum" and "past" (the largest weight so far) must be stated.
    SHARED         True if processes that are forked from the one that made it may add while this one samples
    EVICTS_EPISODES    True if whole episodes are overwritten
    STORES_FINAL_OBS   True if the last observation of an episode takes the place of a row
"""

from __future__ import annotations

import inspect
import linecache
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any

REQUIRED = ("make", "add", "sample")
FUNCTIONS = (*REQUIRED, "update", "size", "add_batch", "windows", "save", "load", "at", "cut")
#: Arguments that `make` may name besides the capacity, and what they are if nothing else is asked for.
OPTIONS: Mapping[str, Any] = {
    "obs_shape": (4,),
    "obs_dtype": "float32",
    "act_shape": (),
    "act_dtype": "int64",  # actions are below 5 if their dtype is an integer
    "seed": 0,
    "prioritized": False,  # named if one function makes buffers of both kinds
    "alpha": 0.6,
    "beta": 0.4,
    "n_step": 1,  # steps that a row's reward sums
    "gamma": 0.99,
    "stack": 1,  # frames per observation, stored once; `add` is passed single frames
    "envs": 1,  # environments that step in turn; `add` is passed `env`
    "length": 1,  # of the sequences that `windows` returns
}
#: Arguments that `add` may name. A buffer with one flag for the end of an episode names `done`. One that distinguishes
#: a time limit from a terminal state names `truncated`, and `done` or `terminated`.
#: `info` is a number that belongs to the step, as values of Gymnasium's info do. One that draws goals (HER) names
#: `achieved_goal`, `next_achieved_goal` (of next_obs) and `desired_goal`, each (1,).
STEP = (
    *("obs", "act", "rew", "next_obs", "done", "terminated", "truncated", "env", "priority", "first"),
    *("info", "achieved_goal", "next_achieved_goal", "desired_goal"),
)
#: Arguments that `sample` may name besides the size.
DRAW = ("beta",)
#: Values of WEIGHTS_OVER.
WEIGHTED_SETS = ("buffer", "batch", "nothing", "batch mean", "batch sum", "past")


class BadFunctions(Exception):  # noqa: N818 (what is bad)
    """The file does not define usable functions; the message says why."""


class NotApplicable(Exception):  # noqa: N818 (a state rather than an error)
    """The buffer offers no way to do what a probe asks for; the message says what is missing."""


@dataclass(frozen=True)
class BufferFunctions:
    """The functions of one buffer, by name, and the source from which a script can be made that repeats a finding."""

    named: Mapping[str, Callable[..., Any]]
    source: str  # of the file
    imported: str = ""  # the line that imports the buffer's class as `Buffer`, for a family's file
    ways: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    eps: float = 0.0  # added to a priority before it is raised to alpha; `EPS` in the file
    largest: float = math.inf  # what priorities are clipped to, after eps is added; `LARGEST` in the file
    alpha: float | None = None  # of a buffer whose `make` has no argument alpha; `ALPHA` in the file
    withholds: bool = False  # whether a sampled row cannot be sampled again before its update; `WITHHOLDS` in the file
    shared: bool = False  # whether forked processes may add and sample at the same time; `SHARED` in the file
    evicts_episodes: bool = False  # whether whole episodes are overwritten; `EVICTS_EPISODES` in the file
    stores_final_obs: bool = False  # whether those take places of rows; `STORES_FINAL_OBS` in the file
    weights_over: str = ""  # one of `WEIGHTED_SETS`, or "" if the file does not state it; `WEIGHTS_OVER` in the file
    family: str = ""  # "" for the user's own file
    file: str = ""  # the path of the file
    elsewhere: bool = False  # run by another Python (`suites.check.remote`), which shares no memory with this one

    def has(self, function: str) -> bool:
        return function in self.named

    def require(self, function: str) -> Callable[..., Any]:
        """Return this function. Raises `NotApplicable` if there is none."""
        if function not in self.named:
            raise NotApplicable(f"there is no function {function}")
        return self.named[function]

    def accepts(self, function: str, argument: str) -> bool:
        """Return whether this function exists and names this argument."""
        return function in self.named and argument in _parameters(self.named[function])

    def takes_any(self, function: str) -> bool:
        """Return whether this function takes any keyword, as a `make` with ways does."""
        kinds = [each.kind for each in _parameters(self.named[function]).values()]
        return inspect.Parameter.VAR_KEYWORD in kinds


@cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def load(source: str, where: str, buffer: type | None = None, imported: str = "", family: str = "") -> BufferFunctions:
    """Return the functions that this source defines, with `buffer` as its global `Buffer`. Raises `BadFunctions`."""
    defined: dict[str, Any] = {"__name__": "checked_functions", "__file__": where, "Buffer": buffer}
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)  # for tracebacks
    try:
        exec(compile(source, where, "exec"), defined)
    except Exception as error:
        raise BadFunctions(f"{where} cannot be run: {type(error).__name__}: {error}") from error
    named = {name: defined[name] for name in FUNCTIONS if callable(defined.get(name))}
    if lacking := [name for name in REQUIRED if name not in named]:
        raise BadFunctions(f"{where} must define make, add and sample, but lacks {', '.join(lacking)}")
    more = promised(defined, where)
    return BufferFunctions(named, source, imported, family=family, file=os.path.abspath(where), **more)


def promised(defined: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what a file's constants say, as arguments of `BufferFunctions`. Raises `BadFunctions`."""
    over = defined.get("WEIGHTS_OVER", "")
    if over not in ("", *WEIGHTED_SETS):
        raise BadFunctions(f"WEIGHTS_OVER in {where} must be one of {', '.join(WEIGHTED_SETS)}, got {over!r}")
    eps, largest = defined.get("EPS", 0.0), defined.get("LARGEST", math.inf)
    if not isinstance(eps, Real) or not eps >= 0:
        raise BadFunctions(f"EPS in {where} must be a number of at least 0, got {eps!r}")
    if not isinstance(largest, Real) or not largest > 0:
        raise BadFunctions(f"LARGEST in {where} must be a positive number, got {largest!r}")
    return {
        "ways": defined.get("WAYS", {}),
        "eps": float(eps),
        "largest": float(largest),
        "alpha": defined.get("ALPHA"),
        "withholds": bool(defined.get("WITHHOLDS")),
        "weights_over": over,
        "evicts_episodes": bool(defined.get("EVICTS_EPISODES")),
        "stores_final_obs": bool(defined.get("STORES_FINAL_OBS")),
        "shared": bool(defined.get("SHARED")),
    }
