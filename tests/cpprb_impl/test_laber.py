"""Weights, draws and errors of LaBER; the weights agree with cpprb."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cpprb_impl

VARIANTS = ["LaBERmean", "LaBERlazy", "LaBERmax"]


def make(variant, *args, **kwargs):
    return getattr(cpprb_impl, variant)(*args, **kwargs)


def weights_by_hand(variant, mass, drawn):
    if variant == "LaBERmean":
        return mass.mean() / mass[drawn]
    if variant == "LaBERlazy":
        return mass.sum() / mass[drawn]
    return mass[drawn].min() / mass[drawn]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.bool_])
def test_weights_and_rows_match_the_definition(variant, dtype):
    laber = make(variant, 8, m=3, eps=0.25, seed=1)
    priorities = np.random.default_rng(0).integers(0, 9, size=24).astype(dtype)
    a, b = np.arange(24) + 100, np.arange(48).reshape(24, 2)
    batch = laber(priorities=priorities, a=a, b=b, indexes=a, weights=a)
    drawn = batch["indexes"]
    assert sorted(batch) == ["a", "b", "indexes", "weights"]
    assert drawn.shape == (8,) and len(set(drawn)) > 1
    assert np.array_equal(batch["a"], a[drawn]) and np.array_equal(batch["b"], b[drawn])
    assert batch["weights"].dtype == (dtype if np.issubdtype(dtype, np.floating) else np.float64)
    wanted = weights_by_hand(variant, priorities.astype(float) + 0.25, drawn)
    assert batch["weights"] == pytest.approx(wanted, rel=1e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 4, 2.5])
def test_weights_agree_with_cpprb(variant, dtype, m):
    cpprb = pytest.importorskip("cpprb")
    theirs, ours = getattr(cpprb, variant)(20, m, eps=1e-3), make(variant, 20, m, eps=1e-3, seed=3)
    priorities = np.random.default_rng(0).lognormal(size=int(20 * m)).astype(dtype)
    drawn = set()
    for laber in (theirs, ours):
        for _ in range(60):
            batch = laber(priorities=priorities, x=np.arange(len(priorities)))
            assert batch["weights"].dtype == dtype and batch["indexes"].dtype == np.int64
            assert np.array_equal(batch["x"], batch["indexes"])
            wanted = weights_by_hand(variant, priorities.astype(float) + 1e-3, batch["indexes"])
            assert batch["weights"] == pytest.approx(wanted, rel=1e-5 if dtype == np.float32 else 1e-12)
            drawn.update(batch["indexes"].tolist())
    assert len(drawn) > len(priorities) * 0.8


def draw_counts(laber, priorities, calls):
    size = len(priorities)
    return sum(np.bincount(laber(priorities=priorities)["indexes"], minlength=size) for _ in range(calls))


@pytest.mark.parametrize("variant", VARIANTS)
def test_draws_follow_priorities(variant):
    priorities = np.random.default_rng(2).lognormal(size=64)
    counts = draw_counts(make(variant, 32, m=2, eps=0.1, seed=5), priorities, 5000)
    chances = (priorities + 0.1) / (priorities + 0.1).sum()
    assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-6
    wrong = priorities / priorities.sum()  # eps was forgotten, which the same check must detect
    assert stats.chisquare(counts, wrong * counts.sum()).pvalue < 1e-6


def test_draws_are_distributed_as_in_cpprb():
    cpprb = pytest.importorskip("cpprb")
    priorities = np.linspace(0.1, 3, 40)
    theirs, ours = (draw_counts(module.LaBERmean(10), priorities, 8000) for module in (cpprb, cpprb_impl))
    assert stats.chi2_contingency([theirs, ours]).pvalue > 1e-6


def test_a_seed_repeats_the_draws():
    def draws(seed):
        laber = cpprb_impl.LaBERmean(64, seed=seed)
        return [laber(priorities=np.ones(256))["indexes"].tolist() for _ in range(3)]

    assert draws(4) == draws(4)
    assert draws(4) != draws(5)
    assert draws(None) != draws(None)
    assert draws(4)[0] != draws(4)[1]


@pytest.mark.parametrize(
    ("args", "eps", "error", "says"),
    [
        ((0,), 0.1, ValueError, "batch_size"),
        ((-3,), 0.1, ValueError, "batch_size"),
        ((float("nan"),), 0.1, ValueError, "batch_size"),
        (("many",), 0.1, TypeError, "batch_size"),
        ((None,), 0.1, TypeError, "batch_size"),
        ((4, 0), 0.1, ValueError, "m must"),
        ((4, -1), 0.1, ValueError, "m must"),
        ((4, 0.1), 0.1, ValueError, r"batch_size \* m"),
        ((4, 4), -1e-9, ValueError, "eps"),
        ((4, 4), float("nan"), ValueError, "eps"),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bad_parameters_are_refused(variant, args, eps, error, says):
    with pytest.raises(error, match=says):
        make(variant, *args, eps=eps)


@pytest.mark.parametrize(
    ("priorities", "arrays", "error", "says"),
    [
        (None, {}, TypeError, "None"),
        (["a"] * 8, {}, TypeError, "priorities"),
        (np.ones(7), {}, ValueError, r"priorities must have shape .* got \(7,\)"),
        (np.ones((8, 1)), {}, ValueError, r"priorities must have shape .* got \(8, 1\)"),
        (np.zeros(8), {}, ValueError, "sum"),
        ([1, 1, -1, 1, 1, 1, 1, 1], {}, ValueError, r"priorities\[2\] must be .* got -1"),
        ([1, 1, 1, np.nan, 1, 1, 1, 1], {}, ValueError, r"priorities\[3\] must be .* got nan"),
        ([1, 1, 1, 1, np.inf, 1, 1, 1], {}, ValueError, r"priorities\[4\] must be .* got inf"),
        (np.ones(8), {"x": np.ones(7)}, ValueError, "x must have 8 rows"),
        (np.ones(8), {"x": np.ones(9)}, ValueError, "x must have 8 rows"),
        (np.ones(8), {"x": 3.0}, ValueError, "x must have 8 rows"),
    ],
)
def test_a_bad_call_names_the_error_and_draws_nothing(priorities, arrays, error, says):
    tried, fresh = (cpprb_impl.LaBERmean(4, m=2, eps=0, seed=9) for _ in range(2))
    with pytest.raises(error, match=says):
        tried(priorities=priorities, **arrays)
    good = np.arange(8) + 1.0
    assert tried(priorities=good)["indexes"].tolist() == fresh(priorities=good)["indexes"].tolist()


def test_eps_alone_is_enough_to_draw_and_lists_are_accepted():
    batch = cpprb_impl.LaBERmax(4, m=2)(priorities=[0] * 8, x=list(range(8)))
    assert batch["weights"].tolist() == [1] * 4
    assert np.array_equal(batch["x"], batch["indexes"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_attributes_agree_with_cpprb(variant):
    cpprb = pytest.importorskip("cpprb")
    for given in ((12,), (12, 5), (3, 2.5)):
        theirs, ours = vars(getattr(cpprb, variant)(*given)), vars(make(variant, *given))
        # In our class, rng is a property, so that other processes do not share it.
        assert theirs.keys() == {name for name in ours if not name.startswith("_")} | {"rng"}
        assert ours["idx"].dtype == theirs["idx"].dtype and np.array_equal(ours["idx"], theirs["idx"])
        assert (ours["batch_size"], ours["eps"]) == (theirs["batch_size"], theirs["eps"])


def test_a_user_can_derive_a_variant():
    """The base class is public in cpprb, and calls the same method."""

    class Probability:
        def _normalize_weight(self, p, idx):
            return p[idx]

    cpprb = pytest.importorskip("cpprb")
    for module in (cpprb, cpprb_impl):
        laber = type("Own", (Probability, module.LaBER.LaBER), {})(4, 1, eps=0.0)
        batch = laber(priorities=np.array([1.0, 2.0, 3.0, 4.0]))
        assert batch["weights"] == pytest.approx((batch["indexes"] + 1) / 10)
