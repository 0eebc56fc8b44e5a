"""How the figures of each suite are named and used, as read from results/suites.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from results.verdicts import REFERENCE, REFERENCES


class Kind(Enum):
    """The purpose of a suite's figures."""

    RANKS = "speeds that determine which peer is fastest"
    RATIOS = "figures with ratios that determine nothing"
    AMOUNTS = "bytes or waiting times"
    CHECKS = "whether answers are right, on generated rows"


@dataclass(frozen=True)
class SuitePresentation:
    """How a suite and its benchmarks are presented. The defaults apply to a suite that the file does not list."""

    name: str
    title: str = ""
    spoken: str = ""  # its name in a sentence
    kind: Kind = Kind.RANKS
    reference: str = REFERENCE
    #: benchmark -> its label, with parameters in braces, in this order; other benchmarks follow, under their own names.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: benchmark -> what its label means, as a sentence
    meanings: Mapping[str, str] = field(default_factory=dict)
    #: What was measured, in a few sentences.
    note: str = ""
    #: Benchmarks whose figures are counts; the suite's other figures are speeds.
    counts: Collection[str] = ()
    #: Where its rows come from, if it plays a workload's environment instead of using the recorded rows.
    rows: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name.capitalize())
        object.__setattr__(self, "spoken", self.spoken or self.name)


def _read(name: str, about: dict[str, object]) -> SuitePresentation:
    if "kind" in about:
        about = about | {"kind": Kind[str(about["kind"]).upper()]}
    return SuitePresentation(name, reference=REFERENCES.get(name, REFERENCE), **about)  # type: ignore[arg-type]


#: name -> suite, in the order of the page
SUITES: dict[str, SuitePresentation] = {
    name: _read(name, about)
    for name, about in tomllib.loads(Path(__file__).with_name("suites.toml").read_text(encoding="utf-8")).items()
}


def suite_of(name: str) -> SuitePresentation:
    """Return the suite of this name, with the defaults if the file does not list it."""
    return SUITES.get(name) or SuitePresentation(name)
