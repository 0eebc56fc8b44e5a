"""The same calls of cpprb and cpprb_impl return the same results, except where cpprb is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import cpprb_impl

from .rows import ENV_DICT, make_rows

cpprb = pytest.importorskip("cpprb")


def pair(kind, *args, **kwargs):
    return [getattr(module, kind)(*args, **kwargs) for module in (cpprb, cpprb_impl)]


def same_batch(theirs, ours):
    assert list(ours) == list(theirs)
    for name in theirs:
        assert ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape, name
        assert np.array_equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer", "MPReplayBuffer"])
@pytest.mark.parametrize("seed", range(5))
def test_adds_and_sizes_agree_with_cpprb(kind, seed):
    rng = np.random.default_rng(seed)
    theirs, ours = pair(kind, 37, ENV_DICT)
    theirs.add(**make_rows(0, 1))  # cpprb's MP class blocks forever if it is read before its first add
    ours.add(**make_rows(0, 1))
    added = 1
    for _ in range(60):
        count = int(rng.choice([1, 1, 2, 7, 36]))
        rows = make_rows(added, count)
        assert ours.add(**rows) == theirs.add(**rows)
        added += count
        for size in ("get_stored_size", "get_next_index", "get_buffer_size"):
            assert getattr(ours, size)() == getattr(theirs, size)()
    if kind == "MPReplayBuffer":
        theirs.sample(1)  # sets cpprb's gate so that get_all_transitions does not block
    same_batch(theirs.get_all_transitions(), ours.get_all_transitions())
    ours.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shape": 3},
        {"shape": (2, 2)},
        {"shape": [2]},
        {"shape": np.array([2, 1])},
        {"dtype": np.float16},
        {"shape": (1,)},
    ],
)
def test_shapes_of_fields_agree_with_cpprb(options):
    theirs, ours = pair("ReplayBuffer", 8, {"x": options})
    shape = theirs.get_all_transitions()["x"].shape[1:]
    values = np.arange(5 * np.prod(shape)).reshape(5, *shape)
    for buffer in (theirs, ours):
        buffer.add(x=values)
        buffer.add(x=values[0])
        buffer.add(x=values[:2].ravel())
    same_batch(theirs.get_all_transitions(), ours.get_all_transitions())


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_priorities_and_weights_agree_with_cpprb(alpha):
    theirs, ours = pair("PrioritizedReplayBuffer", 64, ENV_DICT, alpha=alpha)
    rng = np.random.default_rng(0)
    weight_of = [{}, {}]
    for step in range(30):
        count = 4 if step % 3 else 8  # divides the capacity; the next test shows what cpprb does otherwise
        rows, priorities = make_rows(step, count), rng.uniform(0.01, 4, size=count)
        # The largest priority is always that of a new row, since the maximum never falls in cpprb.
        indexes, changed = np.array([step % 30, 2]), np.array([rng.uniform(0.01, 4), 4 + step])
        for buffer in (theirs, ours):
            buffer.add(**rows, **({"priorities": priorities} if step % 2 else {}))
            buffer.update_priorities(indexes, changed)
        assert ours.get_max_priority() == pytest.approx(theirs.get_max_priority(), rel=1e-6)
    for known, buffer in zip(weight_of, (theirs, ours), strict=True):
        for _ in range(200):
            batch = buffer.sample(64, beta=0.5)
            known.update(zip(batch["indexes"].tolist(), batch["weights"].tolist(), strict=True))
    common = weight_of[0].keys() & weight_of[1].keys()
    assert len(common) > 60
    assert [weight_of[1][i] for i in common] == pytest.approx([weight_of[0][i] for i in common], rel=1e-3)


def test_priorities_of_a_batch_continue_over_the_wrap():
    """In cpprb 11.0.0, slot 0 gets the first priority of the batch again."""
    weights = []
    for buffer in pair("PrioritizedReplayBuffer", 4, {"x": {}}, alpha=1.0, eps=0.0):
        buffer.add(x=[0, 1, 2])
        buffer.add(x=[3, 4, 5], priorities=np.array([1.0, 2.0, 4.0]))
        batches = [buffer.sample(16, beta=1.0) for _ in range(50)]
        weights.append({int(x): 1 / w for b in batches for x, w in zip(b["x"].ravel(), b["weights"], strict=True)})
    assert weights[0] == {2: 1, 3: 1, 4: 1, 5: 2}
    assert weights[1] == {2: 1, 3: 1, 4: 2, 5: 4}


@pytest.mark.parametrize(
    "idx",
    [
        3,
        -1,
        [-8, 2],
        range(1, 6, 2),
        np.array([2, 255], np.uint8).astype(np.int8),
        [[0, 1], [7, -2]],
        np.arange(8) % 3 == 1,
    ],
)
def test_rows_by_index_agree_with_cpprb(idx):
    theirs, ours = pair("ReplayBuffer", 8, ENV_DICT)
    for buffer in (theirs, ours):
        buffer.add(**make_rows(0, 11))
    same_batch(theirs._encode_sample(idx), ours._encode_sample(idx))


@pytest.mark.parametrize("options", [{}, {"prioritized": True}])
def test_one_set_of_options_creates_both_kinds_of_buffer(options):
    """Programs that enable priorities by a flag pass the options of a prioritized buffer in either case."""
    theirs, ours = pair("create_buffer", 8, ENV_DICT, alpha=0.5, eps=0.1, check_for_update=True, **options)
    assert type(ours).__name__ == type(theirs).__name__


@pytest.mark.parametrize("nothing", [None, "", [], ()])
def test_empty_names_for_next_of_and_stack_compress_are_accepted(nothing):
    for buffer in pair("ReplayBuffer", 8, ENV_DICT, next_of=nothing, stack_compress=nothing, Nstep=None):
        buffer.add(**make_rows(0, 3))
        assert list(buffer.sample(1)) == list(ENV_DICT)


def test_every_exported_name_exists_in_cpprb():
    for name in cpprb_impl.__all__:
        assert hasattr(cpprb, name)
