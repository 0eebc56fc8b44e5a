"""Probes of sampling: probabilities, weights, repetitions within a batch, and reproducibility from a seed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from adapters.checks import SIGNIFICANCE, as_steps, stored
from suites.check.probes.children import seed_everything
from suites.check.probes.probing import (
    CAPACITY,
    BufferPool,
    Overwritten,
    ProbedBuffer,
    Refused,
    RisingBeta,
    Seen,
    fit,
    times,
)

LAST = CAPACITY - 1  # the last slot of the ring
WRAPPED = 20  # rows added after the buffer is full
LOW, HIGH = 0.05, 5.0  # priorities spanning two decades
ROUNDS = 200  # of updates, at most; the updates end once every row has been updated
GIVEN_ROUNDS = 48  # each with 1 or 16 draws
NEW_CAPACITY, NEW_DRAWS = 11, 200
MOST_NEW_DRAWS, MOST_ONE_BY_ONE = 1_600, 600  # each batch needs 13 of the `numbered.SERIES`
WEIGHED = 20  # batches
DOUBT, LIKELY = 1e-5, 1e-2
EVEN_DRAWS = 20_000  # at least, unless few draws are asked for
REPEAT_BATCHES, REPEAT_SIZE = 40, 20
SEED_BATCHES = 16


def even(pool: BufferPool) -> dict[str, Seen]:
    with pool.buffer() as buffer:
        buffer.fill(CAPACITY + WRAPPED)
        draws = pool.setting.draws
        return {"uniform": _uniform(buffer, max(draws, min(10 * draws, EVEN_DRAWS)))}


def _uniform(buffer: ProbedBuffer, draws: int) -> Seen:
    try:
        counts = buffer.count(draws)
    except Overwritten as error:
        return Seen("uneven", str(error), draws)
    due = buffer.due
    p = fit(counts[due], buffer.shares()[due])
    about = f"{counts.sum():,} draws from {len(counts)} rows, of which {WRAPPED} were written after the wrap: {_p(p)}"
    return Seen("even" if p > SIGNIFICANCE else "uneven", about, int(counts.sum()))


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p else "p < 1e-300"


def by_priority(pool: BufferPool) -> dict[str, Seen]:
    """Test the distribution in each of several states of a buffer. A single failure fails the check."""
    found, looked_at = [], 0
    try:
        for about, buffer in _parts(pool):
            if buffer is None:
                found.append((about, None, None, None))
                continue
            counts, shares = buffer.count(pool.setting.draws)[buffer.due], buffer.shares()[buffer.due]
            looked_at += int(counts.sum())
            clipped = fit(counts, buffer.shares(largest=1.0)[buffer.due])
            found.append((about, fit(counts, shares), _without_last(buffer, counts, shares), clipped))
    except Overwritten as error:
        return {"prioritized": Seen("not by priority", str(error), looked_at)}
    whole, others, clipped = ([p for p in each if p is not None] for each in list(zip(*found, strict=True))[1:])
    word = "by priority" if min(whole) > SIGNIFICANCE else "not by priority"
    if word != "by priority" and min(others) > SIGNIFICANCE:
        word = "never the last slot"
    without_last = word == "never the last slot"
    fits = [about if p is None else f"{about}, {_p(q if without_last else p)}" for about, p, q, _ in found]
    but = " (the row in the last slot was never drawn; each p is that of the other rows)" if without_last else ""
    if word == "not by priority" and min(clipped) > SIGNIFICANCE:
        but = " (as if priorities were clipped at 1)"
    about = f"{looked_at:,} draws from {CAPACITY} rows{but}: {'; '.join(fits)}"
    return {"prioritized": Seen(word, about, looked_at)}


def _without_last(buffer: ProbedBuffer, counts: np.ndarray, shares: np.ndarray) -> float:
    """Return the p-value under the assumption that the row in the last slot is never drawn."""
    last = buffer.held[buffer.due] % CAPACITY == LAST
    return 0.0 if counts[last].any() else fit(counts[~last], shares[~last])


def _parts(pool: BufferPool) -> Iterator[tuple[str, ProbedBuffer | None]]:
    """Yield the description of each state and a buffer in that state, or None in its place if the peer refuses to
    create it."""
    generator = np.random.default_rng(pool.setting.seed)
    two_decades = generator.permutation(np.geomspace(LOW, HIGH, CAPACITY))
    try:
        with pool.priorities(0.0) as buffer:
            buffer.fill(CAPACITY, two_decades)
            yield "alpha 0", buffer
    except (Refused, NotImplementedError) as reason:
        yield f"alpha 0 refused ({reason})", None
    if reason := pool.refusal(prioritized=True, alpha=1.0):
        yield f"alpha 1 refused ({reason})", None
    else:
        with pool.priorities(1.0) as buffer:
            buffer.fill(CAPACITY, two_decades)
            yield "alpha 1", buffer
            buffer.fill(CAPACITY, generator.permutation(np.geomspace(1e-3, 1e3, CAPACITY)))
            yield "priorities over six decades", buffer
    with pool.priorities(0.6) as buffer:
        buffer.fill(CAPACITY, two_decades)
        yield "alpha 0.6", buffer
        _update_all(buffer, generator)
        yield "after updates", buffer
        for about in ("after the wrap", "after a batch that wraps around the end"):
            buffer.fill(WRAPPED, generator.permutation(np.geomspace(LOW, HIGH, WRAPPED)))
            yield about, buffer


def _update_all(buffer: ProbedBuffer, generator: np.random.Generator) -> None:
    """Update the priorities of rows as they are drawn, with different values each time, so that a later update cannot
    hide a lost one. A row that is never drawn keeps its priority."""
    first, updated = buffer.held[0], np.zeros(CAPACITY, bool)
    buffer.settle(16)
    for _ in range(ROUNDS):
        numbers, batch = buffer.sample(16)
        fresh = np.exp(generator.uniform(np.log(LOW), np.log(HIGH), CAPACITY))
        buffer.raw[numbers] = fresh[numbers - first]
        buffer.update(batch["indexes"], numbers)
        updated[numbers - first] = True
        if updated.all():
            return


def added(pool: BufferPool) -> dict[str, Seen]:
    return {"new_row_priority": _default(pool), "given_priority": _given(pool)}


def _default(pool: BufferPool) -> Seen:
    """Find the priority of a row that is added without one, when the largest priority is 2.9. The 2.9 was either
    passed with a row or set by an update."""
    on_add, by_update = _new_row(pool, update=False), _new_row(pool, update=True)
    about = (
        "a row was added without a priority when the largest priority was 2.9; "
        f"when 2.9 had been passed with a row, the new row received {on_add.evidence}; "
        f"when 2.9 had been set by an update, it received {by_update.evidence}"
    )
    word = on_add.word
    if (on_add.word, by_update.word) == ("a fixed one", "the largest"):
        word = "the largest update"
    elif on_add.word != by_update.word:
        word = "another"
    return Seen(word, about, on_add.looked_at)


def _new_row(pool: BufferPool, update: bool) -> Seen:
    """Count how often the new row is drawn before its priority is updated, until only one of the candidates fits."""
    candidates = {"the largest": 2.9, "a fixed one": 1.0, "the largest, rounded down": 2.0}
    counts, bounds = np.zeros(2, np.int64), pool.kind.contract
    with pool.priorities(fresh=True, capacity=NEW_CAPACITY) as buffer:
        size = min(8, buffer.independent)
        for _ in range((MOST_ONE_BY_ONE if size == 1 else MOST_NEW_DRAWS) // NEW_DRAWS):
            for _ in range(NEW_DRAWS // size):
                drawn, others = _draw_with_new_row(buffer, size, update)
                counts += drawn
            fits = {
                word: fit(counts, np.array([others, stored(priority, bounds)])) for word, priority in candidates.items()
            }
            possible = [p for p in fits.values() if p > DOUBT]
            if max(fits.values()) <= SIGNIFICANCE or (len(possible) == 1 and possible[0] > LIKELY):
                break
    word, total = max(fits, key=fits.get), int(counts.sum())
    if word == "the largest, rounded down" and fits["the largest"] > DOUBT:  # 2.9 and 2 are hard to distinguish
        word = "the largest"
    about = f"{counts[1] / total:.1%} of {total:,} draws"
    if fits[word] <= SIGNIFICANCE:
        return Seen("another", f"{about}, which fits none of the priorities 2.9, 1 and 2", total)
    return Seen(word, f"{about}, as if its priority were {candidates[word]:g} ({_p(fits[word])})", total)


def _draw_with_new_row(buffer: ProbedBuffer, size: int, update: bool) -> tuple[np.ndarray, float]:
    """Overwrite all rows, and draw a batch. Return how often the other rows and the new one were drawn, and the sum of
    the others' priorities: one has 2.9, and each of the rest 0.1."""
    if update:
        buffer.fill(NEW_CAPACITY, 0.1)
        _raise_one(buffer, size)
    else:
        buffer.fill(NEW_CAPACITY - 2, np.array([0.1] * 4 + [2.9] + [0.1] * 4))
    new = buffer.added
    buffer.add(1)
    buffer.fill(1, 0.1)  # so that the new row is not the newest one
    buffer.settle(size)
    numbers, batch = buffer.sample(size)
    first = numbers[: buffer.independent]
    drawn = np.bincount(first[np.isin(first, buffer.held[buffer.due])] == new, minlength=2)
    others = buffer.raw[buffer.held[buffer.due & buffer.drawable & (buffer.held != new)]]
    buffer.raw[numbers] = 0.1
    buffer.update(batch["indexes"], numbers)
    return drawn, float(stored(others, buffer.adapter.contract).sum())


def _raise_one(buffer: ProbedBuffer, size: int) -> None:
    """Raise the priority of a row that is neither overwritten by the next two rows nor the oldest one then."""
    buffer.settle(size)
    raised = False
    while not raised:
        numbers, batch = buffer.sample(size)
        young = numbers[numbers > buffer.held[2]]
        raised = len(young) > 0
        buffer.raw[young[:1]] = 2.9
        buffer.update(batch["indexes"], numbers)


def _given(pool: BufferPool) -> Seen:
    """Add half of the rows with 1,000 times the others' priority. Only draws made before an update are counted."""
    great = np.arange(CAPACITY) % 2 == 0
    hits: list[bool] = []
    with pool.priorities() as buffer:
        size = buffer.independent
        for _ in range(GIVEN_ROUNDS):
            first = buffer.added
            buffer.adapter.add_with_priorities(
                as_steps(buffer.next_rows(CAPACITY)), np.where(great, 10.0, 0.01).tolist()
            )
            buffer.settle(size)
            numbers, batch = buffer.sample(size)
            hits += great[numbers - first][: buffer.independent].tolist()
            buffer.update(batch["indexes"], numbers)
    share, counts = float(np.mean(hits)), np.bincount(hits, minlength=2)
    evenly = fit(counts, np.array([0.5, 0.5])) > SIGNIFICANCE
    low, high = stored(np.array([0.01, 10.0]), pool.kind.contract)
    chance = high / (low + high)
    least = min(0.95, chance - 6 * np.sqrt(chance * (1 - chance) / len(hits)))  # 6 standard deviations
    word = "taken" if share > least else "none on add" if evenly else "another"
    about = (
        f"half the rows were added with 1,000 times the others' priority and received {share:.1%} of {len(hits)} draws"
    )
    return Seen(word, about, len(hits))


def importance(pool: BufferPool) -> dict[str, Seen]:
    """Check weights before and after the rows with the lowest priorities are overwritten."""
    alpha, beta, looked_at = 0.6, 0.4, 0
    words = ("over the buffer", "over the batch", "not normalised")
    fits, fits_rising = dict.fromkeys(words, True), dict.fromkeys(words, True)
    example, rising = "", RisingBeta(beta)
    with pool.priorities(alpha, fresh=True, beta=beta) as buffer:
        buffer.fill(CAPACITY, np.roll(np.geomspace(LOW, HIGH, CAPACITY), 1))  # the oldest may be no row to draw
        for _ in range(2):
            buffer.settle(16)
            for _ in range(WEIGHED * times(pool.setting)):
                numbers, batch = buffer.sample(16)
                if "weights" not in batch:
                    return {"weights": Seen("none", "batches have no weights", 1)}
                weights = np.array(batch["weights"], float).reshape(-1)
                buffer.update(batch["indexes"], numbers)
                looked_at += len(weights)
                own = rising.of(buffer.shares()[numbers - buffer.held[0]], weights)
                for word, expected in _formulae(buffer, numbers, own).items():
                    fits_rising[word] &= np.allclose(weights, expected, rtol=1e-3, atol=0)
                for word, expected in _formulae(buffer, numbers, beta).items():
                    if not np.allclose(weights, expected, rtol=1e-3, atol=0):
                        worst = int(np.argmax(np.abs(weights - expected)))
                        if fits[word]:
                            example = (
                                f"a weight was {weights[worst]:.4g}, but the formula ({word}) gives "
                                f"{expected[worst]:.4g}"
                            )
                        fits[word] = False
            buffer.fill(CAPACITY // 2, np.geomspace(0.5, 1.0, CAPACITY // 2))
    if rises := not any(fits.values()) and any(fits_rising.values()) and (rising.rises or rising.is_over):
        fits = fits_rising
    about = (
        f"{looked_at} weights at alpha {alpha}, beta {rising.shown if rises else beta}, half of them returned after "
        "the row with the lowest priority had been overwritten"
    )
    word = next((word for word, fitting in fits.items() if fitting), "another formula")
    return {"weights": Seen(word, about + (f": {example}" if word == "another formula" else ""), looked_at)}


def _formulae(buffer: ProbedBuffer, numbers: np.ndarray, beta: float) -> dict[str, np.ndarray]:
    """Return the weights (N P)^-beta (Schaul et al. 2015, equation 2) for each normalisation: divided by the largest
    weight of all rows, by the largest in the batch, or not at all."""
    shares = buffer.shares()
    mine = shares[numbers - buffer.held[0]]
    return {
        "over the buffer": (mine / shares.min()) ** -beta,
        "over the batch": (mine / mine.min()) ** -beta,
        "not normalised": (mine * len(shares)) ** -beta,
    }


def repeats(pool: BufferPool) -> dict[str, Seen]:
    found = {}
    with pool.buffer() as buffer:
        found["replacement"] = _repeats(buffer)
    if pool.has_priorities:
        with pool.priorities() as buffer:
            found["prioritized_replacement"] = _repeats(buffer)
    return found


def _repeats(buffer: ProbedBuffer) -> Seen:
    """Count repeats within batches. With equal shares, independent draws are all but certain to return some row three
    times in one batch. Stratified draws return no row more than twice."""
    buffer.fill(CAPACITY)
    buffer.settle(REPEAT_SIZE)
    most, twice = 0, 0
    for _ in range(REPEAT_BATCHES):
        counts = np.bincount(buffer.draw(REPEAT_SIZE))
        most, twice = max(most, int(counts.max())), twice + bool(counts.max() > 1)
    word = "without" if most == 1 else "stratified" if most == 2 else "with"
    about = (
        f"{twice} of {REPEAT_BATCHES} batches ({REPEAT_SIZE} draws from {CAPACITY} equally likely rows) contained a "
        "row more than once"
    )
    return Seen(word, f"{about}, at most {most} times" if twice else about, REPEAT_BATCHES)


def seeds(pool: BufferPool) -> dict[str, Seen]:
    kinds = [False, True] if pool.has_priorities else [False]
    found = {prioritized: _seed(pool, prioritized) for prioritized in kinds}
    words = list(found.values())
    if len(set(words)) == 1:
        word = words[0]
    elif words[1] == "none" and words[0] != "always the same":
        word = "uniform only"
    else:
        word = next(each for each in ("always the same", "none", "global seed") if each in words)
    about = "; ".join(f"{'by priority' if kind else 'uniform'}: {each}" for kind, each in found.items())
    batches = SEED_BATCHES * times(pool.setting)
    return {
        "seed": Seen(
            word,
            f"{batches} batches of 16 rows were drawn again with the same seed: {about}",
            batches * len(kinds),
        )
    }


def _seed(pool: BufferPool, prioritized: bool) -> str:
    own = pool.setting.seed
    first = _drawn(pool, prioritized, own)
    if first == _drawn(pool, prioritized, own):
        return "own seed" if first != _drawn(pool, prioritized, own + 1) else "always the same"
    again = []
    for _ in range(2):
        seed_everything(own)
        with suppress(KeyError, AttributeError):  # TensorFlow 1 has no such function
            sys.modules["tensorflow"].random.set_seed(own)
        again.append(_drawn(pool, prioritized, own))
    pool.close()  # seeding TensorFlow destroys its kernels, including the clients that Reverb's TFClient keeps in them
    return "global seed" if again[0] == again[1] else "none"


def _drawn(pool: BufferPool, prioritized: bool, seed: int) -> list[int]:
    with pool.buffer(fresh=True, prioritized=prioritized, seed=seed) as buffer:
        buffer.fill(CAPACITY)
        return [int(number) for _ in range(SEED_BATCHES * times(pool.setting)) for number in buffer.draw(16)]
