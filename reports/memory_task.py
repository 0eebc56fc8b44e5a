"""The table in docs/own-loop.md of trainings with R2D2, made from the record of `make r2d2 SEEDS=5`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reports.figures.formatting import NOTHING, span
from reports.rendering import table

RECORD = Path(__file__).resolve().parents[1] / "results" / "settings" / "r2d2.json"
COLUMNS = ("agent", "solved", "learner steps until then", "steps of the environments until then", "best mean return")


def lines() -> list[str]:
    """Return the table in Markdown, one row per agent; nothing if there is no record."""
    if not RECORD.exists():
        return []
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return table(COLUMNS, _rows(record)).splitlines()


def _rows(record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for agent in record["agents"]:
        of = [each for each in record["trainings"] if each["agent"] == agent]
        solved = [each for each in of if each["solved"]]
        best = [max(each["scores"]) for each in of]
        steps, transitions = (
            span(_ends(each[name] for each in solved), "{:,}".format) if solved else NOTHING
            for name in ("steps", "transitions")
        )
        yield agent, f"{len(solved)} of {len(of)}", steps, transitions, span(_ends(best), "{:.2f}".format)


def _ends(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)
