"""Checks of overridden and assigned names: methods that cpprb's classes call in `add` and `sample`, and options.

Native code replaces cpprb's calls. Overridden methods are looked up once, when a buffer is created, and an assignment
that would have no effect raises AttributeError.
"""

from __future__ import annotations

from collections.abc import Mapping

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.layout import options
from cpprb_impl.layout.siblings import KNOWN

# Methods that native code does not call, and what to do instead of overriding them.
READ_OTHERS = "override sample, and read the rows that it chooses with get(indexes)"
IN_ALL = {"get_stored_size": READ_OTHERS, "get_next_index": READ_OTHERS, "get_buffer_size": READ_OTHERS}
IN_PRIORITIZED = {"get_max_priority": "override add, and pass it priorities"}
IN_SHARED = {"_encode_sample": "override sample, and change what super().sample() returns"}
IN_SELECTIVE = dict.fromkeys(
    ("get_stored_size", "get_buffer_size"), "override sample, and read the rows that it chooses with _encode_sample"
)

METHODS = frozenset({*IN_ALL, *IN_PRIORITIZED, *IN_SHARED})
# buffer_size is Stable-Baselines3's name for the size.
OPTIONS = KNOWN | options.OPTIONS.keys() | {"buffer_size"}
FIXED = METHODS | OPTIONS


def refuse_overridden(kind: type[Ring]) -> None:
    """Raise TypeError if a buffer's class overrides a method that native code does not call."""
    refuse(kind, Ring, IN_ALL)
    if issubclass(kind, PrioritizedRing):
        refuse(kind, PrioritizedRing, IN_PRIORITIZED)


def refuse(kind: type, base: type, methods: Mapping[str, str]) -> None:
    """Raise TypeError, saying what to do instead, if `kind` overrides any of the `methods` of `base`."""
    for name, instead in methods.items():
        if getattr(kind, name) is not getattr(base, name):
            raise TypeError(f"{kind.__name__} must not override {name}, which native code does not call: {instead}")


def check_option(buffer: object, name: str, others: frozenset[str] = frozenset()) -> None:
    """Raise AttributeError if `name` is an option or one of `others`, and the class belongs to this library."""
    kind = type(buffer)
    if name in OPTIONS | others and kind.__module__.partition(".")[0] == "cpprb_impl":
        raise AttributeError(f"{name} must be given when the {kind.__name__} is created: it cannot be changed later")


def check_assigned(buffer: object, name: str) -> None:
    """Raise AttributeError if assigning to the attribute `name`, one of `FIXED`, would have no effect.

    A subclass may use an option's name for its own attribute, as in cpprb.
    """
    kind = type(buffer)
    if name in METHODS:
        raise AttributeError(f"{name} must not be assigned to a buffer: define it in a subclass of {kind.__name__}")
    check_option(buffer, name)
