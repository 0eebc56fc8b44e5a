"""A misspelt key of env_dict or a missing field raises an error that names what was passed and what is required."""

from __future__ import annotations

import numpy as np
import pytest

from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReverseReplayBuffer,
    create_buffer,
)

FIELDS = {"obs": {"shape": 2}, "act": {}, "next_obs": {"shape": 2}, "done": {}}
NSTEP = {"size": 2}


def with_objects(kind, fields, **options):
    return kind(8, {**fields, "word": {"dtype": object}}, **options)


MAKERS = {
    "uniform": lambda fields: ReplayBuffer(8, fields),
    "prioritized": lambda fields: PrioritizedReplayBuffer(8, fields),
    "reverse": lambda fields: ReverseReplayBuffer(8, fields),
    "shared": lambda fields: MPReplayBuffer(8, fields),
    "shared prioritized": lambda fields: MPPrioritizedReplayBuffer(8, fields),
    "created": lambda fields: create_buffer(8, fields),
    "n-step": lambda fields: ReplayBuffer(8, fields, Nstep=NSTEP),
    "shared n-step": lambda fields: MPPrioritizedReplayBuffer(8, fields, Nstep=NSTEP),
    "objects": lambda fields: with_objects(ReplayBuffer, fields),
    "prioritized objects": lambda fields: with_objects(PrioritizedReplayBuffer, fields),
    "n-step objects": lambda fields: with_objects(ReplayBuffer, fields, Nstep=NSTEP),
    "HER": lambda fields: HindsightReplayBuffer(8, fields, 4, len),
    "uniform HER": lambda fields: HindsightReplayBuffer(8, fields, 4, len, prioritized=False),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("key", ["shpe", "Shape", "type", "size", 1])
def test_a_misspelt_key_is_refused(maker, key):
    fields = {**FIELDS, "act": {key: 3}}
    with pytest.raises(TypeError, match=rf"env_dict\['act'\] must have no keys but 'shape' and 'dtype', got {key!r}"):
        MAKERS[maker](fields)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_dict_that_cpprb_has_used_is_accepted(maker):
    """cpprb adds a key to each dict that it receives."""
    cpprb = pytest.importorskip("cpprb")
    fields = {name: dict(field) for name, field in FIELDS.items()}
    cpprb.ReplayBuffer(8, fields)
    assert "add_shape" in fields["obs"]
    MAKERS[maker](fields)


@pytest.mark.parametrize("maker", MAKERS)
def test_the_error_names_a_missing_field_and_those_that_were_passed(maker):
    buffer = MAKERS[maker](FIELDS)
    more = {"word": "a"} if "objects" in maker else {}
    with pytest.raises(KeyError) as error:
        buffer.add(obs=np.zeros(2), dne=0, next_obs=np.zeros(2), **more)
    given = ", ".join(["'obs'", "'dne'", "'next_obs'", *(["'word'"] if more else [])])
    assert error.value.args == (f"add() must be given every field: 'act', 'done' missing, got {given}",)
    assert buffer.get_stored_size() == 0


@pytest.mark.parametrize("maker", MAKERS)
def test_an_add_without_fields_is_reported(maker):
    with pytest.raises(KeyError, match=r"'act', 'next_obs', 'done'.* missing, got none"):
        MAKERS[maker](FIELDS).add()
