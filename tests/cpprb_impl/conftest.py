"""The kinds of buffer that most tests here run on."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT

SHM = Path("/dev/shm")

settings.register_profile("long", max_examples=5000, stateful_step_count=100, deadline=None)


@pytest.fixture(params=["single", "prioritized", "buffer", "critical", "none"])
def make(request):
    """Return the constructor of each kind of buffer: all have the same ring."""
    made = []

    def build(size, env_dict=ENV_DICT, **kwargs):
        kind = {"single": ReplayBuffer, "prioritized": PrioritizedReplayBuffer}.get(request.param, MPReplayBuffer)
        shared = {"lock": request.param} if kind is MPReplayBuffer else {}
        made.append(kind(size, env_dict, **shared, **kwargs))
        return made[-1]

    yield build
    for buffer in made:
        buffer.close()


@pytest.fixture
def alien():
    """Return a function that puts a file where segments are, locked like one so that no process removes it."""
    held = []

    def put(contents: bytes, lock: int = fcntl.LOCK_SH) -> str:
        name = f"cpprb_impl-{os.getpid()}-{secrets.token_hex(8)}-0"
        descriptor = os.open(SHM / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, lock)
        if not os.fstat(descriptor).st_nlink:  # removed by another process before it was locked
            os.close(descriptor)
            return put(contents, lock)
        held.append((name, descriptor))
        os.write(descriptor, contents)
        return "/" + name

    yield put
    for name, descriptor in held:
        (SHM / name).unlink()
        os.close(descriptor)


@pytest.fixture
def threads_change_only_in_calls():
    """Switch threads only when a call releases the GIL, so that a waiting thread runs during a long copy."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(before)
