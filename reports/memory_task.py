"""The tables in docs/own-loop.md of trainings with R2D2, made from the records of `make r2d2 SEEDS=...`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from reports.figures.formatting import NOTHING, span
from reports.rendering import table

FOLDER = Path(__file__).resolve().parents[1] / "results" / "settings"
AGENTS, BUFFERS = "r2d2.json", "r2d2-*.json"  # records
RESULTS = ("solved", "learner steps until then", "steps of the environments until then", "best mean return")


def agents() -> list[str]:
    """Return a table in Markdown, one row per agent; nothing if there is no record."""
    return _lines("agent", AGENTS, lambda _, agent: agent)


def buffers() -> list[str]:
    """Return a table in Markdown, one row per buffer that the same agent learns from; nothing if there is no record."""
    return _lines("buffer", BUFFERS, lambda record, _: record["buffer"])


def _lines(header: str, files: str, name: Callable[[Mapping[str, Any], str], str]) -> list[str]:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob(files))]
    rows = [(name(each, agent), *_results(each, agent)) for each in records for agent in each["agents"]]
    return table((header, *RESULTS), rows).splitlines() if rows else []


def _results(record: Mapping[str, Any], agent: str) -> tuple[str, ...]:
    of = [each for each in record["trainings"] if each["agent"] == agent]
    solved = [each for each in of if each["solved"]]
    steps, transitions = (
        _spread([each[name] for each in solved], "{:,.0f}") if solved else NOTHING for name in ("steps", "transitions")
    )
    best = _spread([max(each["scores"]) for each in of], "{:.2f}")
    return f"{len(solved)} of {len(of)}", steps, transitions, best


def _spread(values: Sequence[float], form: str) -> str:
    """Return the median, and the smallest and largest value."""
    return f"{form.format(median(values))} ({span((min(values), max(values)), form.format)})"
