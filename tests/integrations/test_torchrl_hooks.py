"""Methods, attributes and options of TorchRL's buffers have their effect in ours, or an error names them."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage
from torchrl.data import TensorDictPrioritizedReplayBuffer as TheirPrioritized
from torchrl.data import TensorDictReplayBuffer as Theirs

from cpprb_impl.integrations.torchrl_names import METHODS, OPTIONS
from cpprb_impl.torchrl import TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

THEIRS = {"uniform": Theirs, "prioritized": TheirPrioritized}
OURS = {"uniform": TensorDictReplayBuffer, "prioritized": TensorDictPrioritizedReplayBuffer}
NEEDED = {"uniform": {}, "prioritized": {"alpha": 0.6, "beta": 0.4}}


def rows(*size):
    return TensorDict({"o": torch.zeros(*size, 3), "td_error": torch.ones(size)}, size)


def sampled(buffer):
    buffer.last = buffer.sample(4)


def updated(buffer):
    buffer.update_tensordict_priority(buffer.last.set("td_error", torch.ones(4)))


CALLS = {
    "extend": lambda buffer: buffer.extend(rows(6)),
    "add": lambda buffer: buffer.add(rows()),
    "sample": sampled,
    "update_tensordict_priority": updated,
    "update_priority": lambda buffer: buffer.update_priority(torch.arange(2), torch.ones(2)),
}


def methods_of(kind) -> list[str]:
    return [n for n in dir(kind) if not n.startswith("__") and inspect.isfunction(inspect.getattr_static(kind, n))]


def calls_that_reach(kind, name, **options) -> set[str]:
    """Return which of CALLS call a subclass's method `name`. Raises what the constructor raises."""
    seen: list[str] = []

    def method(self, *args, **more):
        seen.append(name)
        return getattr(super(spy, self), name)(*args, **more)

    spy = type("Spy", (kind,), {name: method})
    buffer = spy(**options)
    reached = set()
    for call, do in CALLS.items():
        seen.clear()
        do(buffer)
        if seen and call != name:
            reached.add(call)
    return reached


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in THEIRS for name in methods_of(THEIRS[kind])])
def test_a_method_that_torchrl_calls_is_called_or_refused(kind, name):
    theirs = calls_that_reach(THEIRS[kind], name, storage=LazyTensorStorage(20), **NEEDED[kind])
    if not theirs and not hasattr(OURS[kind], name):
        return
    try:
        ours = calls_that_reach(OURS[kind], name, max_size=20, **NEEDED[kind])
    except TypeError as error:
        assert f"Spy must not override {name}, which is not called here: override " in str(error)
        return
    # A user who overrides only `extend` means all rows, although TorchRL's `add` does not call it.
    assert ours == (theirs | {"add"} if name == "extend" else theirs)


def test_the_comparison_finds_the_overridden_methods():
    found = calls_that_reach(TheirPrioritized, "update_priority", storage=LazyTensorStorage(20), alpha=0.6, beta=0.4)
    assert found == {"add", "extend", "update_tensordict_priority"}


class Shifted(TensorDictReplayBuffer):
    def extend(self, data):
        return super().extend(data.apply(lambda values: values + 100))


class ShiftedTwice(Shifted):
    def add(self, data):
        return super().add(data.apply(lambda values: values + 1))


@pytest.mark.parametrize(("kind", "stored"), [(Shifted, 100), (ShiftedTwice, 1)])
def test_add_goes_through_an_overridden_extend_unless_it_is_overridden_too(kind, stored):
    buffer = kind(4, batch_size=2)
    buffer.add(TensorDict({"o": torch.zeros(1)}, []))
    assert (buffer.sample()["o"] == stored).all()


class Squared(TensorDictPrioritizedReplayBuffer):
    """Replaces each priority by 0 or 1."""

    def update_priority(self, index, priority):
        super().update_priority(index, (torch.as_tensor(priority) > 1).float())


@pytest.mark.parametrize("call", ["extend", "add", "update"])
def test_priorities_are_those_that_the_override_passes_on(call):
    buffer = Squared(4, alpha=1.0, beta=0.4, eps=0.0)
    data = TensorDict({"o": torch.zeros(4), "td_error": torch.tensor([0.5, 2.0, 9.0, 0.7])}, [4])
    if call == "add":
        for row in data.unbind(0):
            buffer.add(row.clone())
    else:
        buffer.extend(data if call == "extend" else data.exclude("td_error"))
    if call == "update":
        buffer.update_tensordict_priority(data.set("index", torch.arange(4)))
    batch = buffer.sample(1000)
    assert set(batch["index"].tolist()) == {1, 2}
    assert (batch["index"] == 1).sum() == pytest.approx(500, abs=100)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_call_the_overridden_method(copied):
    buffer = copied(Squared(4, alpha=1.0, beta=0.4, eps=0.0))
    buffer.extend(TensorDict({"o": torch.zeros(2), "td_error": torch.tensor([0.5, 2.0])}, [2]))
    assert set(buffer.sample(50)["index"].tolist()) == {1}


def test_methods_may_be_assigned():
    seen = []
    buffer = TensorDictPrioritizedReplayBuffer(20, alpha=0.6, beta=0.4)
    buffer.update_priority = lambda index, priority: seen.append(len(index))
    buffer.extend(rows(6))
    assert seen == [6]


def attributes_of(kind) -> list[str]:
    """Return the public attributes and properties of TorchRL's buffer."""
    buffer = THEIRS[kind](storage=LazyTensorStorage(20), **NEEDED[kind])
    properties = [n for n in dir(THEIRS[kind]) if isinstance(inspect.getattr_static(THEIRS[kind], n), property)]
    return sorted(name for name in {*vars(buffer), *properties} if not name.startswith("_"))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in THEIRS for name in attributes_of(kind)])
def test_an_attribute_of_torchrl_has_its_effect_or_is_refused(kind, name):
    buffer = OURS[kind](20, **NEEDED[kind])
    if name == "batch_size":
        buffer.batch_size = 3
        buffer.extend(rows(6))
        assert len(buffer.sample()) == 3
    elif name == "priority_key":
        buffer.priority_key = "other"
        buffer.extend(rows(6).set("other", torch.zeros(6)))
        assert "other" not in set(buffer.sample(3).keys())
    else:
        with pytest.raises(AttributeError, match=f"{name} must not be assigned to a {OURS[kind].__name__}: "):
            setattr(buffer, name, None)


@pytest.mark.parametrize("kind", OURS)
def test_our_options_are_fixed_once_a_buffer_is_made(kind):
    buffer = OURS[kind](20, **NEEDED[kind])
    own = set(inspect.signature(TensorDictReplayBuffer).parameters) | set(inspect.signature(OURS[kind]).parameters)
    for name in sorted(own - {"batch_size", "beta", "priority_key", "options", "others"}):
        with pytest.raises(AttributeError, match=f"{name} must be given when the buffer is created"):
            setattr(buffer, name, 1)


def test_assigned_values_are_checked():
    buffer = TensorDictPrioritizedReplayBuffer(20, alpha=0.6, beta=0.4)
    with pytest.raises(ValueError, match="beta must be finite and not negative"):
        buffer.beta = -1
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        buffer.batch_size = 0
    buffer.batch_size = None
    assert (buffer.beta, buffer.batch_size) == (0.4, None)


def options_of(kind) -> set[str]:
    bases = [base for base in THEIRS[kind].__mro__ if "__init__" in vars(base) and base is not object]
    return {name for base in bases for name in inspect.signature(base.__init__).parameters} - {"self", "kwargs"}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in THEIRS for name in sorted(options_of(kind))])
def test_an_option_of_torchrl_is_accepted_or_refused_with_a_remedy(kind, name):
    taken = set(inspect.signature(TensorDictReplayBuffer).parameters) | set(inspect.signature(OURS[kind]).parameters)
    if name in taken - {"args"}:
        OURS[kind](20, **{**NEEDED[kind], name: {"batch_size": 3, "priority_key": "p"}.get(name, 0.5)})
        return
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': "):
        OURS[kind](20, **NEEDED[kind], **{name: None})


@pytest.mark.parametrize("name", METHODS)
def test_private_methods_cannot_be_assigned(name):
    with pytest.raises(AttributeError, match=f"{name} must not be assigned .* in a subclass"):
        setattr(TensorDictReplayBuffer(20), name, len)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match=r"TensorDictReplayBuffer\(\) got an unexpected keyword argument 'bath_size'$"):
        TensorDictReplayBuffer(20, bath_size=3)
    assert "bath_size" not in OPTIONS


def test_a_subclass_has_attributes_of_its_own():
    class Mine(TensorDictReplayBuffer):
        def __init__(self):
            super().__init__(20)
            self.alpha = 3

    assert Mine().alpha == 3
