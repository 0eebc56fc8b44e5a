"""Facts about a peer as typed values, for the plan and the report; its features are described in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Facts:
    """The `facts` about a peer in a run file. The defaults apply if nothing is known."""

    adds_batches: bool = True  # adds many rows in one call
    returns_rows: bool = False  # samples are rows, which the adapter stacks into columns
    #: Whether the buffer keeps references to the caller's arrays: never, after adds of many rows, or after all adds.
    keeps_references: Literal["never", "batches", "always"] | None = None

    def keeps(self, benchmark: str, params: Mapping[str, Any]) -> bool:
        """Return whether this benchmark's adds keep the caller's arrays, which must then not change."""
        if benchmark not in ("add", "add_dicts"):  # lists are converted to new arrays
            return False
        return self.keeps_references == "always" or (self.keeps_references == "batches" and params.get("batch", 1) != 1)


def facts_of(facts: Mapping[str, Any] | None, features: Mapping[str, str]) -> Facts:
    """Return a peer's facts. Records made before 23 November 2026 have none; they are derived from its features."""
    return Facts(**facts) if facts else _of_sentences(features)


def _of_sentences(features: Mapping[str, str]) -> Facts:
    copies = features.get("copies_on_add", "")
    return Facts(
        adds_batches=features.get("batch_add", "yes").startswith("yes"),
        returns_rows=features.get("gives", "").startswith("rows"),
        keeps_references=next((kept for start, kept in _KEPT.items() if copies.startswith(start)), None),
    )


_KEPT: Mapping[str, Literal["never", "batches", "always"]] = {
    "yes": "never",
    "no": "always",
    "one step: yes; a batch: no": "batches",
}
