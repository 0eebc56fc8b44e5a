"""Probes of priorities: zeros, ratios of 10^16, sums after 10^5 updates, where alpha is applied, and over which rows
importance weights are normalised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from adapters.checks import SIGNIFICANCE, stored
from suites.check.functions import WEIGHTED_SETS, NotApplicable
from suites.check.probes.probing import RisingBeta, Seen, fit, said, times
from suites.check.probes.tracked import (
    MOST_BATCHES,
    Tracked,
    WrongRows,
    adds,
    attempt,
    batch,
    by_priority,
    drawn,
    exactly,
    filled,
    indexes_of,
    kinds,
    prioritized,
    seen,
    shares,
    worst,
)
from suites.check.subject import Subject

CAPACITY, PARTLY = 32, 20
SMALL, GREAT = 1e-8, 1e8
UPDATES = 100_000
DRIFT_CAPACITY, DRIFT_ROWS = 64, 48
DRIFT_LOW = 1e-5  # of all rows in the end, so that a small error of a sum is large in comparison
ALPHA, BETA = 0.5, 0.4
HIGH = 16.0  # a priority that is distinguished from 1, with alpha applied once, twice or not at all
LOW = 1e-4
DUPLICATE_ROWS, DUPLICATE_DRAWS, ROUNDS = 8, 48, 20
WEIGHED = 30  # batches
TOLERANCE = 1e-3  # relative, of weights


class ZeroPriority(Behaviour):
    """How rows are drawn that have the priority 0, while other rows have 1."""

    BY_FORMULA = "by the formula"
    SELDOM = "seldom, as if by a small constant"
    REFUSED = "refused"
    NO_WEIGHTS = "weights that are 0 or not finite", HAZARD
    RAISES = "raises", HAZARD
    AS_OTHERS = "as often as other rows", HAZARD
    OTHER = "not by priority", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class AllZero(Behaviour):
    """How rows are drawn if all priorities are 0."""

    EVENLY = "evenly"
    REFUSED = "refused"
    UNEVENLY = "unevenly", HAZARD
    NOT_FINITE = "weights that are not finite", HAZARD
    WRONG_ROWS = "rows that are not stored", FAULT


class HugeRatio(Behaviour):
    """How rows are drawn with priorities of 1e-8 and 1e8, and after all are 1e-8."""

    BY_PRIORITY = "by priority"
    SUMS_DRIFT = "not by priority after the large ones are gone", HAZARD
    OTHER = "not by priority", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class ManyUpdates(Behaviour):
    """How rows are drawn after 100,000 priorities were updated."""

    BY_PRIORITY = "by priority"
    DRIFTED = "not by priority", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class Alpha(Behaviour):
    """How often priorities are raised to alpha."""

    ONCE = "once"
    TWICE = "twice", FAULT
    NOT = "not at all", FAULT
    OTHER = "another number of times", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class WeightedSet(Behaviour):
    """By what importance weights are normalised, while the ring is partly filled and after it wrapped."""

    BUFFER = "the largest of the buffer"
    BATCH = "the largest of the batch"
    NONE = "nothing"
    STATED = "what the file states"
    CAPACITY = "nothing, with the capacity as the number of rows", FAULT
    PAST = "rows or priorities that are no longer stored", FAULT
    CHANGES = "something else after the wrap", FAULT
    OTHER = "something else", FAULT
    NOT_STATED = "not what the file states", FAULT
    UNUSABLE = "negative, not finite, or all 0", FAULT


#: What is recognised of a file that does not define WEIGHTS_OVER.
WITHOUT_STATEMENT = {
    "buffer": WeightedSet.BUFFER,
    "batch": WeightedSet.BATCH,
    "nothing": WeightedSet.NONE,
    "capacity": WeightedSet.CAPACITY,
}


class SlotPriority(Behaviour):
    """The priority of a row that overwrites one of another priority."""

    OWN = "its own"
    KEPT = "that of the overwritten row", FAULT
    OTHER = "another", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class DuplicateUpdates(Behaviour):
    """Which of several priorities counts that one update has for the same row."""

    LAST = "the last"
    FIRST = "the first"
    LARGEST = "the largest"
    MEAN = "the mean"
    OTHER = "none of them", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


class BetaArgument(Behaviour):
    """Whether `beta` of a call of `sample` changes the weights."""

    FOLLOWED = "followed"
    IGNORED = "ignored", FAULT
    OTHER = "another exponent", FAULT


def zeros(subject: Subject) -> dict[str, Seen]:
    asked, alpha = by_priority(subject, ALPHA)
    found = [_some_zero(subject, asked, alpha, added) for added in (PARTLY, CAPACITY + 12)]
    about = f"priority 0 for every third of {PARTLY} and {CAPACITY} rows"
    return {
        "zero_priority": worst(found, about, subject.setting.draws * len(found), ZeroPriority),
        "all_zero": _all_zero(subject, asked),
    }


def _some_zero(
    subject: Subject, asked: Mapping[str, object], alpha: float, added: int
) -> tuple[ZeroPriority, str, Sequence[str]]:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(added)
    held = buffer.held
    priorities = np.where(np.arange(added + 1) % 3 == 0, 0.0, 1.0)
    none = priorities[held] == 0
    size = len(held)
    begin = prioritized(subject, CAPACITY, added, "np.where(n % 3 == 0, 0.0, 1.0)", **asked)
    error = attempt(lambda: buffer.prioritize(priorities))
    if error is not None:
        return ZeroPriority.REFUSED, f"update raised {said(error)}", ()
    counts, weights = np.zeros(size, np.int64), []
    try:
        some = buffer.independent(size)
        for _ in range(-(-subject.setting.draws // some)):
            numbers, batch = buffer.sample(some)
            counts += np.bincount(numbers - held[0], minlength=size)
            weights.append(np.array(batch.get("weights", 1.0), float).ravel())
    except WrongRows as error:
        return ZeroPriority.WRONG_ROWS, str(error), [*begin, *exactly(held, size, MOST_BATCHES * 5, error)]
    except Exception as error:
        return ZeroPriority.RAISES, f"a later draw raised {said(error)}", [*begin, f"sample(b, {size})"]
    total, all_weights = int(counts.sum()), np.concatenate(weights)
    about = f"rows of priority 0 ({none.sum()} of {size}) got {counts[none].sum() / total:.2%} of {total:,} draws"
    body = [*begin, f"n = {drawn(size, 200)} % 3 == 0"]
    if fit(counts[~none], np.ones((~none).sum())) <= SIGNIFICANCE:
        return (
            ZeroPriority.OTHER,
            f"{about}, and the others were not drawn evenly",
            [*begin, *evenly(held, size, "n % 3")],
        )
    if not np.isfinite(all_weights).all() or not all_weights.any():
        about = f"{about}; {(~np.isfinite(all_weights)).mean():.0%} of the weights were not finite"
        weighed = f'w = np.concatenate([np.ravel(sample(b, {size})["weights"]) for _ in range(99)])'
        return ZeroPriority.NO_WEIGHTS, about, [*begin, weighed, "assert np.isfinite(w).all() and w.any(), w"]
    share = shares(subject, priorities[held], alpha)
    groups = np.array([counts[none].sum(), counts[~none].sum()])
    if counts[none].sum() == 0 or _fits(groups, np.array([share[none].sum(), share[~none].sum()])):
        return ZeroPriority.BY_FORMULA, about, ()
    even = none.mean()
    if groups[0] / total < even / 2:
        return ZeroPriority.SELDOM, about, ()
    if _fits(groups, np.array([even, 1 - even])):
        return ZeroPriority.AS_OTHERS, about, [*body, "assert n.mean() < 0.2, n.mean()"]
    return ZeroPriority.OTHER, about, [*body, "assert n.mean() < 0.2, n.mean()"]


def _fits(counts: Array, share: Array) -> bool:
    if (counts[share == 0] > 0).any():
        return False
    return bool(fit(counts[share > 0], share[share > 0]) > SIGNIFICANCE)


def evenly(held: Array, size: int, which: str = "n") -> list[str]:
    """Return lines that compare how often the rows `n` are drawn for which `which` is not 0."""
    rows = f"[n for n in range({held[0]}, {held[-1] + 1}) if {which}]"
    return [
        f"c = np.bincount({drawn(size, 800)}.astype(int), minlength={held[-1] + 1})[{rows}]",
        "assert ((c - c.mean()) ** 2).sum() < c.mean() * (2 * len(c) + 40), c",
    ]


def _all_zero(subject: Subject, asked: Mapping[str, object]) -> Seen:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(PARTLY)
    begin = prioritized(subject, CAPACITY, PARTLY, "n * 0.0", **asked)
    error = attempt(lambda: buffer.prioritize(np.zeros(PARTLY + 1)))
    if error is not None:
        return seen(AllZero.REFUSED, f"update raised {said(error)}", PARTLY)
    counts, weights = np.zeros(PARTLY, np.int64), []
    try:
        some = buffer.independent(PARTLY)
        for _ in range(-(-subject.setting.draws // some)):
            numbers, batch = buffer.sample(some)
            counts += np.bincount(numbers - 1, minlength=PARTLY)
            weights.append(np.array(batch.get("weights", 1.0), float).ravel())
    except WrongRows as error:
        return seen(
            AllZero.WRONG_ROWS,
            str(error),
            PARTLY,
            [*begin, *_or_refused(exactly(buffer.held, PARTLY, MOST_BATCHES * 5, error))],
        )
    except Exception as error:
        return seen(AllZero.REFUSED, f"sample raised {said(error)}", PARTLY)
    total = int(counts.sum())
    about = f"{(counts > 0).sum()} of {PARTLY} rows were drawn in {total:,} draws"
    if fit(counts, np.ones(PARTLY)) <= SIGNIFICANCE:
        return seen(AllZero.UNEVENLY, about, total, [*begin, *_or_refused(evenly(buffer.held, PARTLY))])
    if not np.isfinite(np.concatenate(weights)).all():
        weighed = f'w = np.ravel(sample(b, {PARTLY})["weights"])'
        return seen(
            AllZero.NOT_FINITE, about, total, [*begin, *_or_refused([weighed, "assert np.isfinite(w).all(), w"])]
        )
    return seen(AllZero.EVENLY, about, total)


def _or_refused(body: Sequence[str]) -> list[str]:
    """Return these lines, the first of which a sound buffer may refuse."""
    return [f"try: {body[0]}", "except Exception: raise SystemExit", *body[1:]]


def huge(subject: Subject) -> dict[str, Seen]:
    """Give half of the rows 1e-8 and half 1e8, then all 1e-8: sums that are updated by differences are wrong then."""
    asked, alpha = by_priority(subject, 1.0)
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(PARTLY)
    size, held = PARTLY, buffer.held
    great = np.arange(PARTLY + 1) % 2 == 1
    priorities = np.where(great, GREAT, SMALL)
    begin = prioritized(subject, CAPACITY, PARTLY, "10.0 ** (16 * (n % 2) - 8)", **asked)
    error = attempt(lambda: buffer.prioritize(priorities))
    if error is not None:
        return {"huge_ratio": seen(HugeRatio.BY_PRIORITY, f"refused: update raised {said(error)}", 1)}
    try:
        counts = buffer.count(subject.setting.draws, size)
        share = shares(subject, priorities[held], alpha)
        p = fit(counts[great[held]], share[great[held]])
        total, few = int(counts.sum()), int(counts[~great[held]].sum())
        allowed = 10 + 10 * total * share[~great[held]].sum()
        about = f"{few} of {total:,} draws returned rows with {SMALL:g}; those with {GREAT:g}: p = {p:.1g}"
        if p <= SIGNIFICANCE or few > allowed:
            body = [*begin, *evenly(held, size, "n % 2"), "assert not (n % 2 == 0).mean() > 0.1"]
            return {"huge_ratio": seen(HugeRatio.OTHER, about, total, body)}
        begin.append(
            f'for x in (sample(b, {size}) for _ in range(600)): update(b, x["indexes"], {SMALL} + np.zeros({size}))'
        )
        buffer.lower(np.full(PARTLY + 1, SMALL))
        counts = buffer.count(subject.setting.draws, size)
    except WrongRows as error:
        return {
            "huge_ratio": seen(
                HugeRatio.WRONG_ROWS, str(error), size, [*begin, *exactly(held, size, MOST_BATCHES * 5, error)]
            )
        }
    except NotApplicable:
        raise
    except Exception as error:
        body = [*begin, f"sample(b, {size})"]
        return {"huge_ratio": seen(HugeRatio.SUMS_DRIFT, f"a later call raised {said(error)}", size, body)}
    p = fit(counts, np.ones(PARTLY))
    about = f"{about}; after all were lowered to {SMALL:g}: p = {p:.1g}"
    if p <= SIGNIFICANCE:
        return {"huge_ratio": seen(HugeRatio.SUMS_DRIFT, about, total, [*begin, *evenly(held, size)])}
    return {"huge_ratio": seen(HugeRatio.BY_PRIORITY, about, total)}


def many(subject: Subject) -> dict[str, Seen]:
    """Update 10^5 priorities in a partly filled buffer, then lower all of them: an error of the sums now shows."""
    asked, alpha = by_priority(subject, 1.0)
    buffer = Tracked(subject, DRIFT_CAPACITY, **asked)
    buffer.add(DRIFT_ROWS)
    size, held, generator = DRIFT_ROWS, buffer.held, np.random.default_rng(subject.setting.seed)
    rounds = -(-UPDATES // size)
    given = f"10 ** np.random.uniform(-2, 2, {size}) if k < {rounds} else np.full({size}, {DRIFT_LOW:g})"
    loop = f'x = sample(b, {size}); update(b, x["indexes"], {given})'
    begin = [*filled(subject, DRIFT_CAPACITY, DRIFT_ROWS, **asked), f"for k in range({rounds + 900}): {loop}"]
    wanted = np.full(DRIFT_ROWS + 1, DRIFT_LOW)
    looked_at = rounds * size
    try:
        if not buffer.cover().all():
            raise NotApplicable("a row is never drawn, so that its priority cannot be set")
        for _ in range(rounds):
            _, batch = buffer.sample(size)
            buffer.update(indexes_of(batch), 10 ** generator.uniform(-2, 2, size))
        buffer.lower(wanted)
        counts = buffer.count(subject.setting.draws, size)
    except WrongRows as error:
        return {"many_updates": seen(ManyUpdates.WRONG_ROWS, str(error), looked_at, [*begin, *evenly(held, size)])}
    except NotApplicable:
        raise
    except Exception as error:
        word, about = ManyUpdates.DRIFTED, f"a call raised {said(error)}"
        return {"many_updates": seen(word, about, looked_at, [*begin, *evenly(held, size)])}
    p = fit(counts, shares(subject, wanted[held], alpha))
    about = f"{counts.sum():,} draws after {looked_at:,} updates: p = {p:.1g}"
    if p > SIGNIFICANCE:
        return {"many_updates": seen(ManyUpdates.BY_PRIORITY, about, looked_at)}
    return {"many_updates": seen(ManyUpdates.DRIFTED, about, looked_at, [*begin, *evenly(held, size)])}


def alpha(subject: Subject) -> dict[str, Seen]:
    """Compare rows of priority 16, or of the largest one if that is lower, with others of a sixteenth of it, once set
    by an update, once the default of new rows."""
    asked, exponent = by_priority(subject, ALPHA)
    if not 0.2 <= exponent <= 0.9:
        raise NotApplicable(f"alpha is {exponent:g}, so that applying it twice hardly matters")
    return {
        "alpha_of_updates": _alpha(subject, asked, exponent, new=False),
        "alpha_of_new_rows": _alpha(subject, asked, exponent, new=True),
    }


def _alpha(subject: Subject, asked: Mapping[str, object], exponent: float, new: bool) -> Seen:
    rows = CAPACITY // 2
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(rows)
    size, great = rows, 4  # rows of the larger priority
    larger = min(HIGH, subject.functions.largest)
    smaller = larger / HIGH
    high = np.arange(CAPACITY + 1) <= great
    buffer.prioritize(np.where(high, larger, smaller))
    begin = prioritized(subject, CAPACITY, rows, f"np.where(n <= {great}, {larger}, {smaller})", **asked)
    if new:
        buffer.add(rows)
        high = np.arange(CAPACITY + 1) > rows
        begin.append(adds(subject, rows + 1, 2 * rows))
    of = (buffer.held > rows) if new else high[buffer.held]
    rest = (buffer.held > great) & ~of
    try:
        counts = buffer.count(2 * subject.setting.draws, size)
    except WrongRows as error:
        return seen(Alpha.WRONG_ROWS, str(error), size, [*begin, *exactly(buffer.held, size, MOST_BATCHES * 5, error)])
    bounds = subject.functions

    def share(times: float, priority: float = larger) -> Array:
        each = of.sum() * stored(priority, bounds) ** times
        others = rest.sum() * stored(smaller, bounds) ** (exponent if new else times)
        return np.array([each, others]) / (each + others)

    groups = np.array([counts[of].sum(), counts[rest].sum()])
    times = {Alpha.ONCE: exponent, Alpha.TWICE: exponent**2, Alpha.NOT: 1.0}
    fits = {word: fit(groups, share(each)) for word, each in times.items()}
    if new:  # a new row may have priority 1, which alpha does not change
        fits[Alpha.ONCE] = max(fits[Alpha.ONCE], fit(groups, share(exponent, 1.0)))
    word = max(fits, key=lambda each: fits[each])
    ratio = groups[0] / of.sum() / max(groups[1] / rest.sum(), 1e-9)
    if fits[word] <= SIGNIFICANCE:
        word = Alpha.OTHER
    what = f"a new row, with the largest priority {larger:g}," if new else f"a row updated to {larger:g}"
    expected = (stored(larger, bounds) / stored(smaller, bounds)) ** exponent
    often = f"{what} was drawn {ratio:.3g} times as often as one of {smaller:g}"
    about = f"{often} (alpha {exponent:g} gives {expected:.3g})"
    which = f"n > {rows}" if new else f"n <= {great}"
    body = [
        *begin,
        f"n = {drawn(size, 1500)}" + (f"; n = n[n > {great}]" if new else ""),
        f"assert abs(np.mean({which}) - {share(exponent)[0]:.3f}) < 0.03, np.mean({which})",
    ]
    return seen(word, about, int(counts.sum()), body)


def weights(subject: Subject) -> dict[str, Seen]:
    """Compare weights with the formula while the buffer is partly filled, and after its lowest priorities are gone."""
    if (unusable := _unusable(subject)) is not None:
        return {"weights_over": unusable}
    asked, exponent = by_priority(subject, ALPHA)
    if not subject.can(beta=None) and not subject.functions.accepts("sample", "beta"):
        raise NotApplicable("neither make nor sample has an argument beta")
    asked |= {"beta": BETA} if subject.can(beta=None) else {}
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(PARTLY)
    priorities = np.ones(2 * CAPACITY + 1)
    priorities[1 : PARTLY + 1] = np.geomspace(0.05, 1.0, PARTLY)
    buffer.prioritize(priorities)
    rising = None if subject.functions.accepts("sample", "beta") else _rising(subject, asked, exponent)
    found = {"while partly filled": _weighed(buffer, priorities, exponent, rising)}
    buffer.add(CAPACITY)  # overwrites the lowest; new rows have 1, whether that is the largest or a fixed priority
    priorities[buffer.held] = np.random.default_rng(subject.setting.seed).uniform(0.5, 1.0, CAPACITY)
    buffer.prioritize(priorities)
    found["after the wrap"] = _weighed(buffer, priorities, exponent, rising)
    looked_at = 2 * WEIGHED * times(subject.setting) * 16
    words = [word for word, _ in found.values()]
    about = "; ".join(f"{when}: {text or word}" for when, (word, text) in found.items())
    word = WeightedSet.NOT_STATED if WeightedSet.NOT_STATED in words else words[0]
    if words[0] != words[1] and word is not WeightedSet.NOT_STATED:
        odd = [each for each in words if each in (WeightedSet.OTHER, WeightedSet.CAPACITY)]
        stale = words[1] is WeightedSet.OTHER and words[0] in (WeightedSet.BUFFER, WeightedSet.BATCH)
        word = WeightedSet.PAST if stale else odd[0] if odd else WeightedSet.CHANGES
    late = words[0] is WeightedSet.STATED or word in (WeightedSet.PAST, WeightedSet.CHANGES)
    rows = 2 * CAPACITY if late else PARTLY
    return {"weights_over": seen(word, about, looked_at, weights_script(subject, asked, exponent, rows))}


def _unusable(subject: Subject) -> Seen | None:
    """Return what is seen of weights that are wrong for any alpha and beta, or None if there are none. All rows have
    priorities from 0.05 to 1."""
    subject.functions.require("update")
    asked = kinds(subject)["by priority"]
    buffer = Tracked(subject, CAPACITY, **asked)
    for rows in PARTLY, 2 * CAPACITY:
        buffer.add(rows - buffer.added)
        buffer.prioritize(np.geomspace(0.05, 1.0, rows + 1))
        for _ in range(WEIGHED * times(subject.setting)):
            _, batch = buffer.sample(16, beta=BETA)
            if batch.get("weights") is None:
                raise NotApplicable("batches have no weights")
            weights = np.array(batch["weights"], float)
            if not (weights >= 0).all() or not np.isfinite(weights).all() or not weights.any():
                about = f"{rows} rows added to a buffer of {CAPACITY}: the weights of a batch are {np.unique(weights)}"
                given = f", beta={BETA}" if subject.functions.accepts("sample", "beta") else ""
                body = [
                    *prioritized(subject, CAPACITY, rows, f"n / {rows}", **asked),
                    f'w = np.array([np.ravel(sample(b, 16{given})["weights"]) for _ in range(99)])',
                    "assert np.isfinite(w).all() and (w >= 0).all() and w.any(axis=1).all(), w",
                ]
                return seen(WeightedSet.UNUSABLE, about, rows, body)
    return None


def weights_script(subject: Subject, asked: Mapping[str, object], exponent: float, rows: int) -> list[str]:
    """Return lines that compare weights with the formula after so many rows were added."""
    lowest = max(0, rows - CAPACITY) + 1
    power = f"** -{exponent * BETA:g}"
    mean = f"(np.mean(np.arange({lowest}, {rows + 1}) ** {exponent:g}) ** {1 / exponent:g}) {power}"
    largest = {"buffer": f"{lowest} {power}", "batch": "u.max()", "nothing": mean}
    others = {"batch mean": "u.mean()", "batch sum": "u.sum()", "past": "u[0] / w[0]"}
    stated = subject.functions.weights_over
    scales = [(largest | others)[stated]] if stated else [*largest.values()]
    given = f", beta={BETA}" if subject.functions.accepts("sample", "beta") else ""
    return [
        *prioritized(subject, CAPACITY, rows, f"n / {rows}", **asked),
        f'x = sample(b, 16{given}); n, w = np.asarray(x["obs"])[:, 0], np.ravel(x["weights"])',
        f"u = n {power}; e = [u / each for each in ({', '.join(scales)},)]  # by {stated or 'buffer, batch, nothing'}",
        "assert any(np.allclose(w, each, rtol=2e-3) for each in e), (w, *e)",
    ]


def _rising(subject: Subject, asked: Mapping[str, object], exponent: float) -> RisingBeta:
    """Return the beta that a new buffer has in its second batch, before it may have risen to 1. Only the rows of the
    first batch have known priorities by then."""
    buffer, rising = Tracked(subject, CAPACITY, **asked), RisingBeta(BETA)
    buffer.add(PARTLY)
    first, batch = buffer.sample(PARTLY)
    priorities = np.geomspace(0.05, 1.0, PARTLY + 1)
    buffer.update(indexes_of(batch), priorities[first])
    second, batch = buffer.sample(PARTLY)
    known, weights = np.isin(second, first), np.array(batch.get("weights", ()), float).reshape(-1)
    if weights.shape == second.shape and known.any():
        rising.of(stored(priorities[second[known]], subject.functions) ** exponent, weights[known])
    return rising


def _weighed(buffer: Tracked, priorities: Array, exponent: float, rising: RisingBeta | None) -> tuple[WeightedSet, str]:
    """Return by what weights are normalised, with the beta that was asked for, or else with the buffer's own."""
    held, stated = buffer.held, buffer.subject.functions.weights_over
    chance = shares(buffer.subject, priorities[held], exponent)
    fits, fits_rising = (dict.fromkeys((*WEIGHTED_SETS, "capacity"), True) for _ in range(2))
    sought, example = [stated] if stated else [*WITHOUT_STATEMENT], ""
    for _ in range(WEIGHED * times(buffer.subject.setting)):
        numbers, batch = buffer.sample(min(16, len(held)), beta=BETA)
        if "weights" not in batch:
            raise NotApplicable("batches have no weights")
        weights = np.array(batch["weights"], float).reshape(-1)
        mine = chance[numbers - held[0]]
        if rising is not None:
            own_beta = rising.of(mine, weights)
            fits_rising = _still(
                fits_rising, weights, mine**-own_beta, _scales(buffer, chance, mine, weights, own_beta)
            )
        raw, scales = mine**-BETA, _scales(buffer, chance, mine, weights, BETA)
        fits = _still(fits, weights, raw, scales)
        if weights.shape == mine.shape and not example and not any(fits[name] for name in sought):
            k = int(np.argmax(np.abs(weights / raw * scales[sought[0]] - 1)))
            example = f"a weight is {weights[k]:.4g}"
            for name in dict.fromkeys([*filter(None, [stated]), "buffer", "batch"]):
                example += f", by the {name} {raw[k] / scales[name]:.4g}"
    if rising is not None and rising.rises and not any(fits[name] for name in sought):
        fits, example = fits_rising, f"{example} with beta {BETA:g}; beta is {rising.shown}"
    if stated:
        return (WeightedSet.STATED, stated) if fits[stated] else (WeightedSet.NOT_STATED, example)
    return next((word for name, word in WITHOUT_STATEMENT.items() if fits[name]), WeightedSet.OTHER), example


def _scales(buffer: Tracked, chance: Array, mine: Array, weights: Array, beta: float) -> dict[str, float]:
    """Return what the weights of rows with the probabilities `mine` are divided by in each way."""
    raw = mine**-beta
    return {
        "buffer": chance.min() ** -beta,
        "batch": raw.max(),
        "nothing": float(len(chance)) ** beta,
        "capacity": float(buffer.capacity) ** beta,
        "batch mean": raw.mean(),
        "batch sum": raw.sum(),
        "past": raw[0] / weights[0] if weights.size and weights[0] else 1.0,
    }


def _still(fits: Mapping[str, bool], weights: Array, raw: Array, scales: Mapping[str, float]) -> dict[str, bool]:
    """Return which scales fit this batch, too."""
    found = {
        name: fits[name] and weights.shape == raw.shape and np.allclose(weights, raw / scale, rtol=TOLERANCE, atol=0)
        for name, scale in scales.items()
    }
    return found | {"past": found["past"] and bool((weights <= 1 + TOLERANCE).all())}


def overwritten(subject: Subject) -> dict[str, Seen]:
    """Overwrite rows of low priority with new rows, whose default is as high as the other rows' priority."""
    asked, exponent = by_priority(subject, 1.0)
    found = [_overwritten(subject, asked, exponent, "add")]
    if subject.functions.has("add_batch"):
        found.append(_overwritten(subject, asked, exponent, "add_batch"))
    about = f"rows overwrote half of a buffer that had {LOW:g} in place of 1: all were drawn evenly"
    return {"slot_priority": worst(found, about, len(found) * subject.setting.draws, SlotPriority)}


def _overwritten(
    subject: Subject, asked: Mapping[str, object], exponent: float, how: str
) -> tuple[SlotPriority, str, Sequence[str]]:
    buffer, half = Tracked(subject, CAPACITY, **asked), CAPACITY // 2
    buffer.add(CAPACITY)
    buffer.prioritize(np.where(np.arange(CAPACITY + 1) <= half, LOW, 1.0))
    buffer.add(half) if how == "add" else buffer.add_batch(half)
    begin = [
        *prioritized(subject, CAPACITY, CAPACITY, f"np.where(n <= {half}, {LOW}, 1.0)", **asked),
        adds(subject, CAPACITY + 1, CAPACITY + half),
    ]
    if how == "add_batch":
        low = f'np.where(np.asarray(x["obs"])[:, 0] <= {half}, {LOW}, 1.0)'
        begin = [
            f"{begin[0]}; {batch(subject, 1, CAPACITY)}",
            f'for x in [sample(b, {CAPACITY}) for _ in range({MOST_BATCHES})]: update(b, x["indexes"], {low})',
            batch(subject, CAPACITY + 1, CAPACITY + half),
        ]
    try:
        counts = buffer.count(subject.setting.draws, CAPACITY)
    except WrongRows as error:
        return SlotPriority.WRONG_ROWS, str(error), [*begin, *exactly(buffer.held, CAPACITY, MOST_BATCHES * 5, error)]
    new = counts[half:]
    evicted = subject.functions.evicts_episodes & (counts == 0) & (np.arange(CAPACITY) < half)
    p = fit(counts[~evicted], np.ones((~evicted).sum()))
    about = (
        f"new rows of {how} got {new.sum() / counts.sum():.2%} of {counts.sum():,} draws, expected 50% (p = {p:.1g})"
    )
    if p > SIGNIFICANCE:
        return SlotPriority.OWN, "", ()
    kept = LOW**exponent / (1 + LOW**exponent)
    word = SlotPriority.KEPT if new.sum() / counts.sum() < max(3 * kept, 0.01) else SlotPriority.OTHER
    return word, about, [*begin, *evenly(buffer.held, CAPACITY)]


def duplicates(subject: Subject) -> dict[str, Seen]:
    """Give the same row several priorities in one update, many times, and find which of them counted."""
    asked, exponent = by_priority(subject, 1.0)
    buffer = Tracked(subject, 2 * DUPLICATE_ROWS, **asked)
    buffer.add(DUPLICATE_ROWS)
    size, generator = DUPLICATE_DRAWS, np.random.default_rng(subject.setting.seed)
    models = {word: np.ones(DUPLICATE_ROWS + 1) for word in DuplicateUpdates if word.meaning is not FAULT}
    begin = filled(subject, 2 * DUPLICATE_ROWS, DUPLICATE_ROWS, **asked)
    draw = f'x = sample(b, {size}); update(b, x["indexes"], '
    loop = f"{draw}np.random.uniform(0.2, 3, {size}) if k < {10 * ROUNDS} else np.ones({size}))"
    body = [*begin, f"for k in range({15 * ROUNDS}): {loop}", *evenly(buffer.held, 16)]
    given: Array | None = None
    try:
        for _ in range(ROUNDS):
            try:
                numbers, batch = buffer.sample(size)
            except WrongRows:
                raise
            except Exception as error:
                if given is None:
                    raise NotApplicable(f"a batch cannot have a row twice: {said(error)}") from error
                about = f"a draw after an update of {size} priorities raised {said(error)}"
                return {"duplicate_updates": seen(DuplicateUpdates.OTHER, about, size, body)}
            given = generator.uniform(0.2, 3.0, len(numbers))
            buffer.update(indexes_of(batch), given)
            for number in np.unique(numbers):
                mine = given[numbers == number]
                models[DuplicateUpdates.LAST][number] = mine[-1]
                models[DuplicateUpdates.FIRST][number] = mine[0]
                models[DuplicateUpdates.LARGEST][number] = mine.max()
                models[DuplicateUpdates.MEAN][number] = mine.mean()
        if (models[DuplicateUpdates.LAST][1:] == 1).any():
            raise NotApplicable("a row is never drawn")
        counts = buffer.count(2 * subject.setting.draws, min(size, 16))
    except WrongRows as error:
        body = [*begin, *exactly(buffer.held, 16, MOST_BATCHES * 5, error)]
        return {"duplicate_updates": seen(DuplicateUpdates.WRONG_ROWS, str(error), size, body)}
    fits = {word: fit(counts, shares(subject, model[1:], exponent)) for word, model in models.items()}
    word = max(fits, key=lambda each: fits[each])
    updates = f"{ROUNDS} updates of {size} priorities for {DUPLICATE_ROWS} rows"
    about = f"{counts.sum():,} draws after {updates}: p = {fits[word]:.1g}"
    if fits[word] <= SIGNIFICANCE:
        word = DuplicateUpdates.OTHER
    return {"duplicate_updates": seen(word, about, int(counts.sum()), body)}


def beta(subject: Subject) -> dict[str, Seen]:
    """Compare the weights that a buffer returns for beta 0.2 and 1."""
    if not subject.functions.accepts("sample", "beta"):
        raise NotApplicable("sample has no argument beta")
    asked, exponent = by_priority(subject, ALPHA)
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(PARTLY)
    priorities = np.append(1.0, np.geomspace(0.1, 1.0, PARTLY))
    buffer.prioritize(priorities)
    found = {each: _exponent(buffer, priorities, exponent, each) for each in (0.2, 1.0)}
    about = "; ".join(f"beta {each:g}: weights have the exponent {got:.3g}" for each, got in found.items())
    word = BetaArgument.FOLLOWED
    if any(abs(got - each) > 0.02 for each, got in found.items()):
        word = BetaArgument.IGNORED if abs(found[0.2] - found[1.0]) < 0.02 else BetaArgument.OTHER
    body = [
        *prioritized(subject, CAPACITY, PARTLY, f"n / {PARTLY}", **asked),
        'x = sample(b, 16, beta=1.0); n, w = np.log(np.asarray(x["obs"])[:, 0]), np.log(np.ravel(x["weights"]))',
        f"assert abs(np.polyfit(n, w, 1)[0] + {exponent:g}) < 0.02, w",
    ]
    return {"beta_argument": seen(word, about, 2 * 16, body)}


def _exponent(buffer: Tracked, priorities: Array, alpha: float, given: float) -> float:
    """Return the power of probabilities, with a minus sign, to which weights are proportional within batches."""
    x, y = [], []
    for _ in range(8):
        numbers, batch = buffer.sample(16, beta=given)
        if "weights" not in batch:
            raise NotApplicable("batches have no weights")
        chance = alpha * np.log(stored(priorities[numbers], buffer.subject.functions))
        weight = np.log(np.array(batch["weights"], float).reshape(-1))
        x.append(chance - chance.mean())
        y.append(weight - weight.mean())
    chances, logs = np.concatenate(x), np.concatenate(y)
    return float(-(chances * logs).sum() / (chances**2).sum())


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    zeros: ("zero_priority", "all_zero"),
    huge: ("huge_ratio",),
    many: ("many_updates",),
    alpha: ("alpha_of_updates", "alpha_of_new_rows"),
    weights: ("weights_over",),
    overwritten: ("slot_priority",),
    duplicates: ("duplicate_updates",),
    beta: ("beta_argument",),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "zero_priority": ZeroPriority,
    "all_zero": AllZero,
    "huge_ratio": HugeRatio,
    "many_updates": ManyUpdates,
    "alpha_of_updates": Alpha,
    "alpha_of_new_rows": Alpha,
    "weights_over": WeightedSet,
    "slot_priority": SlotPriority,
    "duplicate_updates": DuplicateUpdates,
    "beta_argument": BetaArgument,
}
