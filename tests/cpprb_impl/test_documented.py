"""Every public name documents what it is, what it accepts and, including native methods, how it is called."""

from __future__ import annotations

import inspect
import re

import pytest

import cpprb_impl

PUBLIC = [(name, getattr(cpprb_impl, name)) for name in cpprb_impl.__all__]
CLASSES = [each for each in PUBLIC if inspect.isclass(each[1])]
# Accepted for compatibility with cpprb, or passed on; explained in the text that the docstring refers to.
TAKEN_OVER = {"self", "options", "kwargs", "args", "arrays"}


def members(kind: type) -> list[tuple[str, object]]:
    return [(name, inspect.getattr_static(kind, name)) for name in dir(kind) if not name.startswith("_")]


def undocumented(kind: type) -> list[str]:
    """Return public methods and properties without a docstring, or without a signature."""
    missing = []
    for name, member in members(kind):
        if not (inspect.getdoc(getattr(kind, name)) or "").strip():
            missing.append(f"{name}: no docstring")
        if callable(member) and "self" not in str(inspect.signature(member)):
            missing.append(f"{name}: no signature")
    return missing


def unexplained(what, text: str) -> list[str]:
    """Return the parameters of `what` that the text does not name."""
    return [name for name in inspect.signature(what).parameters if name not in TAKEN_OVER and not named(name, text)]


def named(parameter: str, text: str) -> bool:
    return re.search(rf"\b{parameter}\b", text) is not None


@pytest.mark.parametrize(("name", "public"), PUBLIC)
def test_every_public_name_explains_its_parameters(name, public):
    doc = public.__doc__ or ""
    assert len(doc) > 40
    bases = public.__mro__[1:] if inspect.isclass(public) else ()
    referred = [base.__doc__ or "" for base in bases] if "As for" in doc or "as for" in doc else []
    assert unexplained(public, " ".join([doc, *referred])) == []


@pytest.mark.parametrize(("name", "kind"), CLASSES)
def test_every_method_has_a_docstring_and_a_signature(name, kind):
    assert undocumented(kind) == []


def test_a_missing_docstring_is_detected():
    class Bare(cpprb_impl.ReplayBuffer):
        def added(self):
            pass

    assert undocumented(Bare) == ["added: no docstring"]
    assert unexplained(lambda size, seed: None, "size: of what") == ["seed"]


def test_docstrings_state_shapes_errors_and_sources():
    """This applies to calls that take arrays."""
    for kind in (cpprb_impl.ReplayBuffer, cpprb_impl.PrioritizedReplayBuffer):
        assert "(batch_size, *shape)" in kind.sample.__doc__ and "Raises" in kind.sample.__doc__
    assert "(rows, *shape)" in cpprb_impl.ReplayBuffer.add.__doc__ and "Raises" in cpprb_impl.ReplayBuffer.add.__doc__
    assert "(n,)" in cpprb_impl.PrioritizedReplayBuffer.update_priorities.__doc__
    sources = {"PrioritizedReplayBuffer": "Schaul", "HindsightReplayBuffer": "Andrychowicz", "LaBERmean": "ICML|arXiv"}
    for name, source in sources.items():
        kind = getattr(cpprb_impl, name)
        assert re.search(source, kind.__doc__ + (inspect.getmodule(kind).__doc__ or "")), name
