"""The learner's process: samples, trains, sets priorities, publishes the weights, and writes checkpoints."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from adapters.base import Adapter, Columns
from adapters.hosts import HostsAdapter
from suites.apex_dqn import checkpoint
from suites.apex_dqn.dqn import DoubleDQN, flat_weights
from suites.apex_dqn.explorer import network_for
from suites.apex_dqn.progress import LONGEST_REASON, Counters
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.weights import NetworkWeights
from suites.workloads.recipes import gymnasium_make

RETURN_SECONDS = 60.0
PAUSE_SECONDS = 30.0  # for which a checkpoint waits for all explorers to pause


class Training:
    """A learner with its buffer. Checkpoints are written to `folder`, unless it is None."""

    def __init__(
        self,
        settings: TrainingSettings,
        adapter: Adapter,
        weights: NetworkWeights,
        progress: Counters,
        folder: Path | None,
    ) -> None:
        self.settings, self.adapter, self.weights = settings, adapter, weights
        self.progress, self.folder = progress, folder
        self.learner = DoubleDQN(network_for(gymnasium_make(settings.env), settings), settings)

    def run(self, every: float, resume: bool) -> None:
        """Train until the run stops, with a checkpoint after every `every` seconds and at the end."""
        batch = self._resume() if resume else None
        self.publish()
        if batch is not None:
            self.train_on(batch)
        self.progress.go_on()
        while sum(self.progress.transitions) < self.settings.least_rows and not self.progress.stop.value:
            self.adapter.serve()  # a buffer that only the learner reads accepts no more rows once its queue is full
            time.sleep(0.01)
        due = time.monotonic() + every
        while not self.progress.stop.value:
            self.train_on(self.sample())
            if self.folder is not None and time.monotonic() > due:
                self.train_on(self.save())
                self.progress.go_on()
                due = time.monotonic() + every
        while not self.progress.all_ended():  # the last calls of explorers must return, unless they hang
            self.adapter.serve()
            time.sleep(0.005)
        if self.folder is not None and self.learner.steps:
            self.save()

    def sample(self) -> Columns:
        """Return a batch. If the buffer is on several hosts, wait until lost rows return or new rows arrive."""
        until = time.monotonic() + RETURN_SECONDS
        while True:
            try:
                return self.adapter.sample(self.settings.batch)
            except (ConnectionError, ValueError):  # no shard answers, or all that do are empty
                if time.monotonic() > until or self.progress.stop.value or not isinstance(self.adapter, HostsAdapter):
                    raise
                time.sleep(0.1)

    def train_on(self, batch: Columns) -> None:
        priorities = self.learner.step(batch)
        self.adapter.update_priorities(batch["indexes"], priorities)
        self.progress.steps.value = self.learner.steps
        if self.learner.steps % self.settings.publish_every == 0:
            self.progress.error.value = float(priorities.mean())
            self.publish()

    def publish(self) -> None:
        self.weights.publish(self.learner.steps, flat_weights(self.learner.network))

    def save(self) -> Columns:
        """Write a checkpoint while the explorers wait; return the next batch, drawn before they continue."""
        assert self.folder is not None
        progress = self.progress
        if not progress.all_paused(PAUSE_SECONDS):
            print(f"no checkpoint: an explorer did not pause within {PAUSE_SECONDS:.0f} s", flush=True)
            return self.sample()
        counters = {
            "steps": self.learner.steps,
            "seconds": progress.seconds,
            "transitions": list(progress.transitions),
        }
        try:
            return checkpoint.save(self.folder, self.learner.state(), self.adapter, counters, self.sample)
        except (OSError, RuntimeError) as error:  # a full disk, for instance
            print(f"no checkpoint: {error}", flush=True)
            return self.sample()

    def _resume(self) -> Columns:
        assert self.folder is not None
        found = checkpoint.newest(self.folder)
        model, counters = checkpoint.load(found, self.adapter, self.settings.explorers)
        with checkpoint.reading(found):
            self.learner.set_state(model)
        self.progress.steps.value = counters["steps"]
        self.progress.began.value = self.progress.now() - counters["seconds"]
        self.progress.transitions[:] = counters["transitions"]
        batch = self.sample()
        checkpoint.check_next_sample(found, self.adapter, batch)
        return batch


def learn(
    settings: TrainingSettings,
    adapter: Adapter,
    weights: NetworkWeights,
    progress: Counters,
    folder: Path | None,
    every: float,
    resume: bool,
) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    np.random.seed(settings.seed)  # for buffers that draw from NumPy's global generator
    try:
        Training(settings, adapter, weights, progress, folder).run(every, resume)
    except checkpoint.NotResumable as error:
        progress.reason.value = str(error).encode()[:LONGEST_REASON]
        sys.exit(1)
