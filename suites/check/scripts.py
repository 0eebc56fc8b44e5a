"""Scripts that repeat the findings of the conformance suite's checks without this project: lines for
`suites.check.reproduction.script`. Repeated rows have none, as both ways of drawing are sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from suites.check.probes.priorities import ALPHA, BETA, evenly, weights_script
from suites.check.probes.tracked import adds, by_priority, drawn, exactly, filled, kinds, prioritized
from suites.check.reproduction import added, made
from suites.check.subject import Subject

CAPACITY, WRAPPED = 32, 52
OFTEN = 100  # batches
REFUSED = "except Exception: raise SystemExit"  # a sound buffer may refuse
SECONDS = 10  # after which a script that waits is ended


def _kind(subject: Subject, kind: str = "uniform") -> Mapping[str, Any]:
    """Return what to ask `make` for: this kind of buffer, or the only one that there is."""
    offered = kinds(subject)
    return offered.get(kind, next(iter(offered.values())))


def _held(last: int, capacity: int = CAPACITY) -> Any:
    return np.arange(max(0, last - capacity), last) + 1


def round_trip(subject: Subject) -> list[str]:
    asked = {"obs_dtype": "float64"} if subject.can(obs_dtype=None) else {}
    value = "np.full((4,), v[i])" if asked else "np.full((4,), v[i], 'float32')"
    return [
        f"b = {made(subject, CAPACITY, **_kind(subject), **asked)}",
        f"v = np.array([-np.inf, 1e-40, 3e38, 0.1, -1 / 3, 7], {'float64' if asked else 'float32'!r})",
        f"for i in range(6): {added(subject, obs=value)}",
        f"for x in [sample(b, 6) for _ in range({OFTEN})]:",
        '    i = np.ravel(x["rew"]).astype(int)',
        '    assert (np.asarray(x["obs"])[:, 0] == v[i]).all() and (np.ravel(x["act"]) == i % 5).all(), x',
    ]


def dtype(subject: Subject) -> list[str]:
    return [
        *filled(subject, CAPACITY, CAPACITY, **_kind(subject)),
        'x, d = sample(b, 8), dict(obs="float32", act="int64", rew="float32", next_obs="float32", done="bool")',
        "e = {k: str(np.asarray(x[k]).dtype) for k in d if k in x}",
        "assert all(e[k] == d[k] for k in e), e",
    ]


def shape(subject: Subject) -> list[str]:
    return [
        *filled(subject, CAPACITY, CAPACITY, **_kind(subject)),
        "x, e = sample(b, 8), dict(obs=[(8, 4)], act=[(8,), (8, 1)], rew=[(8,), (8, 1)], next_obs=[(8, 4)])",
        "assert all(np.shape(x[k]) in e[k] for k in e if k in x), {k: np.shape(x[k]) for k in x}",
    ]


def ring_order(subject: Subject) -> list[str]:
    return [*filled(subject, 16, 43, **_kind(subject)), *exactly(_held(43, 16), 16, OFTEN)]


def uniform(subject: Subject) -> list[str]:
    return [*filled(subject, CAPACITY, WRAPPED, **_kind(subject)), *evenly(_held(WRAPPED), CAPACITY)]


def by_priorities(subject: Subject) -> list[str]:
    asked, alpha = by_priority(subject, 1.0)
    return [
        *prioritized(subject, CAPACITY, 2 * CAPACITY, "(n % 8 + 1) / 8", **asked),
        f"c = np.bincount({drawn(CAPACITY, 800)}.astype(int), minlength={2 * CAPACITY + 1})[{CAPACITY + 1} :]",
        f"e = (np.arange({CAPACITY + 1}, {2 * CAPACITY + 1}) % 8 + 1.0) ** {alpha:g}",
        f"assert ((c - e / e.sum() * c.sum()) ** 2 / (e / e.sum() * c.sum())).sum() < {2 * CAPACITY + 40}, c",
    ]


def new_row_priority(subject: Subject) -> list[str]:
    asked, _ = by_priority(subject, 1.0)
    half = CAPACITY // 2
    return [
        *prioritized(subject, CAPACITY, half, "2.9 + n * 0", **asked),
        adds(subject, half + 1, CAPACITY),
        f"n = {drawn(CAPACITY, 800)}",
        f"assert abs(np.mean(n > {half}) - 0.5) < 0.03, np.mean(n > {half})",
    ]


def given_priority(subject: Subject) -> list[str]:
    asked, _ = by_priority(subject, 1.0)
    return [
        filled(subject, CAPACITY, CAPACITY, **asked)[0],
        adds(subject, 1, CAPACITY, priority="10.0 if i % 2 else 0.01"),
        f"n = {drawn(CAPACITY, OFTEN)}",
        "assert np.mean(n % 2) > 0.95, np.mean(n % 2)",
    ]


def weights(subject: Subject) -> list[str]:
    asked, alpha = by_priority(subject, ALPHA)
    more = {"beta": BETA} if subject.can(beta=None) else {}
    return weights_script(subject, asked | more, alpha, 2 * CAPACITY)


def seed(subject: Subject) -> list[str]:
    lines = ["d = []"]
    for asked in kinds(subject).values():
        make = made(subject, CAPACITY, **asked, **({"seed": 0} if subject.can(seed=None) else {}))
        lines += [
            "for s in (1, 1, 2):",
            f"    np.random.seed(s); b = {make.replace('seed=0', 'seed=s')}",
            f"    {adds(subject, 1, CAPACITY)}",
            f"    d.append({drawn(CAPACITY, 4)}.tolist())",
        ]
    if len(kinds(subject)) > 1:
        lines = [
            lines[0],
            "for p, s in [(p, s) for p in (False, True) for s in (1, 1, 2)]:",
            lines[2].replace("prioritized=False", "prioritized=p"),
            *lines[3:5],
        ]
    return [*lines, "assert all(d[k] == d[k + 1] != d[k + 2] for k in range(0, len(d), 3)), d"]


def returned_batch(subject: Subject) -> list[str]:
    return [
        *filled(subject, CAPACITY, CAPACITY, **_kind(subject, "by priority")),
        "x = sample(b, 8); y = {k: np.array(x[k]) for k in x}; sample(b, 8)",
        adds(subject, CAPACITY + 1, 2 * CAPACITY),
        "assert all((np.asarray(x[k]) == y[k]).all() for k in y), (x, y)",
        f'np.asarray(x["obs"])[...] = 77; assert 77 not in {drawn(CAPACITY, OFTEN)}',
    ]


def references(subject: Subject) -> list[str]:
    return [
        f"b, o = {made(subject, CAPACITY, **_kind(subject))}, np.zeros(4, 'float32')",
        adds(subject, 1, 16, obs="o").replace(": ", ": o[:] = i; ", 1),
        *exactly(_held(16), 16, OFTEN),
    ]


def stale_update(subject: Subject) -> list[str]:
    asked, _ = by_priority(subject, 1.0)
    return [
        f"b, x = {made(subject, CAPACITY, **asked)}, None",
        f"{adds(subject, 1, 2 * CAPACITY)}; x = sample(b, 8) if i == {CAPACITY} else x",
        'update(b, x["indexes"], np.full(8, 1e6))',
        *evenly(_held(2 * CAPACITY), CAPACITY),
    ]


def empty(subject: Subject) -> list[str]:
    return [
        f"import signal; signal.alarm({SECONDS}); b = {made(subject, CAPACITY, **_kind(subject))}",
        "try: x = sample(b, 16)",
        REFUSED,
        'assert len(x["obs"]) == 0, x',
    ]


def batch_over_stored(subject: Subject) -> list[str]:
    begin = filled(subject, CAPACITY, 5, **_kind(subject))
    return [
        f"import signal; signal.alarm({SECONDS}); {begin[0]}",
        begin[1],
        'try: n = np.asarray(sample(b, 16)["obs"])[:, 0]',
        REFUSED,
        "assert np.isin(n, range(1, 6)).all(), n",
    ]


def _bad(priority: str) -> Callable[[Subject], list[str]]:
    def lines(subject: Subject) -> list[str]:
        asked, _ = by_priority(subject, 0.6)
        begin = filled(subject, CAPACITY, CAPACITY, **asked)
        return [
            f"import contextlib, signal; signal.alarm({SECONDS}); {begin[0]}; x = None",
            begin[1],
            f'with contextlib.suppress(Exception): x = sample(b, 8); update(b, x["indexes"], np.full(8, {priority}))',
            *evenly(_held(CAPACITY), CAPACITY, 'n not in np.asarray(x["obs"])[:, 0]'),
        ]

    return lines


SCRIPTS: Mapping[str, Callable[[Subject], Sequence[str]]] = {
    "round_trip": round_trip,
    "dtype": dtype,
    "shape": shape,
    "ring_order": ring_order,
    "uniform": uniform,
    "prioritized": by_priorities,
    "new_row_priority": new_row_priority,
    "given_priority": given_priority,
    "weights": weights,
    "seed": seed,
    "returned_batch": returned_batch,
    "references": references,
    "stale_update": stale_update,
    "empty": empty,
    "batch_over_stored": batch_over_stored,
    "nan_priority": _bad("np.nan"),
    "negative_priority": _bad("-30.0"),
    "infinite_priority": _bad("np.inf"),
}
