"""A value that its field's dtype cannot hold is refused or causes one warning; rounding does not count as a change."""

from __future__ import annotations

import datetime
import itertools
import math
import warnings

import numpy as np
import pytest

from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReverseReplayBuffer,
    SelectiveReplayBuffer,
)

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
REALS = ["float16", "float32", "float64", "longdouble"]
DTYPES = ["bool", *INTEGERS, *REALS, "complex64", "complex128", "clongdouble", "object"]
FIELDS = [*DTYPES[:-1], ">i2", ">f4", ">c8"]
NUMBERS = [
    0, 1, 2, -1, 127, 128, 255, 256, -128, -129, 32767, 32768, -32769, 65504, 65519, 65520, 65536, 70000, 2**24 + 1,
    2**31 - 1, 2**31, -(2**31) - 1, 2**32 - 1, 2**33, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64,
    0.25, 0.5, -0.5, 254.5, 1e-8, 3e9, 1e39, -1e39, 1.5e308, math.nan, math.inf, -math.inf, 1 + 2j, 3j,
]  # fmt: skip
Outcome = type[Exception] | type[Warning] | None


def as_given(number: complex, dtype: str) -> np.ndarray | None:
    """Return the number as an array of that dtype, or None if the dtype cannot hold it."""
    if dtype == "object":
        given = np.empty(1, object)
        given[0] = number
        return given
    kind = np.dtype(dtype).kind
    if kind in "biu":
        low, high = (0, 1) if kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return np.array([number], dtype) if isinstance(number, int) and low <= number <= high else None
    if isinstance(number, complex) and kind != "c":
        return None
    with np.errstate(over="ignore"):
        given = np.array([number]).astype(dtype)
    same = isinstance(number, complex) or np.longdouble(given[0].real) == np.longdouble(number)
    return given if same or number != number else None


def expected(number: complex, dtype: np.dtype) -> Outcome:
    if dtype.kind == "c":
        part = "f4" if dtype.itemsize == 8 else "f8" if dtype.itemsize == 16 else "longdouble"
        outcomes = {expected(each, np.dtype(part)) for each in (number.real, number.imag)}
        return UserWarning if UserWarning in outcomes else None
    if isinstance(number, complex):
        return UserWarning if number.imag else expected(number.real, dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return UserWarning if math.isfinite(number) and np.isinf(np.longdouble(number).astype(dtype)) else None
    if not math.isfinite(number):
        return ValueError
    if dtype.kind == "b":
        return None if number in (0, 1) else UserWarning
    if not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        return OverflowError
    return None if number == int(number) else UserWarning


def converted(number: complex, dtype: np.dtype) -> np.ndarray:
    """Return the value that the field then contains."""
    if dtype.kind == "b":
        return np.array(bool(number))
    if dtype.kind in "iu":
        return np.array(int(number.real), dtype)
    with np.errstate(over="ignore"):
        return (
            np.array(number if dtype.kind == "c" else number.real)
            .astype(np.clongdouble if dtype.kind == "c" else np.longdouble)
            .astype(dtype)
        )


def outcome_of(buffer, value) -> tuple[Outcome, str]:
    """Return what `add` does with a value, and its message."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            buffer.add(x=value)
        except (ValueError, OverflowError, TypeError) as error:
            assert not seen
            return type(error), str(error)
    assert len(seen) <= 1, [str(each.message) for each in seen]
    return (seen[0].category, str(seen[0].message)) if seen else (None, "")


@pytest.mark.parametrize(("given", "field"), list(itertools.product(DTYPES, FIELDS)))
def test_every_pair_of_dtypes_warns_or_refuses_as_documented(given, field):
    dtype, tried = np.dtype(field), 0
    for number in NUMBERS:
        value = as_given(number, given)
        if value is None or (given == "object" and isinstance(number, complex) and dtype.kind != "c"):
            continue
        buffer = ReplayBuffer(4, {"x": {"dtype": dtype}})
        wanted = None if value.dtype == dtype else expected(number, dtype)
        outcome, says = outcome_of(buffer, value)
        assert outcome is wanted, f"{number}: {says}"
        assert wanted is None or (says.startswith("x") and str(dtype) in says), says
        assert wanted is None or "complex" in str(value.dtype) or f"got {value.item()!s}" in says, says
        if outcome not in (None, UserWarning):
            assert buffer.get_stored_size() == 0
            continue
        stored = buffer.get_all_transitions()["x"][0, 0]
        number = complex(number) if given == "object" and dtype.kind == "c" else number  # as NumPy does for objects
        assert np.array_equal(stored, converted(number, dtype), equal_nan=True), f"{number}: {stored}"
        assert outcome_of(buffer, value)[0] is None, "a second warning for the same field"
        tried += 1
    assert tried


FORMS = {
    "array": lambda values: values,
    "many rows": lambda values: np.tile(values, 50),
    "not contiguous": lambda values: np.repeat(values, 2)[::2],
    "other byte order": lambda values: values.astype(values.dtype.newbyteorder()),
    "not aligned": lambda values: np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(values.dtype),
    "read-only": lambda values: np.frombuffer(values.tobytes(), values.dtype),
    "subclass": lambda values: values.view(np.ma.MaskedArray),
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(values.tolist()),
    "list of NumPy's numbers": lambda values: list(values),
    "list of arrays": lambda values: [np.array(value) for value in values],
    "objects": lambda values: values.astype(object),
    "array-like": lambda values: memoryview(values),
}
CASES = [
    ("float64", "uint8", [0.25, 0.5], UserWarning),
    ("float64", "uint8", [0.0, 255.0], None),
    ("float64", "uint8", [0.0, 256.0], OverflowError),
    ("float32", "uint8", [0.0, -1.0], OverflowError),
    ("float64", "int32", [0.0, np.nan], ValueError),
    ("float64", "int32", [0.0, np.inf], ValueError),
    ("int64", "uint8", [0, -1], OverflowError),
    ("int64", "int32", [0, 2**33], OverflowError),
    ("int64", "float32", [0, 2**33], None),
    ("float64", "float32", [0.1, 1e39], UserWarning),
    ("float64", "float32", [0.1, np.inf], None),
    ("float64", "float16", [0.1, 70000.0], UserWarning),
    ("float64", "bool", [0.0, 0.5], UserWarning),
    ("int64", "bool", [0, 2], UserWarning),
    ("bool", "float32", [False, True], None),
    ("complex128", "float32", [0, 1j], UserWarning),
    ("complex128", "float32", [0, 1], None),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("given", "field", "values", "wanted"), CASES, ids=str)
def test_every_form_of_a_value_is_checked(form, given, field, values, wanted):
    if given == "complex128" and ("list" in form or form in ("tuple", "objects")):
        wanted = TypeError  # the error of float(1j)
    buffer = ReplayBuffer(200, {"x": {"dtype": field}})
    with np.errstate(over="ignore", invalid="ignore"):
        same = np.array(values, given).real.astype(field)
    outcome, says = outcome_of(buffer, FORMS[form](np.array(values, given)))
    assert outcome is wanted, says
    rows = buffer.get_all_transitions()["x"].ravel()
    refused = wanted in (OverflowError, ValueError, TypeError)
    assert len(rows) == (0 if refused else 100 if form == "many rows" else 2)
    assert np.array_equal(rows, np.resize(same, len(rows)))


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("int16", 0.5, UserWarning),
        ("int16", np.float64(0.5), UserWarning),
        ("uint8", -1, OverflowError),
        ("uint8", np.int64(-1), OverflowError),
        ("uint8", -1.0, OverflowError),
        ("int32", 3e9, OverflowError),
        ("int32", math.nan, ValueError),
        ("int64", 2**63, OverflowError),
        ("int64", 2**70, OverflowError),
        ("uint64", 2**64 - 1, None),
        ("float32", 1e39, UserWarning),
        ("float32", 2**200, UserWarning),
        ("float32", 10**400, OverflowError),
        ("float32", math.inf, None),
        ("float32", math.nan, None),
        ("float32", True, None),
        ("float64", 0.1, None),
        ("bool", 2, UserWarning),
        ("bool", np.True_, None),
        ("float32", None, None),  # stored as NaN, as by NumPy
        ("int32", None, ValueError),
        ("float32", 1 + 0j, TypeError),
        ("float32", np.complex64(1), None),
        ("int32", "7", None),
        ("uint8", "300", OverflowError),
        ("float32", "1e39", UserWarning),
        ("int16", np.array(["0.5"]), ValueError),
        ("int32", [np.int64(2**53 + 1), np.uint64(1)], OverflowError),
        ("int64", [np.int64(2**53 + 1), np.uint64(1)], None),
    ],
)
def test_single_and_unusual_numbers_are_checked(field, value, wanted):
    buffer = ReplayBuffer(4, {"x": {"dtype": field}})
    outcome, says = outcome_of(buffer, value)
    assert outcome is wanted, says
    assert says == "" or says.startswith("x")
    if field == "int64" and wanted is None:
        assert buffer.get_all_transitions()["x"].ravel().tolist() == [2**53 + 1, 1]


def test_the_message_says_what_to_do():
    buffer = ReplayBuffer(
        4, {"obs": {"dtype": np.uint8, "shape": 2}, "small": {"dtype": np.float16}, "done": {"dtype": bool}}
    )
    fine = {"obs": [0, 1], "small": 0.0, "done": 0.0}
    with pytest.warns(UserWarning, match=r"obs: fractions are cut off, since its dtype is uint8, got 0.5: scale"):
        buffer.add(**fine | {"obs": np.array([0.0, 0.5])})
    with pytest.warns(UserWarning, match=r"small: numbers too large for its dtype, float16, become infinite, got 7"):
        buffer.add(**fine | {"small": 70000.0})
    with pytest.warns(UserWarning, match=r"done: numbers other than 0 and 1 become True, .* got 0.5: give"):
        buffer.add(**fine | {"done": 0.5})
    with pytest.raises(OverflowError, match=r"obs must be from 0 to 255, since its dtype is uint8, got -1$"):
        buffer.add(**fine | {"obs": [0, -1]})
    with pytest.raises(ValueError, match=r"obs must be finite, since its dtype is uint8, got nan$"):
        buffer.add(**fine | {"obs": [0, math.nan]})
    assert buffer.get_stored_size() == 3


FRACTIONS = np.array([[0.25, 0.5]])
X = {"shape": 2, "dtype": np.uint8}
KINDS = {
    "plain": lambda: ReplayBuffer(8, {"x": X}),
    "prioritized": lambda: PrioritizedReplayBuffer(8, {"x": X}),
    "shared": lambda: MPReplayBuffer(8, {"x": X}),
    "shared, prioritized": lambda: MPPrioritizedReplayBuffer(8, {"x": X}),
    "reverse": lambda: ReverseReplayBuffer(8, {"x": X}),
    "n-step": lambda: ReplayBuffer(8, {"x": X, "done": {}}, Nstep={"size": 2}),
    "n-step, shared": lambda: MPReplayBuffer(8, {"x": X, "done": {}}, Nstep={"size": 2}),
    "frames": lambda: ReplayBuffer(8, {"x": X}, stack_compress="x"),
    "next": lambda: ReplayBuffer(8, {"x": X}, next_of="x"),
    "environments": lambda: ReplayBuffer(8, {"x": X}, n_envs=2),
    "beside objects": lambda: ReplayBuffer(8, {"x": X, "o": {"dtype": object}}),
    "n-step beside objects": lambda: ReplayBuffer(8, {"x": X, "o": {"dtype": object}, "done": {}}, Nstep={"size": 2}),
    "hindsight": lambda: HindsightReplayBuffer(
        80, {"x": X, "act": {}, "next_obs": {"shape": 2}}, 20, reward_func=lambda *_: 0.0, state="x"
    ),
    "files": lambda folder: ReplayBuffer(8, {"x": X}, mmap_prefix=str(folder / "rows")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_buffer_warns_once_and_refuses(kind, tmp_path):
    buffer = KINDS[kind](tmp_path) if kind == "files" else KINDS[kind]()
    others = {"done": 0.0, "o": None, "act": 0.0, "next_obs": np.zeros(2), "next_x": np.zeros(2, np.uint8)}

    def add(value, rows=2):
        known = {"n-step": ["done"], "n-step, shared": ["done"], "beside objects": ["o"], "next": ["next_x"]}
        known |= {"n-step beside objects": ["o", "done"], "hindsight": ["act", "next_obs"]}
        more = {name: np.repeat(np.array(others[name])[None], rows, 0) for name in known.get(kind, [])}
        buffer.add(x=np.repeat(value, rows, 0), **more)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad, error in ((FRACTIONS - 1, OverflowError), (FRACTIONS * np.nan, ValueError), (FRACTIONS, UserWarning)):
            with pytest.raises(error, match=r"^x"):  # two are refused; the third is a warning as an error
                add(bad)
            assert buffer.get_stored_size() == 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for rows in (2, 4, 6):
            add(FRACTIONS, rows)
    assert [str(each.message).split(",")[0] for each in seen] == ["x: fractions are cut off"]
    with pytest.raises(OverflowError, match="x must be from 0 to 255"):
        add(FRACTIONS + 300)


def test_a_selective_buffer_refuses_numbers_that_do_not_fit():
    buffer = SelectiveReplayBuffer(4, is_discrete_action=True)
    with pytest.warns(UserWarning, match="act: fractions are cut off"):
        buffer.add(0.0, 0.5, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="act must be finite"):
        buffer.add(0.0, np.nan, 0.0, 0.0, 0.0)
    assert buffer.get_stored_size() == 1


def test_a_warning_of_one_field_does_not_silence_another():
    buffer = ReplayBuffer(4, {"a": {"dtype": int}, "b": {"dtype": int}})
    with pytest.warns(UserWarning, match="a: fractions"):
        buffer.add(a=0.5, b=0.0)
    with pytest.warns(UserWarning, match="b: fractions"):
        buffer.add(a=0.5, b=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(a=0.5, b=0.5)
    assert buffer.get_stored_size() == 3


def test_priorities_are_not_changed_to_fit():
    """Priorities are floats in every buffer, and have separate checks."""
    buffer = PrioritizedReplayBuffer(4, {"x": {"dtype": np.uint8}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(x=1, priorities=0.5)
    assert buffer.get_max_priority() == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_of_a_usual_environment_cause_no_warning(dtype):
    """A Gymnasium environment returns float observations, float64 rewards, and bools for the ends of episodes."""
    fields = {"obs": {"shape": 4}, "act": {"dtype": np.int32}, "rew": {}, "done": {}}
    buffer = ReplayBuffer(8, fields)
    obs = np.linspace(-4.8, 3.4e38, 4).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(obs=obs, act=np.int64(1), rew=1.0, done=False)
        buffer.add(obs=obs[None], act=1, rew=np.float64(0.1), done=np.False_)
        buffer.add(obs=obs[None], act=np.array([1]), rew=np.array([0.1]), done=np.array([True]))
    assert np.array_equal(buffer.get_all_transitions()["obs"], np.tile(obs.astype(np.float32), (3, 1)))


STRUCT = np.dtype([("a", "u1"), ("b", "f4")])
NESTED = np.dtype([("a", "u1"), ("b", [("c", "i1", 2), ("d", "U2")])])
WIDE_STRUCT = [("a", "i4"), ("b", "f8")]
TOO_LONG = (OverflowError, ValueError)  # depending on NumPy's version
TIMES = np.array(["2024-01-01T23:59:59"], "M8[ns]")
NO_TIME = np.array(["NaT"], "M8[s]")


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("U3", "abcdef", ValueError),
        ("S3", b"abcdef", ValueError),
        ("U3", np.str_("abcd"), ValueError),
        ("U3", b"abcd", ValueError),
        ("U3", ["abc", "abcd"], ValueError),
        ("U3", np.array(["abc", "abcd"], object), ValueError),
        ("U3", 12345, ValueError),
        ("U3", np.array([1, 1234]), ValueError),
        ("U3", 1.25, ValueError),
        ("U3", True, ValueError),
        ("V4", np.array([b"12345678"], "V8"), ValueError),
        ("V4", b"12345", ValueError),
        ("V4", 12, TypeError),
        ("V4", ["12"], TypeError),
        ("U3", np.matrix([["a"], ["abcd"]]), ValueError),
        ("V4", [b"1", b"12345"], ValueError),
        ("V4", np.array([-1]), ValueError),
        ("int32", TIMES, OverflowError),
        ("uint8", np.array([300], "m8[s]"), OverflowError),
        ("uint8", np.array([-1], "m8[s]"), OverflowError),
        ("bool", np.array([2], "m8[s]"), UserWarning),
        *((dtype, NO_TIME, ValueError) for dtype in ("bool", "int64", "float16", "float32", "complex64", "longdouble")),
        ("m8[s]", np.timedelta64(1999, "ms"), ValueError),
        ("m8[s]", np.array([1999], "m8[ms]"), ValueError),
        ("m8[s]", [datetime.timedelta(seconds=1.5), None], ValueError),
        ("m8[s]", np.array([datetime.timedelta(seconds=1.5)]), ValueError),
        ("m8[ns]", np.array([2**50], "m8[s]"), TOO_LONG),
        ("m8[s]", np.array([1.7]), UserWarning),
        ("m8[s]", np.array([np.inf]), ValueError),
        ("m8[s]", np.array([2**63], "u8"), OverflowError),
        ("M8[s]", TIMES + np.timedelta64(5, "ms"), ValueError),
        ("M8[D]", TIMES, ValueError),
        ("M8[s]", "2024-01-01T00:00:00.5", ValueError),
        ("M8[s]", np.array(["2024-01-01T00:00:00.5"]), ValueError),
        ("M8[s]", datetime.datetime(2024, 1, 1, 0, 0, 0, 5), ValueError),
        (STRUCT, np.array([(300, 1.5)], WIDE_STRUCT), OverflowError),
        (STRUCT, np.array([(300, 1.5)], WIDE_STRUCT)[0], OverflowError),
        (STRUCT, (300, 1.5), OverflowError),
        (STRUCT, [(3, 1.5), (-1, 1.5)], OverflowError),
        (STRUCT, np.array([5, 300]), OverflowError),
        (STRUCT, (np.nan, 1.5), ValueError),
        (STRUCT, (0.5, 1.5), UserWarning),
        (STRUCT, np.array([(0.5, 1.5)], "f4,f4"), UserWarning),
        (NESTED, (5, ([1, 200], "ab")), OverflowError),
        (NESTED, (5, ([1, 2], "abc")), ValueError),
        ([("a", "M8[s]")], np.array([(TIMES[0] + 1,)], [("a", "M8[ns]")]), ValueError),
        ("uint8", np.array([(300,)], [("a", "i4")]), OverflowError),
        ("uint8", np.array([b"1234"], "V4"), OverflowError),
    ],
    ids=str,
)
def test_values_that_are_not_numbers_are_not_changed_to_fit(field, value, wanted):
    buffer = ReplayBuffer(4, {"x": {"dtype": field}})
    outcome, says = outcome_of(buffer, value)
    assert outcome in (wanted if isinstance(wanted, tuple) else (wanted,)), says
    assert says.startswith("x"), says
    assert buffer.get_stored_size() == (wanted is UserWarning)


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("U3", "ab", "ab"),
        ("U3", 12, "12"),
        ("U3", np.array(["ab"], "U9"), "ab"),
        ("U3", b"abc", "abc"),
        (">U3", "abc", "abc"),
        ("S3", "abc", b"abc"),
        ("V4", b"12", b"12\0\0"),
        ("V4", [b"12", b"1234"], b"12\0\0"),
        ("V4", np.array([b"1234"], "V8"), b"1234"),
        ("int64", np.array([300], "m8[s]"), 300),
        ("float32", np.array([300], "m8[s]"), 300),
        ("complex64", np.array([300], "m8[s]"), 300),
        ("m8[s]", np.array([2000], "m8[ms]"), np.timedelta64(2, "s")),
        (">m8[s]", np.array([2000], "m8[ms]"), np.timedelta64(2, "s")),
        ("m8[s]", np.array([2.0]), np.timedelta64(2, "s")),
        (">m8[s]", np.array([2.0]), np.timedelta64(2, "s")),
        ("m8[s]", 2, np.timedelta64(2, "s")),
        ("m8[s]", [datetime.timedelta(seconds=2), None], np.timedelta64(2, "s")),
        ("m8[ms]", np.array([2], "m8[s]"), np.timedelta64(2, "s")),
        ("M8[s]", "2024-01-01", np.datetime64("2024-01-01", "s")),
        ("M8[s]", TIMES, TIMES[0]),
        (STRUCT, (3, 0.1), np.array((3, 0.1), STRUCT)),
        (STRUCT, [(3, 0.1), (4, 0.1)], np.array((3, 0.1), STRUCT)),
        (STRUCT, np.array([(3, 0.1)], [("c", "i4"), ("d", "f8")]), np.array((3, 0.1), STRUCT)),
        (STRUCT, np.array([(3, 0.1)] * 4, STRUCT)[::2], np.array((3, 0.1), STRUCT)),
        (STRUCT, 3, np.array((3, 3), STRUCT)),
        (NESTED, (5, ([1, 2], "ab")), np.array((5, ([1, 2], "ab")), NESTED)),
        ("uint8", np.array([(30,)], [("a", "i4")]), 30),
        ("uint8", np.array([b"12"], "V2"), 12),
    ],
    ids=str,
)
def test_values_that_are_not_numbers_are_accepted_if_they_fit(field, value, stored):
    buffer = ReplayBuffer(4, {"x": {"dtype": field}})
    assert outcome_of(buffer, value) == (None, "")
    kept = buffer.get_all_transitions()["x"]
    assert kept.dtype == field and repr(kept[0, 0].tolist()) == repr(np.asarray(stored).astype(field).tolist())


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]"])
def test_a_missing_time_remains_a_missing_time(dtype):
    buffer = ReplayBuffer(4, {"x": {"dtype": dtype}})
    assert outcome_of(buffer, np.array(["NaT"], dtype.replace("s", "ms"))) == (None, "")
    assert np.isnat(buffer.get_all_transitions()["x"]).all()


@pytest.mark.parametrize("kind", ["plain", "prioritized", "shared", "shared, prioritized", "reverse", "environments"])
def test_every_kind_of_buffer_refuses_longer_text(kind, monkeypatch):
    monkeypatch.setitem(X, "dtype", "U3")
    buffer = KINDS[kind]()
    buffer.add(x=[["abc", "ab"]] * 2)
    with pytest.raises(ValueError, match=r"x must fit its dtype, <U3, without loss, got abcd$"):
        buffer.add(x=[["abc", "abcd"]] * 2)
    assert buffer.get_all_transitions()["x"].tolist() == [["abc", "ab"]] * 2


def test_a_changed_struct_causes_one_warning():
    buffer = ReplayBuffer(4, {"x": {"dtype": [("a", int), ("b", int)]}})
    with pytest.warns(UserWarning, match=r"x: fractions are cut off, since its dtype is int64, got 0\.5") as seen:
        buffer.add(x=(0.5, 0.5))
    assert len(seen) == 1
    assert outcome_of(buffer, (0.5, 0.5)) == (None, "")


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        *(("int4", number, OverflowError) for number in (300, -9, 8, np.array([255], "u1"), np.array([8.0]), 2**62)),
        *(("uint4", number, OverflowError) for number in (-1, 16, np.array([-1], "i1"), np.array([2.0**40]))),
        *((dtype, number, ValueError) for dtype in ("int4", "uint4") for number in (np.nan, -np.inf)),
        *((dtype, np.array([0.5]), UserWarning) for dtype in ("int4", "uint4")),
        *((dtype, number, None) for dtype in ("int4", "uint4") for number in (7, 0.0, True, np.array([7], "u8"))),
        ("int4", -8, None),
        ("uint4", 15, None),
        ("bfloat16", np.array([1 + 1j]), UserWarning),
        ("bfloat16", np.array([1 + 0j]), None),
        ("bfloat16", 3.4e38, UserWarning),
        *((dtype, np.array([1e6], kind), UserWarning) for dtype in ("e4m3fn", "e5m2") for kind in ("f4", "f8", "i8")),
        ("e4m3fn", np.inf, UserWarning),  # e4m3fn has no infinity
        *((dtype, np.nan, None) for dtype in ("bfloat16", "e4m3fn", "e5m2")),
        *((dtype, np.inf, None) for dtype in ("bfloat16", "e5m2")),
        *((dtype, 0.1, None) for dtype in ("bfloat16", "e4m3fn", "e5m2", "e4m3b11fnuz")),
        *((dtype, 1e-20, None) for dtype in ("bfloat16", "e4m3fn", "e5m2", "e4m3b11fnuz")),
        ("bfloat16", np.array([257, 2**60]), None),
        ("bfloat16", np.array([0.0, -0.1, 3e38, 1e-45], "f4"), None),
    ],
    ids=str,
)
def test_types_of_ml_dtypes_are_checked_as_those_of_numpy(field, value, wanted):
    types = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(types, field if "e" not in field[:1] else f"float8_{field}"))
    buffer = ReplayBuffer(4, {"x": {"dtype": dtype}})
    outcome, says = outcome_of(buffer, value)
    assert outcome is wanted, says
    assert wanted is None or (says.startswith("x") and str(dtype) in says), says
    if wanted is None:
        assert buffer.get_all_transitions()["x"].dtype == dtype
    if wanted is UserWarning:
        assert outcome_of(buffer, value)[0] is None, "a second warning for the same field"
