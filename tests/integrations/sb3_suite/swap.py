"""A pytest plugin that runs Stable-Baselines3's own tests with our replay buffers in place of the originals."""

from __future__ import annotations

import sys

import stable_baselines3
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common import buffers as theirs

from cpprb_impl import sb3
from cpprb_impl.integrations.step_buffer import StepBuffer

REPLACED = {
    theirs.ReplayBuffer: sb3.ReplayBuffer,
    theirs.DictReplayBuffer: sb3.DictReplayBuffer,
    theirs.NStepReplayBuffer: sb3.NStepReplayBuffer,
    HerReplayBuffer: sb3.HerReplayBuffer,
}
made: list[str] = []
make_ring = StepBuffer._make_ring


def counted(self, *args, **options):
    made.append(type(self).__name__)
    return make_ring(self, *args, **options)


def pytest_configure():
    StepBuffer._make_ring = counted
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == stable_baselines3.__name__:
            for attribute, value in list(vars(module).items()):
                if isinstance(value, type) and value in REPLACED:
                    setattr(module, attribute, REPLACED[value])


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"made {len(made)} of our buffers")
