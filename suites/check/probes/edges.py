"""Probes of invalid use: sampling too early or too many rows, updating a priority too late or to an invalid value.

Since each call may hang or end the process, `BufferPool.announce_risk` announces it first.
"""

from __future__ import annotations

import numpy as np

from adapters.base import WrongAnswer
from adapters.checks import SIGNIFICANCE
from suites.check.probes.probing import CAPACITY, BufferPool, ProbedBuffer, Seen, fit, own, said
from suites.check.subject import PanicException

STALE_ROUNDS = 8
NEWER = 24  # rows that are added between a sample and its update
ODD_BATCHES = 60  # of 16 rows, sampled after an invalid priority was set
ALPHA = 0.6
#: worst first
UNHAPPY = ("panics", "gives garbage", "gives no rows", "refused", "gives fewer", "repeats rows")


def stale(pool: BufferPool) -> dict[str, Seen]:
    """Set the priorities of rows that were overwritten after being sampled to a billion times the others'."""
    hits, elsewhere, expected, drawn, updated = 0, 0, 0.0, 0, 0
    with pool.priorities() as buffer:
        low = min(1.0, buffer.adapter.contract.largest / 1e3)
        for _ in range(STALE_ROUNDS):
            buffer.fill(CAPACITY, low)
            buffer.settle(8)
            numbers, batch = buffer.sample(8)
            indexes = own(batch)["indexes"]
            buffer.fill(NEWER, low)
            gone = numbers < buffer.held[0]
            try:
                buffer.adapter.update_priorities(indexes, np.where(gone, 1e9, low))
            except Exception as error:
                return {"stale_update": Seen("refused", f"the update raised {said(error)}", int(gone.sum()))}
            buffer.settle(8)
            after, batch = buffer.sample(8)
            targets, others = np.unique(numbers[gone]) + CAPACITY, np.unique(numbers[gone]) + NEWER
            hits, elsewhere = hits + int(np.isin(after, targets).sum()), elsewhere + int(np.isin(after, others).sum())
            updated, drawn, expected = updated + int(gone.sum()), drawn + 8, expected + 8 * len(targets) / CAPACITY
            buffer.update(batch["indexes"], after)
    about = (
        f"{updated} priorities were set for rows that had been overwritten: {hits} of {drawn} later draws returned "
        f"the rows now in those slots ({expected:.0f} expected if no priority changed)"
    )
    share = np.array([hits, drawn - hits])
    if hits > 0.6 * drawn:
        word = "changes the new row"
    elif elsewhere > 0.6 * drawn:
        word, about = "changes other rows", f"{about}; {elsewhere} returned rows added {NEWER} rows after those sampled"
    else:
        even = fit(share, np.array([expected, drawn - expected]) / drawn) > SIGNIFICANCE
        word = "ignored" if even else "changes other rows"
    return {"stale_update": Seen(word, about, drawn)}


def too_early(pool: BufferPool) -> dict[str, Seen]:
    return {"empty": _unhappy(pool, stored=0, size=16)}


def too_many(pool: BufferPool) -> dict[str, Seen]:
    return {"batch_over_stored": _unhappy(pool, stored=5, size=16)}


def _unhappy(pool: BufferPool, stored: int, size: int) -> Seen:
    found = {}
    for prioritized in (False, True) if pool.has_priorities else (False,):
        with pool.buffer(fresh=True, prioritized=prioritized) as buffer:
            if stored:
                buffer.fill(stored)
            pool.announce_risk()
            found["by priority" if prioritized else "uniform"] = _outcome(buffer, size)
    word = min((word for word, _ in found.values()), key=UNHAPPY.index)
    about = "; ".join(f"{kind}: {about}" for kind, (_, about) in found.items())
    return Seen(word, f"{size} rows requested, {stored} stored: {about}", len(found))


def _outcome(buffer: ProbedBuffer, size: int) -> tuple[str, str]:
    try:
        batch = buffer.adapter.sample(size)
        rows = len(np.asarray(batch["obs"]))
        if rows == 0:
            return "gives no rows", "an empty batch"
        numbers = buffer.known.check(batch, rows)
    except WrongAnswer as error:
        return "gives garbage", f"rows that were never added ({error})"
    except BaseException as error:
        return "panics" if _panicked(error) else "refused", said(error)
    if not np.isin(numbers, buffer.held).all():
        return "gives garbage", "rows that were never added"
    return ("repeats rows" if rows == size else "gives fewer"), f"{rows} rows"


def not_a_number(pool: BufferPool) -> dict[str, Seen]:
    return {"nan_priority": _bad(pool, float("nan"))}


def negative(pool: BufferPool) -> dict[str, Seen]:
    return {"negative_priority": _bad(pool, -30.0)}


def infinite(pool: BufferPool) -> dict[str, Seen]:
    return {"infinite_priority": _bad(pool, float("inf"))}


def _bad(pool: BufferPool, priority: float) -> Seen:
    """Set an invalid priority for one sampled row, as a diverged loss would, and observe what is sampled next."""
    with pool.priorities(ALPHA, fresh=True) as buffer:
        buffer.fill(CAPACITY)
        numbers, batch = buffer.sample(16)
        indexes, odd = own(batch)["indexes"], int(numbers[0])
        buffer.raw[odd] = priority
        pool.announce_risk()
        refusal = None
        try:
            buffer.adapter.update_priorities(indexes, buffer.raw[numbers])
        except BaseException as error:
            refusal = said(error)
            buffer.raw[odd] = 1.0
            if _panicked(error):
                return Seen("panics", f"the update raised {refusal}, which `except Exception` does not catch", 1)
        try:
            if refusal:
                buffer.update(indexes, numbers)
            counts, weights = _afterwards(buffer)
        except BaseException as error:
            about = f"{_first(refusal)}; a later draw raised {said(error)}"
            if _panicked(error):
                return Seen("panics", f"{about}, which `except Exception` does not catch", 1)
            return Seen("poisons", about, 1)
        return _after_bad_priority(counts, weights, odd, priority, refusal, buffer.drawable & buffer.due)


def _panicked(error: BaseException) -> bool:
    """Return whether `except Exception` does not catch what the buffer raised."""
    return isinstance(error, PanicException) or not isinstance(error, Exception)


def _first(refusal: str | None) -> str:
    return f"the update raised {refusal}" if refusal else "the update accepted it"


def _afterwards(buffer: ProbedBuffer) -> tuple[np.ndarray, np.ndarray]:
    counts, weights = np.zeros(CAPACITY, np.int64), []
    buffer.settle(16)
    for _ in range(ODD_BATCHES):
        numbers, batch = buffer.sample(16)
        weights.append(np.array(batch.get("weights", ()), float).reshape(-1))
        # Without replacement, only the first row of a batch is an independent draw by priority.
        np.add.at(counts, numbers[: buffer.independent], 1)
        buffer.update(batch["indexes"], numbers)
    return counts, np.concatenate(weights)


def _after_bad_priority(
    counts: np.ndarray, weights: np.ndarray, odd: int, priority: float, refusal: str | None, drawable: np.ndarray
) -> Seen:
    total, share = int(counts.sum()), counts[odd] / counts.sum()
    others = counts[drawable & (np.arange(CAPACITY) != odd)]
    about = f"{_first(refusal)}; the row was then returned by {share:.0%} of {total} draws"
    if not np.isfinite(weights).all():
        bad = (~np.isfinite(weights)).mean()
        return Seen("poisons", f"{about}, and {bad:.0%} of the weights were not finite", total)
    if share > 0.9:
        return Seen("rules every draw" if np.isinf(priority) else "poisons", about, total)
    if fit(others, np.ones(len(others))) <= SIGNIFICANCE:
        return Seen("poisons", f"{about}, and the others were no longer drawn evenly", total)
    if refusal:
        return Seen("refused", about, total)
    size = abs(priority) ** ALPHA
    expected = size / (size + len(others))
    if np.isfinite(size) and fit(np.array([counts[odd], others.sum()]), np.array([expected, 1 - expected])) > 1e-3:
        return Seen("as its size", about, total)
    return Seen("ignored", about, total)
