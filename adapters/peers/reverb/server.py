"""The process that hosts a Reverb server, and the handle by which an adapter holds it."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

from adapters.base import Field, Spec
from adapters.child_process import exit_with_parent

START_SECONDS = 90.0  # importing TensorFlow takes seconds, and many times that on a busy machine
TABLE = "replay"
ERRORS = "errors"  # the file in its folder that a server's standard error goes to


@dataclass(frozen=True)
class Table:
    """What a table is made of: names from `reverb.selectors` and `reverb.rate_limiters`, and their arguments."""

    max_size: int
    fields: Mapping[str, Field]
    name: str = TABLE
    sampler: tuple = ("Uniform",)
    remover: tuple = ("Fifo",)
    rate_limiter: tuple = ("MinSize", 1)
    max_times_sampled: int = 0  # no limit


def table_for(spec: Spec) -> Table:
    """A ring of rows: the oldest is removed."""
    return Table(spec.capacity, spec.fields, sampler=("Prioritized", spec.alpha) if spec.prioritized else ("Uniform",))


class ServerProcess:
    """The server's process: forked, waited for with a time limit, and closed.

    Python's server of forks has imported the library once, for all servers of a launch: each would take seconds of its
    own for that.
    """

    @staticmethod
    def prepare() -> None:
        """The import begins."""
        multiprocessing.set_forkserver_preload(["reverb"])
        forkserver.ensure_running()
        _end_forkserver_at_exit()

    def __init__(self, tables: Collection[Table]) -> None:
        self._folder = tempfile.mkdtemp(prefix="replaybench-reverb-")
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=serve, args=(list(tables), theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()

    def wait_for_address(self) -> str:
        """The server's address, once it serves."""
        if not self._pipe.poll(START_SECONDS):
            raise RuntimeError(f"the Reverb server did not start in {START_SECONDS:.0f} s:\n{self.errors()}")
        try:
            return f"localhost:{self._pipe.recv()}"
        except EOFError:
            raise RuntimeError(f"the Reverb server ended at its start:\n{self.errors()}") from None

    def errors(self) -> str:
        """The last of what the server wrote to its standard error."""
        errors = Path(self._folder, ERRORS)
        return errors.read_text(errors="replace")[-2000:].strip() if errors.exists() else "(it had not begun)"

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def _end_forkserver_at_exit() -> None:
    """It would end by itself, but after this process: with TensorFlow in it that takes a while."""
    atexit.register(forkserver._forkserver._stop)


class ServerHere:
    """The same in this process, whose samplers then reach the table without gRPC."""

    @staticmethod
    def prepare() -> None:
        """Nothing to begin with."""

    def __init__(self, tables: Collection[Table]) -> None:
        self._checkpoints = tempfile.mkdtemp(prefix="replaybench-reverb-")
        try:
            self._server = start(tables, self._checkpoints)
        except BaseException:
            shutil.rmtree(self._checkpoints, ignore_errors=True)
            raise

    def wait_for_address(self) -> str:
        return f"localhost:{self._server.port}"

    def close(self) -> None:
        # Waits up to ten seconds for clients that keep a stream open: writers are closed before.
        self._server.stop()
        shutil.rmtree(self._checkpoints, ignore_errors=True)


def start(tables: Collection[Table], checkpoints: str):
    """A running server; the library is imported only here."""
    import reverb
    import tensorflow as tf
    from reverb.platform.checkpointers_lib import DefaultCheckpointer

    def selector(name: str, *arguments: float):
        return getattr(reverb.selectors, name)(*arguments)

    def limiter(name: str, *arguments: float):
        return getattr(reverb.rate_limiters, name)(*arguments)

    made = [
        reverb.Table(
            name=table.name,
            sampler=selector(*table.sampler),
            remover=selector(*table.remover),
            max_size=table.max_size,
            max_times_sampled=table.max_times_sampled,
            rate_limiter=limiter(*table.rate_limiter),
            signature={
                name: tf.TensorSpec(field.shape, tf.as_dtype(field.dtype), name=name)
                for name, field in table.fields.items()
            },
        )
        for table in tables
    ]
    # No checkpoint is ever written, but the default checkpointer would leave a folder behind.
    return reverb.Server(made, checkpointer=DefaultCheckpointer(checkpoints))


def serve(tables: Collection[Table], pipe: Connection, folder: str) -> None:
    """In a process of its own, until the other end of `pipe` is closed or everybody is gone."""
    # Ctrl-C reaches the whole process group; the parent closes this process in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(Path(folder, ERRORS), "wb") as errors:
        os.dup2(errors.fileno(), 2)

    def tidy() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    exit_with_parent(os.getppid(), tidy)
    server = start(tables, folder)
    pipe.send(server.port)
    pipe.poll(None)
    tidy()
    # Server.stop() waits about ten seconds for clients that keep their connection; nothing is lost by leaving.
    os._exit(0)
