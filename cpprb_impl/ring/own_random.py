"""Random numbers for objects whose copies in other processes must draw different ones."""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

import numpy as np

from cpprb_impl.layout.fields import parse_seed

_IMPORT = secrets.token_hex(16)  # differs in every process that imports this module


def this_process() -> tuple[str, int]:
    """Return a value that identifies this process among those of all hosts. A forked child has a different number."""
    return _IMPORT, os.getpid()


def this_task() -> tuple[str, int, str | None]:
    """Return a value that identifies this process and, in a Ray worker, the task: a worker runs tasks in sequence."""
    ray: Any = sys.modules.get("ray")
    in_worker = ray is not None and ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE
    return (*this_process(), ray.get_runtime_context().get_task_id() if in_worker else None)


class OwnRandom:
    """A NumPy generator that is not shared with other processes by pickling or forking.

    A copy in the same process and Ray task continues with the numbers that the original would draw next.
    """

    _generator: np.random.Generator
    _drawn_in: tuple[str, int] | None = None  # the process that the generator belongs to

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_copied_in": this_task()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if vars(self).pop("_copied_in", None) != this_task():
            vars(self)["_drawn_in"] = None

    @property
    def rng(self) -> np.random.Generator:
        """The generator; in a process other than the one that seeded it, a new generator, seeded by the system."""
        if self._drawn_in != this_process():
            self.rng = np.random.default_rng()
        return self._generator

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._generator, self._drawn_in = generator, this_process()

    def reseed(self, seed: Any = None) -> None:
        """Reseed the generator that `rng` returns, as in an object created with this `seed`.

        `seed` is an int from 0 to 2**64 - 1, or None for a seed from the operating system. For any other value, raises
        TypeError or ValueError and changes nothing.
        """
        self.rng = np.random.default_rng(parse_seed(seed))
