"""Everything that defines a buffer, as one value.

Constructors fill in a layout, the native ring is created from it, and copies and pickles contain it. Shared segments
store it as JSON, with which a pickled buffer compares its own layout.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cpprb_impl.archive.dtype_names import dtype_named
from cpprb_impl.archive.json_object import JsonObject
from cpprb_impl.layout.fields import (
    NativeField,
    check_compress,
    field_names,
    next_fields,
    object_shapes,
    parse_size,
    path_prefix,
    refuse_objects,
    stack_axes,
    without_objects,
)
from cpprb_impl.layout.nstep import read_options
from cpprb_impl.layout.options import (
    ALWAYS,
    APART,
    OF_PRIORITIES,
    OF_SHARING,
    SharedPrioritizedOptions,
    checked,
    stored,
)
from cpprb_impl.layout.sequences import read_sequences

#: Options that the layout of a shared buffer may contain.
IN_SHARED = SharedPrioritizedOptions.__annotations__.keys() - APART - {"compress"}


@dataclass(frozen=True)
class Layout:
    """A buffer's size, fields and options. Buffers with equal layouts behave in the same way.

    Parameters
    ----------
    size : int
        The capacity in transitions.
    fields : list of (name, dtype, shape)
        The fields that the native ring stores, without next_* of `next_of`; int64 numbers stand for Python objects.
    options : dict
        The constructor's checked options, as `cpprb_impl.layout.options.stored` returns them; "objects" lists the
        fields of Python objects.
    prioritized : bool
    nstep : dict, optional
        As returned by `read_options`.
    """

    size: int
    fields: list[NativeField]
    options: dict[str, Any]
    prioritized: bool
    nstep: dict[str, Any] | None = None

    @classmethod
    def of(cls, size: Any, fields: list[NativeField], options: Mapping[str, Any], *, prioritized: bool) -> Given:
        """Return the layout of a constructor's arguments, and the fields that `add` takes.

        `options` are those that `cpprb_impl.layout.options.read` returned. Raises TypeError, ValueError, OverflowError
        or KeyError if the options contradict each other or do not fit the fields.
        """
        capacity, prefix, nstep = parse_size(size), path_prefix(options["mmap_prefix"]), options["Nstep"]
        following, stacked = field_names("next_of", options["next_of"]), stack_axes(options["stack_compress"], fields)
        is_shared = "lock" in options
        objects, declared = {} if is_shared else object_shapes(fields), list(following)
        # The next_* of an n-step transition comes from N rows later or from the episode's end, and for objects the ring
        # has no bytes to compare. In both cases next_* is stored like any other field.
        own = [name for name in following if nstep or name in objects]
        fields = fields + next_fields(fields, own)
        stacked |= {f"next_{name}": stacked[name] for name in own if name in stacked}
        following = [name for name in following if name not in own]
        shared_frames = {f"next_{name}" for name in following}
        fields = [field for field in fields if field[0] not in shared_frames]
        given = fields + next_fields(fields, following)
        steps = read_options(nstep, given) if nstep else None
        if is_shared and options["compress"] is not None:
            raise ValueError(
                f"compress must be None in a shared buffer, whose frames have a fixed size, got {options['compress']!r}"
            )
        check_compress(options["compress"], stacked, prefix)
        sequences = options["sequences"]
        if sequences is not None:
            if steps:
                raise ValueError(f"sequences must be None with Nstep, got {sequences!r}")
            n_envs = options["n_envs"]
            sequences = read_sequences(sequences, given, capacity, n_envs, prioritized=prioritized, shared=is_shared)
        if prefix and is_shared:  # processes with different working directories open its files, too
            prefix = os.path.join(os.getcwd(), prefix)
        read = {"next_of": following, "stack_compress": stacked, "mmap_prefix": prefix, "sequences": sequences}
        chosen = stored({**options, **read})
        if objects:
            _refuse_with_objects(options, steps)
            refuse_objects(objects, stacked, prefix)
            chosen["objects"] = list(objects)
        layout = cls(capacity, without_objects(fields) if objects else fields, chosen, prioritized, steps)
        return Given(layout, given, fields, declared)

    @property
    def added(self) -> list[NativeField]:
        """The fields that `add` takes, with numbers in place of Python objects."""
        return self.fields + next_fields(self.fields, self.options["next_of"])

    @property
    def n_envs(self) -> int:
        """The number of environments whose steps are added together."""
        return int(self.options.get("n_envs", 1))

    @property
    def exponents(self) -> dict[str, float] | None:
        """The options alpha and eps; None without priorities."""
        return {name: self.options[name] for name in ("alpha", "eps")} if self.prioritized else None

    @property
    def steps(self) -> dict[str, Any] | None:
        """The n-step options. They include the number of environments, whose pending steps are interleaved."""
        return self.nstep if self.nstep is None or self.n_envs == 1 else {**self.nstep, "n_envs": self.n_envs}

    def private(self, size: int, **options: Any) -> Layout:
        """Return the layout of a buffer of one process for the rows of this shared one, with other `options`."""
        kept = {name: value for name, value in self.options.items() if name not in OF_SHARING}
        return replace(self, size=size, options=kept | options)

    def text(self) -> str:
        """Return the layout as text, as stored in a segment."""
        fields = [{"name": name, "dtype": _dtype_as_json(dtype), "shape": shape} for name, dtype, shape in self.fields]
        return json.dumps({**vars(self), "fields": fields}, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Layout:
        """Parse the `text` of a shared buffer's layout.

        Raises KeyError, TypeError, ValueError, OverflowError or RecursionError unless a buffer could have written it.
        """
        about = JsonObject(json.loads(text), "the description")
        fields = []
        for each in about.objects("fields"):
            name, shape = each.string("name"), tuple(each.integers("shape"))
            if each.is_null("dtype"):
                raise ValueError(f"{name!r} has a dtype that JSON cannot describe: pass the buffer itself, pickled")
            fields.append((name, _dtype(each.value("dtype", str, list)), shape))
        nstep = None if about.is_null("nstep") else read_options(about.value("nstep", dict), fields)
        options, prioritized = about.value("options", dict), about.value("prioritized", bool)
        wrong = f"its options must be those of a shared buffer that differ from the defaults, got {sorted(options)}"
        wanted = ALWAYS if prioritized else ALWAYS - {*OF_PRIORITIES}
        if not wanted <= options.keys() <= (IN_SHARED if prioritized else IN_SHARED - {*OF_PRIORITIES}):
            raise ValueError(wrong)
        if stored(checked(options)) != options:
            raise ValueError(wrong)
        layout = cls(about.integer("size", least=1), fields, options, prioritized, nstep)
        if (sequences := options.get("sequences")) is not None:
            size, n_envs = layout.size, layout.n_envs
            read = read_sequences(sequences, layout.added, size, n_envs, prioritized=prioritized, shared=True)
            if read != sequences:
                raise ValueError(wrong)
        if layout.text() != text:
            raise ValueError("its description is not in the form that this library writes")
        return layout


class Given(NamedTuple):
    """A layout, and everything else that follows from the constructor's arguments."""

    layout: Layout
    added: list[NativeField]  # the fields that `add` takes
    stored: list[NativeField]  # the layout's fields, with dtype object where it has numbers
    next_of: list[str]  # as it was given


def _refuse_with_objects(options: Mapping[str, Any], steps: Mapping[str, Any] | None) -> None:
    if options["n_envs"] != 1 or (steps and {"truncated", "discount"} & steps.keys()):
        raise ValueError("n_envs, and Nstep's truncated and discount, need a buffer without fields of Python objects")
    for name in ("autoreset", "sequences"):
        if options[name] is not None:
            raise ValueError(f"{name} needs a buffer without fields of Python objects")


def _dtype_as_json(dtype: np.dtype) -> Any:
    """Return `dtype` in JSON form, or None if JSON cannot describe it."""
    try:
        described = dtype.str if dtype.names is None else dtype.descr
        read = _dtype(json.loads(json.dumps(described)))
        return described if read == dtype and read.alignment == dtype.alignment else None
    except (TypeError, ValueError):  # such as overlapping fields
        return None


def _dtype(described: Any) -> np.dtype:
    dtype: np.dtype = np.lib.format.descr_to_dtype(_tuples(described))
    return dtype


def _tuples(described: Any) -> Any:
    """Convert JSON lists to NumPy's form: a list of fields, each a tuple, with tuples as shapes."""
    if isinstance(described, str):
        return dtype_named(described).str  # NumPy accepts other names, and parses some as Python
    return [(_name(name), _tuples(kind), *map(tuple, shape)) for name, kind, *shape in described]


def _name(described: Any) -> Any:
    return tuple(described) if isinstance(described, list) else described  # a name with a title


Description = Layout  # its name in pickles of version 0.1
