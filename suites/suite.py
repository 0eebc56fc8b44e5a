"""The contract between a suite and the runner. CONTRIBUTING.md says how to add a suite.

`suites/<name>/spec.py` declares what the suite measures, as a `Suite`; it imports no peer. `suites/<name>/measure.py`
is a launch: it measures one peer, and is the only module of the suite that calls peers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from adapters import registry
from results.record import Better, Param, Record, Run
from suites.runner import jobs

if TYPE_CHECKING:
    from suites.workloads import Workload
    from suites.workloads.user_workload import UserSizes, UserWorkload


class Quantity(NamedTuple):
    """The unit of a benchmark's samples, and the direction that is better."""

    unit: str
    better: Better


@dataclass(frozen=True, eq=False)  # compared by identity
class Launch:
    """A fresh process that measures some records of one peer, at most once per block."""

    name: str
    records: Sequence[Record]
    command: Callable[[Sequence[Record], Path, int], list[str]]  # for these records, this cells file and this block
    least_limit: float = 0.0  # seconds that it may take even if the profile's limit is lower
    blocks: int | None = None  # the number of blocks in which it is launched, if lower than the suite's
    turns: bool = False  # whether it can take turns with another launch (`suites.runner.turns`)
    apart_by: str = ""  # a parameter in which launches of the same job differ, such as the control's side

    @property
    def open_records(self) -> list[Record]:
        """The records still to be measured. A cell that has failed once is not measured again, since its reason is
        known, and a peer that hangs would use up its time limit in every block."""
        return [record for record in self.records if record.ok or record.pending]

    def due(self, block: int) -> list[Record]:
        """Return the open records without a sample of this block."""
        return [record for record in self.open_records if all(sample.block != block for sample in record.samples)]

    @property
    def peer(self) -> str:
        return self.records[0].peer

    @cached_property
    def by_job(self) -> Mapping[tuple, Record]:
        """Map each job (without the peer) to its record."""
        return {self._job(record): record for record in self.records}

    @property
    def first_job(self) -> tuple:
        """The job of the launch's first record, without the peer. Launches with the same first job are compared."""
        return self._job(self.records[0])

    def _job(self, record: Record) -> tuple:
        params = (each for each in record.params.items() if each[0] != self.apart_by)
        return (record.suite, record.workload, record.benchmark, *params)


@dataclass(frozen=True, kw_only=True)
class SuiteSettings:
    """How much a profile measures; each suite adds fields of its own."""

    blocks: int = 1  # how often each peer is launched if there is no time budget

    def options(self) -> dict[str, object]:
        """Return the suite's own fields, for suites whose launches have exactly these as options."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "blocks"}


S = TypeVar("S", bound=SuiteSettings)


class Suite(ABC, Generic[S]):
    """Benchmarks that are measured together."""

    name: ClassVar[str]
    benchmarks: ClassVar[Mapping[str, Quantity]]
    #: profile -> settings; other profiles do not measure this suite
    profiles: Mapping[str, S]
    #: False if a single launch of each peer is enough; a time budget is then not spent on more launches
    repeated: ClassVar[bool] = True
    #: The benchmarks that compare buffers, by which the gate judges and a budget's plan ranks them; None: all.
    compared: ClassVar[Collection[str] | None] = None
    #: name of a workload generated for this suite -> the function that generates it
    generated: ClassVar[Mapping[str, Callable[[], Workload]]] = {}

    @abstractmethod
    def workloads(self, settings: S) -> Collection[str]:
        """Return the names of the workloads that are measured."""

    @abstractmethod
    def peers(self) -> Sequence[str]:
        """Return the names of the peers that can be measured."""

    @abstractmethod
    def launches(self, run: Run, settings: S, peers: Sequence[str], workloads: Sequence[str]) -> list[Launch]:
        """Declare the cells of these peers on these workloads in `run`, and return the launches that measure them."""

    def recordings(self, _settings: S) -> Mapping[str, int]:
        """Return the number of rows that launches need of each workload, unless the usual recording is enough."""
        return {}

    def for_user_workload(self, _settings: S, _workload: UserWorkload, _sizes: UserSizes) -> S | None:
        """Return the settings for a user-defined workload, or None if this suite does not measure it."""
        return None

    # Helpers for implementing the methods above.

    def declare(
        self,
        run: Run,
        peer: str,
        workload: str,
        params: Mapping[str, Param],
        benchmarks: Iterable[str] | None = None,
    ) -> list[Record]:
        """Declare a cell for each of these benchmarks (default: all of the suite's)."""
        about: dict[str, Any] = {"suite": self.name, "peer": peer, "workload": workload, "params": params}
        names = self.benchmarks if benchmarks is None else benchmarks
        return [run.cell(benchmark=name, **about, **self.benchmarks[name]._asdict()) for name in names]

    def command(self, peer: str, options: Mapping[str, object]) -> list[str]:
        """Return the arguments of `python` for a launch. An option whose value is a list is repeated."""
        named: list[str] = []
        for name, value in {"peer": peer, **options}.items():
            for each in value if isinstance(value, list) else [value]:
                named.append(f"--{name}={jobs.encoded(each) if is_dataclass(each) else each}")
        return ["-m", f"suites.{self.name}.measure", *named]

    def launch(
        self,
        name: str,
        records: Sequence[Record],
        options: Mapping[str, object] | Callable[[Sequence[Record]], Mapping[str, object]],
        python: str | None = None,
        seeded: bool = False,
        **limits: Any,
    ) -> Launch:
        """Return a launch that measures these records, all of one peer. `options` may be a function of the records that
        are still to be measured; `python` is the interpreter, by default the peer's; with `seeded`, its option `seed`
        is the number of the block; `limits` are fields of `Launch`."""
        peer = records[0].peer

        def command(wanted: Sequence[Record], cells: Path, block: int) -> list[str]:
            named = dict(options(wanted) if callable(options) else options)
            if seeded:
                named["seed"] = block
            return [python or registry.python(peer), *self.command(peer, {**named, "cells": cells})]

        return Launch(name, records, command, **limits)
