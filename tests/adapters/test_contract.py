"""Contracts: every conformance check has its own field, whose values are behaviours that the check can observe."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from adapters import registry
from adapters.base import Adapter, Field, Spec, Step
from adapters.behaviours import Behaviour, Meaning, Seed
from adapters.contract import Contract, RowFields, Stated, no, yes
from suites.conformance.spec import BENCHMARKS


def test_every_conformance_check_has_a_field_whose_default_is_not_a_fault() -> None:
    assert set(Contract.CHECKS) == set(BENCHMARKS)
    defaults = {field.name: field.default for field in dataclasses.fields(Contract)}
    for check, behaviours in Contract.CHECKS.items():
        assert defaults[check] in list(behaviours) and defaults[check].meaning is not Meaning.FAULT


@pytest.mark.parametrize("name", registry.every())
def test_a_contract_states_a_behaviour_for_each_check(name: str) -> None:
    for check, behaviour in registry.peer_class(name).contract.behaviours.items():
        assert type(behaviour) is Contract.CHECKS[check], check


def test_a_behaviour_that_no_check_observes_is_refused() -> None:
    with pytest.raises(ValueError, match="over the moon"):
        Contract.CHECKS["weights"]("over the moon")


def test_only_a_missing_seed_may_be_observed_as_another_behaviour() -> None:
    kept: dict[Behaviour, tuple[Behaviour, ...]] = {
        each: each.kept_by for kind in Contract.CHECKS.values() for each in kind
    }
    assert kept.pop(Seed.NONE) == (Seed.NONE, Seed.OWN, Seed.GLOBAL)
    assert all(by == (each,) for each, by in kept.items())


PLAIN = {name: Field((), "float32") for name in Step._fields}


DICTS = {"obs.a": PLAIN["obs"], "next_obs.a": PLAIN["obs"], **{name: PLAIN[name] for name in ("act", "rew", "done")}}


@pytest.mark.parametrize(
    ("changes", "spec", "refusal"),
    [
        ({}, Spec(8, PLAIN, prioritized=True), None),
        ({"priorities": no()}, Spec(8, PLAIN, prioritized=True), "has no priorities"),
        ({"priorities": no()}, Spec(8, PLAIN), None),
        ({"compression": no()}, Spec(8, PLAIN, next_of=True), "has no compression"),
        ({"compression": no()}, Spec(8, PLAIN, stack_compress=True), "has no compression"),
        ({"compression": yes()}, Spec(8, PLAIN, next_of=True), None),
        ({}, Spec(8, {**PLAIN, "more": Field((), "int8")}), "and no other fields"),
        (
            {"fields": Stated(RowFields.DICT_OBSERVATIONS)},
            Spec(8, {**PLAIN, "more": Field((), "int8")}),
            "other fields",
        ),
        ({"fields": Stated(RowFields.DICT_OBSERVATIONS)}, Spec(8, DICTS), None),
        ({"fields": Stated(RowFields.ANY)}, Spec(8, {**PLAIN, "more": Field((), "int8")}), None),
    ],
)
def test_an_adapter_is_made_only_if_its_contract_allows_it(changes: dict, spec: Spec, refusal: str | None) -> None:
    style = registry.adapter_class("baselines-style")

    class Changed(style):  # type: ignore[misc, valid-type]
        contract: ClassVar[Contract] = dataclasses.replace(style.contract, **changes)

        def __init__(self, spec: Spec) -> None:
            self.fields = spec.fields

    if refusal is None:
        assert isinstance(Changed.make(spec), Adapter)
    else:
        with pytest.raises(NotImplementedError, match=refusal):
            Changed.make(spec)
