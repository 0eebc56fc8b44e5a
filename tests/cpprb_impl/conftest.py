"""The kinds of buffer that most tests here run on."""

from __future__ import annotations

import pytest
from hypothesis import settings

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT

settings.register_profile("long", max_examples=5000, stateful_step_count=100, deadline=None)


@pytest.fixture(params=["single", "prioritized", "buffer", "critical", "none"])
def make(request):
    """Builds every kind of buffer: all have the same ring."""
    made = []

    def build(size, env_dict=ENV_DICT, **kwargs):
        kind = {"single": ReplayBuffer, "prioritized": PrioritizedReplayBuffer}.get(request.param, MPReplayBuffer)
        shared = {"lock": request.param} if kind is MPReplayBuffer else {}
        made.append(kind(size, env_dict, **shared, **kwargs))
        return made[-1]

    yield build
    for buffer in made:
        buffer.close()
