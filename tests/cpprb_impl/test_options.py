"""Each constructor accepts every option of cpprb's classes, and warns of options without effect."""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest

import cpprb_impl

cpprb = pytest.importorskip("cpprb")

FIELDS = {"obs": {"shape": 2}, "act": {}, "rew": {}, "next_obs": {"shape": 2}, "done": {}}
GOALS = {name: FIELDS[name] for name in ("obs", "act", "next_obs")}

MAKERS = {
    "ReplayBuffer": lambda m, **o: m.ReplayBuffer(**{"size": 8, "env_dict": FIELDS} | o),
    "PrioritizedReplayBuffer": lambda m, **o: m.PrioritizedReplayBuffer(**{"size": 8, "env_dict": FIELDS} | o),
    "MPReplayBuffer": lambda m, **o: m.MPReplayBuffer(**{"size": 8, "env_dict": FIELDS} | o),
    "MPPrioritizedReplayBuffer": lambda m, **o: m.MPPrioritizedReplayBuffer(**{"size": 8, "env_dict": FIELDS} | o),
    "ReverseReplayBuffer": lambda m, **o: m.ReverseReplayBuffer(**{"size": 8, "env_dict": FIELDS} | o),
    "SelectiveReplayBuffer": lambda m, **o: m.SelectiveReplayBuffer(**{"episode_len": 8} | o),
    "HindsightReplayBuffer": lambda m, **o: m.HindsightReplayBuffer(**HINDSIGHT | o),
    "HindsightReplayBuffer, uniform": lambda m, **o: m.HindsightReplayBuffer(**HINDSIGHT | {"prioritized": False} | o),
    "create_buffer": lambda m, **o: m.create_buffer(**{"size": 8, "env_dict": FIELDS} | o),
    "create_buffer, prioritized": lambda m, **o: m.create_buffer(
        **{"size": 8, "env_dict": FIELDS, "prioritized": True} | o
    ),
    "LaBERmean": lambda m, **o: m.LaBERmean(**{"batch_size": 2} | o),
}
HINDSIGHT = {"size": 8, "env_dict": GOALS, "max_episode_len": 4, "reward_func": len}

# A value of each option that the class which introduces the option accepts.
VALUES = {
    "size": 8,
    "env_dict": GOALS,
    "next_of": None,
    "stack_compress": None,
    "default_dtype": "float32",
    "Nstep": None,
    "mmap_prefix": None,
    "alpha": 0.5,
    "eps": 1e-3,
    "check_for_update": True,
    "stride": 2,
    "logger": None,
    "ctx": None,
    "backend": "sharedctypes",
    "max_episode_len": 4,
    "reward_func": len,
    "goal_func": None,
    "goal_shape": 2,
    "state": "obs",
    "action": "act",
    "next_state": "next_obs",
    "strategy": "final",
    "additional_goals": 2,
    "prioritized": False,
    "episode_len": 8,
    "obs_dim": 2,
    "act_dim": 2,
    "Nepisodes": 2,
    "rew_dim": 1,
    "is_discrete_action": True,
    "obs_shape": (2,),
}
CASES = [(maker, option) for maker in MAKERS for option in VALUES]
TAKEN = {
    "HindsightReplayBuffer": ("HindsightReplayBuffer", "PrioritizedReplayBuffer"),
    "HindsightReplayBuffer, uniform": ("HindsightReplayBuffer", "ReplayBuffer"),
    "ReverseReplayBuffer": ("ReverseReplayBuffer", "ReplayBuffer"),
    "create_buffer": ("create_buffer", "PrioritizedReplayBuffer"),  # its docstring lists both kinds of options
    "create_buffer, prioritized": ("create_buffer", "PrioritizedReplayBuffer"),
}


def options_of(kind) -> set[str]:
    """Return the options of a class of cpprb. Compiled classes have their signature only in the docstring."""
    first = kind.__doc__.strip().partition("\n")[0]
    text = first if first.startswith(kind.__name__) else f"{kind.__name__}{inspect.signature(kind)}"
    return set(re.findall(r"[(,] ?\*?(\w+)", text)) - {"kwargs"}


def has_effect(maker, option) -> bool:
    """Return whether our class has the option as a parameter of its own."""
    takes = TAKEN.get(maker, (maker,))
    return any(option in inspect.signature(getattr(cpprb_impl, name)).parameters for name in takes)


def made(module, maker, option):
    """Return the error's type or None, and the warnings that name the option."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            MAKERS[maker](module, **{option: VALUES[option]})
        except (TypeError, KeyError, ValueError) as error:
            return type(error), []
    return None, [each for each in seen if re.search(rf"\b{option}\b", str(each.message))]


@pytest.mark.parametrize("name", [name for name in cpprb.__all__ if inspect.isclass(getattr(cpprb, name))])
def test_the_table_has_every_option_of_cpprb(name):
    found = options_of(getattr(cpprb, name))
    assert len(found) > 2 and found <= VALUES.keys() | {"batch_size", "m"}


@pytest.mark.parametrize(("maker", "option"), CASES)
def test_an_option_that_cpprb_accepts_is_accepted(maker, option):
    """Published programs pass one dict of options to several classes. One warning names the options without effect."""
    theirs, _ = made(cpprb, maker, option)
    ours, warned = made(cpprb_impl, maker, option)
    assert theirs is not None or ours is None
    if ours is None:
        assert len(warned) == (not has_effect(maker, option))
        assert all(each.filename == __file__ for each in warned)


def test_one_warning_names_all_ignored_options():
    with pytest.warns(UserWarning, match="ignored") as seen:
        cpprb_impl.ReplayBuffer(8, FIELDS, alpha=0.5, ctx=None)
    text = "ReplayBuffer has no options alpha, ctx, which belong to other classes; they are ignored"
    assert [str(each.message) for each in seen] == [text]
    with pytest.warns(UserWarning, match="no option alpha, which belongs to a different class; it is ignored"):
        cpprb_impl.ReplayBuffer(8, FIELDS, alpha=0.5)


@pytest.mark.parametrize("maker", MAKERS)
def test_an_unknown_option_is_refused(maker):
    with pytest.raises(TypeError, match="unexpected keyword argument 'aplha'"):
        MAKERS[maker](cpprb_impl, aplha=0.5)


def test_the_warning_refers_to_the_line_outside_the_package():
    class Mine(cpprb_impl.ReverseReplayBuffer):
        def __init__(self, **options):
            super().__init__(8, FIELDS, **options)

    with pytest.warns(UserWarning, match="Mine has no option alpha") as seen:
        Mine(alpha=0.5)
    assert seen[0].filename == __file__


FLAGS = [
    *((maker, "check_for_update") for maker in ("PrioritizedReplayBuffer", "create_buffer, prioritized")),
    *(("HindsightReplayBuffer", name) for name in ("prioritized", "check_for_update")),
    ("create_buffer", "prioritized"),
    ("SelectiveReplayBuffer", "is_discrete_action"),
    *((maker, "prefault") for maker in ("MPReplayBuffer", "MPPrioritizedReplayBuffer")),
]


@pytest.mark.parametrize("text", ["no", "", b"no"])
@pytest.mark.parametrize(("maker", "name"), FLAGS)
def test_a_string_is_refused_as_a_flag(maker, name, text):
    """cpprb takes the string "no" as True."""
    with pytest.raises(TypeError, match=f"{name} must be a bool, got {text!r}"):
        MAKERS[maker](cpprb_impl, **{name: text})


@pytest.mark.parametrize("value", [0, 1, None, 2.0, np.True_])
@pytest.mark.parametrize(("maker", "name"), FLAGS)
def test_other_values_are_flags_as_in_cpprb(maker, name, value):
    MAKERS[maker](cpprb_impl, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("reward_func", None), ("reward_func", "len"), ("goal_func", 3), ("goal_func", "len")]
)
def test_functions_must_be_callable(name, value):
    with pytest.raises(TypeError, match=f"{name} must be callable, got {value!r}"):
        MAKERS["HindsightReplayBuffer"](cpprb_impl, **{name: value})
    buffer = MAKERS["HindsightReplayBuffer"](cpprb_impl)
    with pytest.raises(TypeError, match=f"{name} must be callable, got {value!r}"):
        setattr(buffer, name, value)
    assert buffer.reward_func is len


@pytest.mark.parametrize("size", [2.5, "2", None, [2]], ids=repr)
@pytest.mark.parametrize("maker", [name for name in MAKERS if "LaBER" not in name])
def test_an_error_about_the_batch_size_names_it(maker, size):
    buffer = MAKERS[maker](cpprb_impl)
    with pytest.raises(TypeError, match=f"batch_size must be an int, got {re.escape(repr(size))}"):
        buffer.sample(size)


@pytest.mark.parametrize("beta", ["1", None, [0.4], 1j], ids=repr)
@pytest.mark.parametrize("maker", [name for name in MAKERS if "rioritized" in name])
def test_an_error_about_beta_names_it(maker, beta):
    with pytest.raises(TypeError, match=f"beta must be a number, got {re.escape(repr(beta))}"):
        MAKERS[maker](cpprb_impl).sample(1, beta=beta)


@pytest.mark.parametrize("kind", ["ReplayBuffer", "PrioritizedReplayBuffer", "MPReplayBuffer"])
def test_the_error_names_a_column_missing_in_out(kind):
    buffer = getattr(cpprb_impl, kind)(8, {"x": {}})
    buffer.add(x=1)
    with pytest.raises(KeyError, match="out must have an array or tensor for each column, but has none for 'x'"):
        buffer.sample(2, out={"y": np.zeros((2, 1), "f4")})
