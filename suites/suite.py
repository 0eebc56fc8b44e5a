"""The contract between a suite and the runner. CONTRIBUTING.md says how to add a suite.

`suites/<name>/spec.py` declares what the suite measures, as a `Suite`; it imports no peer. `suites/<name>/measure.py`
is a process run: it measures one peer, and is the only file of the suite that calls it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from adapters import registry
from results.record import Better, Record, Run

if TYPE_CHECKING:
    from suites.workloads import Workload
    from suites.workloads.own import Own, OwnSizes


class Quantity(NamedTuple):
    """What the samples of a benchmark are."""

    unit: str
    better: Better


@dataclass(frozen=True, eq=False)  # a launch is itself, whatever it measures
class Launch:
    """A process run that measures some records of one peer, once per block."""

    name: str
    records: Sequence[Record]
    command: Callable[[Sequence[Record], Path], list[str]]  # for these records and this cells file
    least_limit: float = 0.0  # seconds that it may take, where the profile's limit is less
    blocks: int | None = None  # how many it is launched in, where those are fewer than its suite's

    @property
    def open_records(self) -> list[Record]:
        """The records without a reason to stop. A cell that failed once isn't measured again: it has its reason, and a
        peer that hangs would cost its time limit in every block."""
        return [record for record in self.records if record.ok or record.pending]

    @property
    def peer(self) -> str:
        return self.records[0].peer

    @cached_property
    def jobs(self) -> frozenset:
        """What is measured, whichever peer it is."""
        return frozenset((each.suite, each.workload, each.benchmark, *each.params.items()) for each in self.records)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much a profile measures; each suite adds fields of its own."""

    blocks: int = 1  # how often each peer is launched, without a time budget

    def options(self) -> dict[str, object]:
        """The suite's own fields, where they are the options of its process runs as they stand."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "blocks"}


S = TypeVar("S", bound=Settings)


class Suite(ABC, Generic[S]):
    """Benchmarks that are measured together."""

    name: ClassVar[str]
    benchmarks: ClassVar[Mapping[str, Quantity]]
    #: by profile; a profile that is not here measures nothing of this suite
    profiles: Mapping[str, S]
    #: False: one launch of each says all, and a time budget is not spent on more of them
    repeated: ClassVar[bool] = True
    #: rows that are made for this suite, by the name of their workload
    generated: ClassVar[Mapping[str, Callable[[], Workload]]] = {}

    @abstractmethod
    def workloads(self, settings: S) -> Collection[str]:
        """Names of the workloads that are measured."""

    @abstractmethod
    def peers(self) -> Sequence[str]:
        """Names of the peers that can be measured."""

    @abstractmethod
    def launches(self, run: Run, settings: S, peers: Sequence[str], workloads: Sequence[str]) -> list[Launch]:
        """Declare the cells of these peers on these workloads in `run`, and return the launches that measure them."""

    def recordings(self, _settings: S) -> Mapping[str, int]:
        """Rows that a launch needs of a workload, where it is not the workload's usual recording."""
        return {}

    def of_own(self, _settings: S, _own: Own, _sizes: OwnSizes) -> S | None:
        """The settings for a workload of the user's own; None: this suite does not measure it."""
        return None

    # What the methods above are made of.

    def declare(
        self,
        run: Run,
        peer: str,
        workload: str,
        params: Mapping[str, int],
        benchmarks: Iterable[str] | None = None,
    ) -> list[Record]:
        """Declare a cell for each of these benchmarks (default: all of the suite's)."""
        about: dict[str, Any] = {"suite": self.name, "peer": peer, "workload": workload, "params": params}
        names = self.benchmarks if benchmarks is None else benchmarks
        return [run.cell(benchmark=name, **about, **self.benchmarks[name]._asdict()) for name in names]

    def command(self, peer: str, options: Mapping[str, object]) -> list[str]:
        """What follows `python` in the command of a process run. An option whose value is a list is repeated."""
        named: list[str] = []
        for name, value in {"peer": peer, **options}.items():
            named += [f"--{name}={each}" for each in (value if isinstance(value, list) else [value])]
        return ["-m", f"suites.{self.name}.measure", *named]

    def launch(
        self,
        name: str,
        records: Sequence[Record],
        options: Mapping[str, object] | Callable[[Sequence[Record]], Mapping[str, object]],
        **limits: Any,
    ) -> Launch:
        """A launch of these records' peer. `options` may depend on which of them are still to be measured; `limits` are
        fields of `Launch`."""
        peer = records[0].peer

        def command(wanted: Sequence[Record], cells: Path) -> list[str]:
            named = options(wanted) if callable(options) else options
            return [registry.python(peer), *self.command(peer, {**named, "cells": cells})]

        return Launch(name, records, command, **limits)
