"""N-step transitions agree with a slow model of their definition."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.contents.state import add_pending
from cpprb_impl.layout.fields import native_fields
from cpprb_impl.layout.nstep import read_options
from cpprb_impl.ring.nstep import fitting_steps

FIELDS = {"obs": {"shape": 2}, "rew": {"shape": 2}, "next_obs": {"shape": 2}, "done": {"dtype": bool}, "tag": {}}


def nstep(size, **options):
    return {"size": size, "rew": "rew", "gamma": 0.5, "next": "next_obs", **options}


def steps(dones, first=0):
    """Return a step for each of `dones`; every value shows the number of its step."""
    number = np.arange(first, first + len(dones), dtype=np.float64)
    pair = np.stack([number, -number], axis=1)
    return {"obs": pair, "rew": pair + 0.25, "next_obs": pair + 0.5, "done": np.array(dones, bool), "tag": number}


class Model:
    """The definition, applied one step at a time."""

    def __init__(self, size, gamma):
        self.size, self.gamma, self.waiting, self.stored = size, gamma, [], []

    def add(self, **batch):
        for i in range(len(batch["done"])):
            self.waiting.append({name: column[i] for name, column in batch.items()})
            if len(self.waiting) == self.size:
                self._store_oldest()

    def on_episode_end(self):
        while self.waiting:
            self._store_oldest()

    def _store_oldest(self):
        row = dict(self.waiting[0])
        row["rew"] = np.zeros(2)
        for k, step in enumerate(self.waiting):
            row["rew"] = row["rew"] + self.gamma**k * step["rew"]
            row["next_obs"], row["done"] = step["next_obs"], step["done"]
            if step["done"]:
                break
        self.stored.append(row)
        del self.waiting[0]


def same(model, columns):
    assert len(columns["tag"]) == len(model.stored)
    for i, row in enumerate(model.stored):
        for name, value in row.items():
            assert columns[name][i] == pytest.approx(value, rel=1e-6), (i, name)


EPISODE_END = None
calls = st.lists(st.one_of(st.just(EPISODE_END), st.lists(st.integers(0, 5).map(lambda n: n == 0), min_size=1)))


@settings(deadline=None)
@given(calls, st.integers(1, 6), st.sampled_from([0.0, 0.5, 0.99, 1.0, 1.5]))
@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_any_history_agrees_with_the_model(kind, calls, size, gamma):
    buffer, model = kind(1000, FIELDS, Nstep=nstep(size, gamma=gamma)), Model(size, gamma)
    added = 0
    for dones in calls:
        if dones is EPISODE_END:
            buffer.on_episode_end()
            model.on_episode_end()
            assert buffer.get_current_episode_len() == 0
        else:
            batch = steps(dones, added)
            added += len(dones)
            stored = len(model.stored)
            model.add(**batch)
            assert buffer.add(**batch) == (stored if len(model.stored) > stored else None)
        same(model, buffer.get_all_transitions())


@settings(deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1), st.integers(1, 5), st.data())
def test_batches_equal_single_steps(counts, size, data):
    dones = data.draw(st.lists(st.booleans(), min_size=sum(counts), max_size=sum(counts)))
    whole, apart = (ReplayBuffer(1000, FIELDS, Nstep=nstep(size)) for _ in range(2))
    for i, done in enumerate(dones):
        apart.add(**steps([done], i))
    at = 0
    for count in counts:
        whole.add(**steps(dones[at : at + count], at))
        at += count
    for buffer in (whole, apart):
        buffer.on_episode_end()
    theirs, ours = apart.get_all_transitions(), whole.get_all_transitions()
    assert all(np.array_equal(theirs[name], ours[name]) for name in theirs)


def test_several_episodes_end_inside_one_batch():
    buffer = ReplayBuffer(20, FIELDS, Nstep=nstep(3))
    assert buffer.add(**steps([0, 1, 0, 0, 0, 1, 0, 0])) == 0
    rows = buffer.get_all_transitions()
    assert rows["tag"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert rows["done"].ravel().tolist() == [True, True, False, True, True, True]
    assert rows["next_obs"][:, 0].tolist() == [1.5, 1.5, 4.5, 5.5, 5.5, 5.5]
    rewards = np.arange(8) + 0.25
    assert rows["rew"][:, 0].tolist() == [
        rewards[0] + rewards[1] / 2,
        rewards[1],
        rewards[2] + rewards[3] / 2 + rewards[4] / 4,
        rewards[3] + rewards[4] / 2 + rewards[5] / 4,
        rewards[4] + rewards[5] / 2,
        rewards[5],
    ]


@pytest.mark.parametrize(("place", "transitions"), [(0, [0]), (1, [0, 1]), (2, [2]), (3, [2, 3]), (4, [2, 3, 4])])
def test_rewards_beyond_the_end_do_not_count_even_when_they_are_nan(place, transitions):
    buffer = ReplayBuffer(9, FIELDS, Nstep=nstep(3))
    batch = steps([0, 1, 0, 0, 1])
    batch["rew"][place] = np.nan
    buffer.add(**batch)
    buffer.on_episode_end()
    assert np.flatnonzero(np.isnan(buffer.get_all_transitions()["rew"]).any(axis=1)).tolist() == transitions


def test_sums_are_computed_in_double_precision_and_stored_in_the_dtype_of_the_field():
    buffer = ReplayBuffer(9, {"rew": {"dtype": np.float32}, "done": {}}, Nstep={"size": 3, "rew": "rew", "gamma": 1.0})
    # In float32, 2^24 + 1 rounds to 2^24, and the small rewards would never count.
    buffer.add(rew=np.array([2.0**24, 1.0, 1.0]), done=[0, 0, 0])
    rew = buffer.get_all_transitions()["rew"]
    assert rew.dtype == np.float32 and rew[0, 0] == 2**24 + 2
    # Rewards are not rounded before they are summed, either.
    buffer.clear()
    buffer.add(rew=np.array([1 + 2.0**-30, -1.0, 0.0]), done=[0, 0, 0])
    assert buffer.get_all_transitions()["rew"][0, 0] == 2.0**-30


def test_the_window_does_not_keep_a_batch_alive():
    buffer = ReplayBuffer(1, {"x": {"dtype": np.float64}, "done": {"dtype": bool}}, Nstep={"size": 3})
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    buffer.add(x=np.zeros(10**6), done=np.zeros(10**6, bool))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 10**6  # bytes, while the batch has 9 * 10^6


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.complex128])
def test_rewards_of_other_dtypes_are_summed(dtype):
    buffer = ReplayBuffer(9, {"rew": {"dtype": dtype}, "done": {}}, Nstep={"size": 2, "rew": ["rew"], "gamma": 0.5})
    buffer.add(rew=np.array([1, 2, 4], dtype), done=[0, 0, 0])
    rew = buffer.get_all_transitions()["rew"]
    assert rew.dtype == dtype and rew.ravel().tolist() == [2, 4]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32])
def test_done_is_one_or_zero_in_its_own_dtype(dtype):
    buffer = ReplayBuffer(9, {"done": {"dtype": dtype}}, Nstep={"size": 3})
    buffer.add(done=np.array([0, 0, 0, 3, 5]).astype(dtype))
    done = buffer.get_all_transitions()["done"]
    assert done.dtype == dtype and done.ravel().tolist() == [0, 1, 1]


def test_several_rewards_and_next_fields_are_supported():
    fields = {"a": {}, "b": {}, "next_a": {}, "next_b": {"shape": (2, 2)}, "done": {}}
    options = {"size": 2, "rew": ("a", "b"), "next": ["next_a", "next_b"], "gamma": 0.5}
    buffer = ReplayBuffer(9, fields, Nstep=options)
    buffer.add(a=[1, 2], b=[10, 20], next_a=[5, 6], next_b=np.arange(8), done=[0, 0])
    rows = buffer.get_all_transitions()
    assert (rows["a"].item(), rows["b"].item(), rows["next_a"].item()) == (2, 20, 6)
    assert rows["next_b"].tolist() == [[[4, 5], [6, 7]]]


def test_a_window_of_one_step_changes_nothing():
    """In cpprb, every add of a buffer with such a window fails."""
    plain, one = ReplayBuffer(9, FIELDS), ReplayBuffer(9, FIELDS, Nstep=nstep(1))
    for buffer in (plain, one):
        assert buffer.add(**steps([0])) == 0
        assert buffer.add(**steps([0, 1, 0], 1)) == 1
        buffer.on_episode_end()
    for name, column in plain.get_all_transitions().items():
        assert np.array_equal(column, one.get_all_transitions()[name])


def test_batches_may_be_larger_than_window_and_buffer():
    buffer = ReplayBuffer(5, FIELDS, Nstep=nstep(3))
    assert buffer.add(**steps([0] * 20)) == 0
    assert buffer.get_stored_size() == 5
    assert sorted(buffer.get_all_transitions()["tag"].ravel()) == [13, 14, 15, 16, 17]
    buffer.on_episode_end()
    assert sorted(buffer.get_all_transitions()["tag"].ravel()) == [15, 16, 17, 18, 19]


def test_an_episode_may_end_with_an_empty_window():
    """In prioritized buffers of cpprb, this raises an error, and n-step then remains disabled."""
    for kind in (ReplayBuffer, PrioritizedReplayBuffer):
        buffer = kind(9, FIELDS, Nstep=nstep(3))
        buffer.on_episode_end()
        assert buffer.is_Nstep()
        assert [buffer.add(**steps([0], i)) for i in range(4)] == [None, None, 0, 1]


def test_clear_discards_the_pending_steps():
    buffer = ReplayBuffer(9, FIELDS, Nstep=nstep(3))
    buffer.add(**steps([0, 0]))
    buffer.clear()
    buffer.on_episode_end()
    assert buffer.get_stored_size() == 0
    assert [buffer.add(**steps([0], i)) for i in range(3)] == [None, None, 0]


@pytest.mark.parametrize("priorities", [[], [3.0, 0.0, 2.0], [np.nan, 5.0, np.nan]])
def test_pending_steps_can_be_exported_and_restored(priorities):
    kind = PrioritizedReplayBuffer if priorities else ReplayBuffer
    buffer, other = (kind(9, FIELDS, Nstep=nstep(4)) for _ in range(2))
    for i, done in enumerate([0, 1, 0]):
        given = {"priorities": priorities[i]} if priorities and priorities[i] == priorities[i] else {}
        buffer.add(**steps([done], i), **given)
    waiting = buffer._get_pending()
    assert waiting["tag"].ravel().tolist() == [0, 1, 2] and waiting["rew"].dtype == np.float64
    if priorities:
        assert np.array_equal(waiting["priorities"], priorities, equal_nan=True)
    add_pending(other, waiting)
    waiting["rew"][:] = 99  # the exported arrays are copies
    assert all(np.array_equal(c, buffer._get_pending()[n], equal_nan=True) for n, c in other._get_pending().items())
    for each in (buffer, other):
        each.on_episode_end()
        assert len(each._get_pending()["tag"]) == 0
    theirs, ours = buffer.get_all_transitions(), other.get_all_transitions()
    assert all(np.array_equal(theirs[name], ours[name]) for name in theirs)


def test_without_n_step_no_step_is_pending():
    buffer = ReplayBuffer(9, FIELDS)
    assert buffer._get_pending() == {}
    add_pending(buffer, {})
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"obs": np.zeros((3, 5))}, ValueError),
        ({"obs": np.zeros((2, 2))}, ValueError),
        ({"tag": np.array([["a"], ["b"], ["c"]])}, ValueError),
        ({name: np.zeros((4, *shape)) for name, _, shape in native_fields(FIELDS)}, ValueError),
    ],
)
def test_pending_steps_that_do_not_fit_are_refused(change, error):
    buffer = ReplayBuffer(9, FIELDS, Nstep=nstep(4))
    buffer.add(**steps([0, 0, 0]))
    waiting, options = buffer._get_pending(), read_options(nstep(4), native_fields(FIELDS))
    assert fitting_steps(waiting, waiting, options).keys() == waiting.keys()
    with pytest.raises(error):
        fitting_steps({**waiting, **change}, waiting, options)
    with pytest.raises(KeyError):
        fitting_steps({"obs": waiting["obs"]}, waiting, options)


def test_rewards_are_rounded_to_half_precision_as_in_numpy():
    rng = np.random.default_rng(0)
    edges = np.array(
        [0.0, -0.0, 65504, 65519.99, 65520, 1e9, -np.inf, np.nan, 2.0**-24, 2.0**-25, 1.5 * 2**-25, 6.1e-5]
    )
    ties = np.float16(rng.normal(size=200)).astype(np.float64) * (1 + 2.0**-11)
    rewards = np.concatenate([edges, ties, rng.normal(size=500) * 2.0 ** rng.integers(-30, 20, 500)])
    buffer = ReplayBuffer(1000, {"rew": {"dtype": np.float16}, "done": {}}, Nstep={"size": 1, "rew": "rew"})
    buffer.add(rew=rewards, done=np.zeros(len(rewards)))
    with np.errstate(over="ignore"):
        expected = rewards.astype(np.float16)
    rew = buffer.get_all_transitions()["rew"].ravel()
    assert np.array_equal(rew, expected, equal_nan=True)
    assert np.array_equal(np.signbit(rew), np.signbit(expected))


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">c8", ">c16"])
def test_rewards_of_the_other_byte_order_are_summed(dtype):
    buffer = ReplayBuffer(9, {"rew": {"dtype": dtype}, "done": {}}, Nstep={"size": 2, "rew": "rew", "gamma": 0.5})
    buffer.add(rew=np.array([1, 2, 4]), done=[0, 0, 0])
    rew = buffer.get_all_transitions()["rew"]
    assert rew.dtype == np.dtype(dtype) and rew.ravel().tolist() == [2, 4]


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i8", ">i4", "f2", "f4", ">f4", "f8", ">f8", "g", "c8", ">c8", "c16", "G"]
)
def test_done_may_have_any_dtype(dtype):
    dones = np.array([0, 1, 0, 0], dtype)
    if np.dtype(dtype).kind in "fc":
        dones[2], dones[3] = -0.0, np.nan  # NaN is true, as in Python
    buffer = ReplayBuffer(9, {"rew": {}, "done": {"dtype": dtype}}, Nstep={"size": 2, "rew": "rew", "gamma": 1.0})
    buffer.add(rew=[1, 2, 4, 8], done=dones)
    buffer.on_episode_end()
    rows = buffer.get_all_transitions()
    assert rows["done"].dtype == dones.dtype
    assert rows["done"].ravel().tolist() == [1, 1, np.isnan(dones[3]), np.isnan(dones[3])]
    assert rows["rew"].ravel().tolist() == [3, 2, 12, 8]


def test_a_done_that_is_not_a_number_is_refused():
    with pytest.raises(TypeError, match="'done' must be a number or a bool"):
        ReplayBuffer(9, {"done": {"dtype": "U1"}}, Nstep={"size": 2})


@pytest.mark.parametrize("end", range(12))
def test_an_episode_may_end_anywhere_in_a_large_batch(end):
    """The last steps of the transitions of a batch are consecutive, except before the end of an episode."""
    buffer, model = ReplayBuffer(30, FIELDS, Nstep=nstep(3)), Model(3, 0.5)
    for target in (buffer, model):
        target.add(**steps([i == end for i in range(12)]))
    same(model, buffer.get_all_transitions())


def test_options_may_name_done_and_rewards_twice():
    """A reward is always summed. If done is also listed in "next", its value is that of the last step."""
    fields = {"rew": {"dtype": np.float64}, "done": {}}
    options = {"size": 2, "rew": "rew", "next": ["rew", "done"], "gamma": 1.0}
    buffer = ReplayBuffer(9, fields, Nstep=options)
    buffer.add(rew=[1, 2, 4], done=[0, 7, 0])
    rows = buffer.get_all_transitions()
    assert rows["rew"].ravel().tolist() == [3, 2] and rows["done"].ravel().tolist() == [7, 7]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"size": 0}, ValueError, "size"),
        ({"size": "3"}, TypeError, "size"),
        ({"rew": "rew"}, KeyError, "size"),
        ({"size": 3, "rew": "reward"}, KeyError, "reward"),
        ({"size": 3, "next": ["next_obs", "nextobs"]}, KeyError, "nextobs"),
        ({"size": 3, "rew": "whole"}, TypeError, "whole"),
        ({"size": 3, "gamma": np.nan}, ValueError, "gamma"),
        ({"size": 3, "gamma": -0.1}, ValueError, "gamma"),
        ({"size": 3, "discount": 1}, TypeError, "discount"),
        (3, TypeError, "Nstep"),
    ],
)
def test_bad_options_are_refused(options, error, text):
    for kind in (ReplayBuffer, PrioritizedReplayBuffer):
        with pytest.raises(error, match=text):
            kind(9, {**FIELDS, "whole": {"dtype": int}}, Nstep=options)


def test_done_is_required():
    with pytest.raises(KeyError, match="done"):
        ReplayBuffer(9, {"rew": {}}, Nstep={"size": 3, "rew": "rew"})
    with pytest.raises(ValueError, match="done"):
        ReplayBuffer(9, {"rew": {}, "done": {"shape": 2}}, Nstep={"size": 3, "rew": "rew"})


@pytest.mark.parametrize("options", [None, {}])
def test_without_options_n_step_is_disabled(options):
    buffer = ReplayBuffer(9, FIELDS, Nstep=options)
    assert not buffer.is_Nstep() and buffer.add(**steps([0])) == 0


def test_a_window_may_be_longer_than_any_episode() -> None:
    buffer = ReplayBuffer(4, {"rew": {}, "done": {}}, Nstep={"size": 10**9, "rew": "rew", "gamma": 0.5})
    for _ in range(3):
        assert buffer.add(rew=1.0, done=0.0) is None
    buffer.on_episode_end()
    assert buffer.get_all_transitions()["rew"].ravel().tolist() == [1.75, 1.5, 1.0]


LARGE = {"float16": 4e4, ">f2": 4e4, "float32": 3e38, ">f4": 3e38, "float64": 1.5e308, "complex64": 3e38}
WAYS = {  # two or more steps, whose rewards together are too large
    "single steps": (1, lambda buffer, **step: [buffer.add(**step) for _ in range(3)]),
    "batch": (1, lambda buffer, rew, done: buffer.add(rew=[rew] * 3, done=[done] * 3)),
    "end of an episode": (1, lambda buffer, **step: [buffer.add(**step), buffer.add(**step), buffer.on_episode_end()]),
    "environments": (2, lambda buffer, rew, done: buffer.add(rew=[0, rew] * 3, done=[done] * 6)),
    "some environments": (
        2,
        lambda buffer, rew, done: buffer.add(rew=[0, rew] * 3, done=[done] * 6, env_ids=[0, 1] * 3),
    ),
    "ends of episodes": (
        2,
        lambda buffer, rew, done: [
            buffer.add(rew=[0, 0, rew, rew], done=[done] * 4, env_ids=[0, 0, 1, 1]),
            buffer.on_episode_end(),
        ],
    ),
}


def of_rewards(kind, dtype, environments=1, **options):
    fields = {"rew": {"dtype": dtype}, "done": {}}
    return kind(16, fields, Nstep={"size": 3, "rew": "rew", "gamma": 1.0}, n_envs=environments, **options)


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize(("environments", "add"), WAYS.values(), ids=WAYS)
def test_sums_that_become_infinite_cause_one_warning(add, environments, dtype, kind):
    buffer = of_rewards(kind, dtype, environments)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            add(buffer, rew=LARGE[dtype], done=0)
    assert [each.category for each in seen] == [UserWarning]
    assert f"rew: numbers too large for its dtype, {np.dtype(dtype)}, become infinite" in str(seen[0].message)
    assert seen[0].filename == __file__
    assert np.isinf(buffer.get_all_transitions()["rew"]).any()


@pytest.mark.parametrize("kind", [ReplayBuffer, MPPrioritizedReplayBuffer])
@pytest.mark.parametrize(("environments", "add"), WAYS.values(), ids=WAYS)
def test_nothing_is_stored_if_the_warning_of_infinite_sums_is_an_error(add, environments, kind):
    buffer = of_rewards(kind, "float16", environments)
    other = of_rewards(kind, "float16", environments)
    for _ in range(2):
        with warnings.catch_warnings(), pytest.raises(UserWarning, match=r"rew: .*float16, become infinite, got"):
            warnings.simplefilter("error")
            add(buffer, rew=4e4, done=0)
        assert buffer.get_stored_size() == 0
        buffer.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        add(buffer, rew=4e4, done=0)
        add(other, rew=4e4, done=0)
    for name, column in other.get_all_transitions().items():
        assert np.array_equal(buffer.get_all_transitions()[name], column), name
    assert len(buffer._get_pending()["done"]) == len(other._get_pending()["done"])


@pytest.mark.parametrize("objects", [{}, {"info": {"dtype": object}}], ids=["", "beside objects"])
def test_each_field_whose_sums_become_infinite_causes_a_warning(objects):
    fields = {"a": {"dtype": "float16"}, "b": {"dtype": "float16"}, "c": {"dtype": "float16"}, "done": {}, **objects}
    buffer = ReplayBuffer(16, fields, Nstep={"size": 2, "rew": ["a", "b", "c"], "gamma": 1.0})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            buffer.add(a=4e4, b=4e4, c=1.0, done=0, **dict.fromkeys(objects))
    assert sorted(str(each.message).partition(":")[0] for each in seen) == ["a", "b"]


@pytest.mark.parametrize("objects", [{}, {"info": {"dtype": object}}], ids=["", "beside objects"])
def test_large_powers_of_gamma_do_not_reach_beyond_the_end_of_an_episode(objects):
    fields = {"rew": {"dtype": "float64"}, "done": {}, **objects}
    buffer = ReplayBuffer(16, fields, Nstep={"size": 3, "rew": "rew", "gamma": 1e200})
    for done in (0, 1, 0, 0):
        buffer.add(rew=1.0, done=done, **dict.fromkeys(objects))
    buffer.on_episode_end()
    assert buffer.get_all_transitions()["rew"].ravel().tolist() == [1e200, 1.0, 1e200, 1.0]


def test_steps_of_a_refused_batch_are_not_pending():
    buffer = of_rewards(ReplayBuffer, "float16")
    buffer.add(rew=1, done=0)
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="rew"):
        warnings.simplefilter("error")
        buffer.add(rew=[4e4] * 2, done=[0] * 2)
    assert buffer._get_pending()["rew"].ravel().tolist() == [1]


@pytest.mark.parametrize("rewards", [[np.inf] * 4, [1, np.inf, 4e4, 4e4], [6e4, -6e4, 6e4, 0], [np.nan, 4e4, 4e4, 1]])
def test_sums_of_infinite_rewards_cause_no_warning(rewards):
    buffer = of_rewards(ReplayBuffer, "float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(rew=rewards, done=[0, 1, 0, 0])


def test_an_infinite_discount_causes_a_warning():
    fields = {"rew": {}, "done": {}, "discount": {"dtype": np.float16}}
    buffer = ReplayBuffer(8, fields, Nstep={"size": 2, "rew": "rew", "gamma": 300, "discount": "discount"})
    with pytest.warns(UserWarning, match=r"discount: .*float16, become infinite, got 90000\.0"):
        buffer.add(rew=[0, 0], done=[0, 0])


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("dtype", LARGE)
def test_sums_that_become_infinite_cause_a_warning_in_buffers_with_objects(dtype, kind):
    fields = {"rew": {"dtype": dtype}, "done": {}, "info": {"dtype": object}}
    buffer = kind(16, fields, Nstep={"size": 3, "rew": "rew", "gamma": 1.0})
    step = {"rew": LARGE[dtype], "done": 0, "info": None}
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="rew: numbers too large"):
        warnings.simplefilter("error")
        for _ in range(3):
            buffer.add(**step)
    assert buffer.get_stored_size() == 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            buffer.add(**step)
        buffer.on_episode_end()
    assert [str(each.message).partition(":")[0] for each in seen] == ["rew"]
