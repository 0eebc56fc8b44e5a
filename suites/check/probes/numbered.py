"""The rows that the conformance suite stores. They are numbered, and all different."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from adapters.base import Columns, Field
from adapters.checks import AddedRows, keyed_columns
from suites.workloads import Workload

WORKLOAD = "numbered"
FIELDS: Mapping[str, Field] = {
    "obs": Field((4,), "float32"),
    "act": Field((), "int64"),
    "rew": Field((), "float32"),
    "next_obs": Field((4,), "float32"),
    "done": Field((), "bool"),
}
SERIES = 8_192  # rows that can be added to one buffer, limited by the distinct values of a float32


@functools.cache
def series(fields: tuple[tuple[str, Field], ...]) -> Columns:
    return keyed_columns(dict(fields), SERIES)


@functools.cache
def known(fields: tuple[tuple[str, Field], ...], returned: tuple[str, ...]) -> AddedRows:
    """Return the rows of the series as far as batches have their columns."""
    kept = {name: field for name, field in fields if name in returned}
    return AddedRows({name: series(fields)[name] for name in kept}, kept)


def workload() -> Workload:
    """Describe these rows for the record."""
    columns = keyed_columns(FIELDS, SERIES)
    source = "made for the conformance suite: no two rows are alike"
    return Workload.computed(WORKLOAD, source, columns)
