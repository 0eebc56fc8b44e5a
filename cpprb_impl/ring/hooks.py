"""Names that cpprb's classes look up in `add` and `sample`, and options, in subclasses and as attributes.

Native code takes the place of cpprb's calls. Whether a class overrides a method is found out once, when a buffer is
made, and an assignment that would have no effect raises AttributeError.
"""

from __future__ import annotations

from collections.abc import Mapping

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.layout.siblings import KNOWN

# Methods that native code does not call, and what to do instead of overriding them.
READ_OTHERS = "override sample, and read the rows that it chooses with get(indexes)"
IN_ALL = {"get_stored_size": READ_OTHERS, "get_next_index": READ_OTHERS, "get_buffer_size": READ_OTHERS}
IN_PRIORITIZED = {"get_max_priority": "override add, and give it priorities"}
IN_SHARED = {"_encode_sample": "override sample, and change what super().sample() returns"}
IN_SELECTIVE = dict.fromkeys(
    ("get_stored_size", "get_buffer_size"), "override sample, and read the rows that it chooses with _encode_sample"
)

METHODS = frozenset({*IN_ALL, *IN_PRIORITIZED, *IN_SHARED})
# buffer_size is the name that Stable-Baselines3 has for the size.
OPTIONS = KNOWN | {"autoreset", "buffer_size", "compress", "n_envs", "lock", "prefault", "seed"}
FIXED = METHODS | OPTIONS


def refuse_overridden(kind: type[Ring]) -> None:
    """Raise TypeError if the class of a buffer overrides a method that native code does not call."""
    refuse(kind, Ring, IN_ALL)
    if issubclass(kind, PrioritizedRing):
        refuse(kind, PrioritizedRing, IN_PRIORITIZED)


def refuse(kind: type, base: type, methods: Mapping[str, str]) -> None:
    """Raise TypeError if `kind` has other `methods` than `base`, with what to do instead."""
    for name, instead in methods.items():
        if getattr(kind, name) is not getattr(base, name):
            raise TypeError(f"{kind.__name__} must not override {name}, which native code does not call: {instead}")


def check_option(buffer: object, name: str, others: frozenset[str] = frozenset()) -> None:
    """Raise AttributeError if `name` is that of an option, or one of `others`, and the class is one of this library."""
    kind = type(buffer)
    if name in OPTIONS | others and kind.__module__.partition(".")[0] == "cpprb_impl":
        raise AttributeError(f"{name} must be given when the {kind.__name__} is made: it cannot be changed later")


def check_assigned(buffer: object, name: str) -> None:
    """Raise AttributeError if assigning to the attribute `name`, one of `FIXED`, would have no effect.

    A subclass may use the name of an option for an attribute of its own, as in cpprb.
    """
    kind = type(buffer)
    if name in METHODS:
        raise AttributeError(f"{name} must not be assigned to a buffer: define it in a subclass of {kind.__name__}")
    check_option(buffer, name)
