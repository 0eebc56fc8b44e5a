"""The process that hosts a Reverb server, and the handle through which an adapter controls it."""

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

START_SECONDS = 90.0  # importing TensorFlow takes seconds, and many times longer on a busy machine
TABLE = "replay"
ERRORS = "errors"  # file name of a server's standard error


@dataclass(frozen=True)
class TableSettings:
    """A table's settings: the names of its `reverb.selectors` and `reverb.rate_limiters`, and their arguments."""

    max_size: int
    fields: Mapping[str, Field]
    name: str = TABLE
    sampler: tuple = ("Uniform",)
    remover: tuple = ("Fifo",)
    rate_limiter: tuple = ("MinSize", 1)
    max_times_sampled: int = 0  # no limit


def table_for(spec: Spec) -> TableSettings:
    """Return a table that works as a ring of rows: the oldest is removed first."""
    return TableSettings(
        spec.capacity, spec.fields, sampler=("Prioritized", spec.alpha) if spec.prioritized else ("Uniform",)
    )


class ServerProcess:
    """A server in a separate process, started with a time limit.

    Python's forkserver imports the library once for all servers of a launch, because an import takes seconds.
    """

    @staticmethod
    def prepare() -> None:
        """Start importing the library in the forkserver."""
        multiprocessing.set_forkserver_preload(["reverb"])
        forkserver.ensure_running()
        _end_forkserver_at_exit()

    def __init__(self, tables: Collection[TableSettings]) -> None:
        self._folder = tempfile.mkdtemp(prefix="replaybench-reverb-")
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=serve, args=(list(tables), theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()

    def wait_for_address(self) -> str:
        """Return the server's address once it accepts connections."""
        if not self._pipe.poll(START_SECONDS):
            raise RuntimeError(f"the Reverb server did not start in {START_SECONDS:.0f} s:\n{self.errors()}")
        try:
            return f"localhost:{self._pipe.recv()}"
        except EOFError:
            raise RuntimeError(f"the Reverb server exited during start-up:\n{self.errors()}") from None

    def errors(self) -> str:
        """Return the end of the server's standard error."""
        errors = Path(self._folder, ERRORS)
        return (
            errors.read_text(errors="replace")[-2000:].strip() if errors.exists() else "(the process had not started)"
        )

    def close(self) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def _end_forkserver_at_exit() -> None:
    """Stop the forkserver at exit. It has TensorFlow loaded, and would otherwise outlive this process for a while."""
    atexit.register(forkserver._forkserver._stop)


class InProcessServer:
    """A server in this process. Its samplers reach the table without gRPC."""

    @staticmethod
    def prepare() -> None:
        """Do nothing."""

    def __init__(self, tables: Collection[TableSettings]) -> None:
        self._checkpoints = tempfile.mkdtemp(prefix="replaybench-reverb-")
        try:
            self._server = start(tables, self._checkpoints)
        except BaseException:
            shutil.rmtree(self._checkpoints, ignore_errors=True)
            raise

    def wait_for_address(self) -> str:
        return f"localhost:{self._server.port}"

    def close(self) -> None:
        # Waits up to ten seconds for clients with an open stream, so close writers first.
        self._server.stop()
        shutil.rmtree(self._checkpoints, ignore_errors=True)


def start(tables: Collection[TableSettings], checkpoints: str):
    """Start a server. The library is imported only here."""
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
    # No checkpoint is written, but the default checkpointer would leave a folder behind.
    return reverb.Server(made, checkpointer=DefaultCheckpointer(checkpoints))


def serve(tables: Collection[TableSettings], pipe: Connection, folder: str) -> None:
    """Serve, in a separate process, until the other end of `pipe` is closed or the parent has exited."""
    # Ctrl-C reaches the whole process group; the parent decides when to close this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(Path(folder, ERRORS), "wb") as errors:
        os.dup2(errors.fileno(), 2)

    def clean_up() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    exit_with_parent(os.getppid(), clean_up)
    server = start(tables, folder)
    pipe.send(server.port)
    pipe.poll(None)
    clean_up()
    # Server.stop() waits about ten seconds for connected clients; nothing is lost by not calling it.
    os._exit(0)
