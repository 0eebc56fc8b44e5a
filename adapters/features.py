"""The feature table of the report: one sentence per column, generated from a peer's contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapters.behaviours import GivenPriority, ImportanceWeights, NewRowPriority, References, Replacement
from adapters.contract import Contract, Returns, RowFields, Stated

_RELATIVE_TO = {
    ImportanceWeights.OVER_BUFFER: "relative to the largest in the buffer",
    ImportanceWeights.OVER_BATCH: "relative to the largest in the batch",
    ImportanceWeights.NOT_NORMALISED: "not normalised",
    ImportanceWeights.NONE: "no",
}
_KEEPS = {
    References.COPIES: "yes",
    References.KEPT: "no: keeps references to the caller's arrays",
    References.KEPT_OF_BATCHES: "single rows: yes; batches: no, keeps views of the caller's arrays",
}
_ON_ADD = {
    GivenPriority.TAKEN: "priorities on add and later",
    GivenPriority.NOT_POSSIBLE: "priorities only after the add",
}


def sentences(contract: Contract) -> dict[str, str]:
    """Return the sentence for each column. It may end with its evidence in square brackets."""
    return {
        "batch_add": _yes_or_no(contract.batch_add),
        "flexible_fields": _yes_or_no(contract.fields, contract.fields.value is RowFields.ANY),
        "prioritized": _priorities(contract),
        "weights": _weights(contract) + _remark(contract, "weights"),
        "duplicates": _duplicates(contract) + _remark(contract, "duplicates"),
        "gives": contract.returns.value.value + _bracketed(contract.returns.detail),
        "copies_on_add": _KEEPS[contract.references] + _remark(contract, "copies_on_add"),
        "n_step": _yes_or_no(contract.n_step),
        "processes": _with_detail(contract.processes.value.value, ": ", contract.processes),
        "framework": contract.framework,
        "licence": contract.licence,
        "compression": _yes_or_no(contract.compression),
        "disk": _yes_or_no(contract.disk),
        "machines": _yes_or_no(contract.machines),
        "last_release": _release(contract),
    }


def facts(contract: Contract) -> dict[str, Any]:
    """Return the facts that the report uses as values: the `facts` of a peer in a record (results/schema.json)."""
    kept = {References.KEPT: "always", References.KEPT_OF_BATCHES: "batches"}
    return {
        "adds_batches": contract.batch_add.value,
        "returns_rows": contract.returns.value is Returns.ROWS,
        "keeps_references": kept.get(contract.references, "never"),
    }


def _yes_or_no(stated: Stated[Any], value: bool | None = None) -> str:
    holds = stated.value if value is None else value
    return _with_detail("yes" if holds else "no", ", " if holds else ": ", stated)


def _with_detail(answer: str, separator: str, stated: Stated[Any]) -> str:
    text = f"{answer}{separator}{stated.detail}" if stated.detail else answer
    return f"{text} [{stated.evidence}]" if stated.evidence else text


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


def _remark(contract: Contract, column: str) -> str:
    return _bracketed(contract.remarks.get(column, ""))


def _priorities(contract: Contract) -> str:
    stated = contract.priorities
    if not stated.value:
        return _yes_or_no(stated)
    parts = [stated.detail or _ON_ADD[contract.given_priority], *_limits_of_priorities(contract)]
    return f"yes, {'; '.join(parts)}"


def _limits_of_priorities(contract: Contract) -> Iterable[str]:
    if contract.new_row_priority is NewRowPriority.FIXED:
        yield "rows added without one get priority 1"
    if not contract.draws_last_slot:
        yield "the last slot is never drawn"
    if contract.withholds_sampled_rows:
        yield "an update must follow each sample"
    if contract.batches_ahead:
        yield f"updates take effect up to {contract.batches_ahead} batches late"


def _weights(contract: Contract) -> str:
    if not contract.priorities.value:
        return "no"
    relative = _RELATIVE_TO[contract.weights]
    return relative if contract.returns_weights else f"no: probabilities only (the adapter computes them, {relative})"


def _duplicates(contract: Contract) -> str:
    uniform, prioritized = (
        "never" if kind is Replacement.WITHOUT else "yes"
        for kind in (contract.replacement, contract.prioritized_replacement)
    )
    if not contract.priorities.value or uniform == prioritized:
        return uniform
    return f"uniform: {uniform}; prioritized: {prioritized}"


def _release(contract: Contract) -> str:
    release = contract.release
    return f"{release.version}, {release.date.isoformat()} [PyPI]" if release else "in this project"
