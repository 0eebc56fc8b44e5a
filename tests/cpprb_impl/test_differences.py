"""Small differences from cpprb, as listed in docs/differences.md: what cpprb does, and what our buffer does."""

from __future__ import annotations

import numpy as np
import pytest

import cpprb_impl

cpprb = pytest.importorskip("cpprb")


def column(module, field, *values):
    """Return the dtype and values of a field after adding some."""
    buffer = module.ReplayBuffer(4, {"x": field}, default_dtype=np.int16)
    for value in values:
        buffer.add(x=value)
    stored = buffer.get_all_transitions()["x"]
    return stored.dtype.str, stored.shape, stored.tolist()


def prioritized(module, count, priorities=None, **options):
    buffer = module.PrioritizedReplayBuffer(4, {"x": {}}, **options)
    buffer.add(x=np.arange(count), priorities=priorities)
    return buffer


def rows(module, count, size=4, kind="ReplayBuffer", **options):
    buffer = getattr(module, kind)(size, {"x": {}}, **options)
    buffer.add(x=np.arange(count))
    return buffer


def x_of(batch):
    return batch["x"].ravel().tolist()


def nan_weights(module):
    return np.isnan(prioritized(module, 2, [0, 0], eps=0.0).sample(2)["weights"]).all()


NUMBERS = [1, 2.5, True]

# A call of either module, what cpprb returns or raises, and what our module does.
DIFFERENCES = {
    "dtype of None": (lambda m: column(m, {"dtype": None})[0], "<f8", "<i2"),
    "shape of ()": (lambda m: column(m, {"shape": ()}, 3)[1:], TypeError, ((1,), [3])),
    "dimension of 0": (lambda m: column(m, {"shape": (2, 0)})[1], (0, 2, 0), ValueError),
    "dtype without a size": (lambda m: column(m, {"dtype": "S"}, b"ab")[2], [[b"a"]], ValueError),
    "field that is no dict": (lambda m: column(m, 3), AttributeError, TypeError),
    "complex into reals": (lambda m: column(m, {"dtype": float}, 1 + 2j)[2], [[1.0]], TypeError),
    "NaN into whole numbers": (lambda m: type(column(m, {}, np.nan)), tuple, ValueError),
    "list of objects": (
        lambda m: repr(column(m, {"dtype": "O"}, NUMBERS)[2]),
        "[[1.0], [2.5], [1.0]]",
        "[[1], [2.5], [True]]",
    ),
    "range as an object": (lambda m: column(m, {"dtype": "O"}, range(2))[2], [[0], [1]], [[range(2)]]),
    "infinite size": (lambda m: rows(m, 1, np.inf), OverflowError, ValueError),
    "beta": (lambda m: len(prioritized(m, 2).sample(2, beta=-1.0)["x"]), 2, ValueError),
    "alpha": (lambda m: len(prioritized(m, 2, alpha=-1.0).sample(2)["x"]), 2, ValueError),
    "every priority 0": (nan_weights, True, ValueError),
    "update of nothing": (lambda m: prioritized(m, 2).update_priorities([], []), IndexError, None),
    "float size of a sample": (lambda m: len(prioritized(m, 2).sample(2.9)["x"]), 2, TypeError),
    "negative size of a sample": (lambda m: prioritized(m, 2).sample(-1), OverflowError, ValueError),
    "largest priority": (lambda m: prioritized(m, 1, [7.1]).get_max_priority(), float(np.float32(7.1)), 7.1),
    "index of nothing": (lambda m: len(rows(m, 2)._encode_sample([3])["x"]), 1, IndexError),
    "no index": (lambda m: x_of(rows(m, 2)._encode_sample([])), IndexError, []),
    "window of no steps": (lambda m: rows(m, 1, Nstep={"size": 0}), OverflowError, ValueError),
    "reverse": (lambda m: x_of(rows(m, 9, 5, "ReverseReplayBuffer", stride=4).sample(2)), [4, 5], [8, 4]),
    "LaBER": (lambda m: m.LaBERmean("4").batch_size, 4, TypeError),
    "MP classes": (lambda m: m.MPReplayBuffer(4, {"done": {}}, Nstep={"size": 2}).is_Nstep(), False, True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_difference_is_as_documented(name):
    call, theirs, ours = DIFFERENCES[name]
    for module, wanted in ((cpprb, theirs), (cpprb_impl, ours)):
        if isinstance(wanted, type) and issubclass(wanted, Exception):
            with pytest.raises(wanted):
                call(module)
        else:
            assert call(module) == wanted
