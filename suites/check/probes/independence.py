"""A probe of whether rows are drawn independently: of the others in a batch, and of the batch before.

A batch of neighbours passes tests of how often each row is drawn, but correlated rows are what a replay buffer is there
to avoid (Mnih et al. 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import NotApplicable
from suites.check.probes.probing import Seen, even_draws, fit
from suites.check.probes.tracked import Tracked, filled, kinds, worst
from suites.check.subject import Subject

CAPACITY, ADDED, SIZE = 100, 130, 16


class IndependentRows(Behaviour):
    """What the rows of a batch depend on."""

    INDEPENDENT = "independent"
    ON_BATCH_BEFORE = "on the batch before", FAULT
    ON_EACH_OTHER = "on each other", FAULT


#: Behaviour -> the two halves of the pairs that show it, as an expression of the drawn rows `n`, (batches, SIZE).
PAIRS: Mapping[IndependentRows, str] = {
    IndependentRows.ON_EACH_OTHER: "n[:, ::2], n[:, 1::2]",
    IndependentRows.ON_BATCH_BEFORE: "n[:-1:2], n[1::2]",
}


def independent(subject: Subject) -> dict[str, Seen]:
    """Compare how far apart the two rows of a pair are with what is expected if they were drawn independently.

    The order within a batch does not matter, so each is shuffled first. Pairs of one row do not count, since a buffer
    may draw without replacement.
    """
    asked = kinds(subject).get("uniform")
    if asked is None:
        raise NotApplicable("rows are drawn by priority")
    buffer, generator = Tracked(subject, CAPACITY, **asked), np.random.default_rng(subject.setting.seed)
    buffer.add(ADDED)
    batches = even_draws(subject.setting) // SIZE
    rows = np.array([generator.permutation(buffer.sample(SIZE)[0]) for _ in range(batches)]) - buffer.held[0]
    found = [(IndependentRows.INDEPENDENT, "", ())]
    for word, pairs in PAIRS.items():
        first, second = eval(pairs, {"n": rows})
        apart = np.bincount((second - first).ravel() % CAPACITY, minlength=CAPACITY)
        p = fit(apart[1:], _expected(rows)[1:])
        if p <= SIGNIFICANCE:
            near = apart[[1, -1]].sum() / apart[1:].sum()
            about = f"{near:.1%} of {apart[1:].sum():,} pairs of different rows are neighbours, p = {p:.1g}"
            found.append((word, about, _script(subject, asked, batches, pairs)))
    about = f"{rows.size:,} draws from {CAPACITY} rows, in batches of {SIZE}"
    return {"independent_rows": worst(found, about, rows.size, IndependentRows)}


def _expected(rows: Array) -> Array:
    """Return how likely each distance is, from none to the largest, if the rows are drawn independently, and as often
    as they were."""
    spectrum = np.fft.rfft(np.bincount(rows.ravel(), minlength=CAPACITY) / rows.size)
    return np.fft.irfft(np.abs(spectrum) ** 2, CAPACITY)


def _script(subject: Subject, asked: Mapping[str, object], batches: int, pairs: str) -> list[str]:
    return [
        *filled(subject, CAPACITY, ADDED, **asked),
        "r = np.random.default_rng(0)",
        f'n = np.array([r.permutation(np.asarray(sample(b, {SIZE})["obs"])[:, 0]) for _ in range({batches})])',
        f"x, y = {pairs}",
        f"d = np.bincount((y - x).astype(int).ravel() % {CAPACITY}, minlength={CAPACITY})[1:]",
        f"assert ((d - d.mean()) ** 2).sum() / d.mean() < {CAPACITY + 10 * CAPACITY**0.5:.0f}, d",
    ]


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {independent: ("independent_rows",)}
CHECKS: Mapping[str, type[Behaviour]] = {"independent_rows": IndependentRows}
