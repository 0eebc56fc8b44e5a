"""BufferFunctions of a file that another Python runs: one that can import the buffer, but is too old for this project.

Arrays are copied between the two, so a check of memory that the buffer shares with its caller is not possible, nor is
seeding global generators.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import io
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suites.check import served
from suites.check.functions import FUNCTIONS, BadFunctions, BufferFunctions, NotApplicable, promised

SERVED = Path(served.__file__)
#: Exceptions that keep their class; others are only called so.
KNOWN = {name: each for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)}
DEFAULT = object()  # stands for a parameter's default, which is not sent


class Held:
    """An object of the other Python, such as a buffer."""

    def __init__(self, connection: Connection, key: int, kind: str) -> None:
        self._connection, self.key, self._kind = connection, key, kind

    def __del__(self) -> None:
        self._connection.dropped.append(self.key)

    def __deepcopy__(self, _: Any) -> Any:
        return self._connection.call(served.COPY, self)

    def __reduce__(self) -> Any:
        raise NotApplicable("the buffer is in another Python")

    def __repr__(self) -> str:
        return f"<{self._kind} of another Python>"


class _Pickler(served.Pickler):
    def held(self, value: Any) -> Any:
        return (served.HELD, value.key) if isinstance(value, Held) else None


class Connection:
    """A process of the other Python."""

    def __init__(self, python: str, file: str, folder: str | None = None) -> None:
        self.dropped: list[int] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [python, str(SERVED), file, ",".join(FUNCTIONS), *([folder] if folder else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        self.about = self._answer()

    def call(self, name: str, *given: Any, **keywords: Any) -> Any:
        """Call a function. Raises an exception of the same name as the one that it raised."""
        if os.getpid() != self._owner:
            raise NotApplicable("the buffer is in another Python, which a forked process cannot call")
        with self._lock:
            dropped, self.dropped = self.dropped, []
            self._ask((dropped, name, given, keywords))
            answer = self._answer()
        if "error" in answer:
            raise _exception(answer["error"])(answer["message"])
        return answer["value"]

    def _ask(self, request: Any) -> None:
        file = io.BytesIO()
        _Pickler(file, served.PROTOCOL).dump(request)
        assert self._process.stdin is not None
        try:
            served.write(self._process.stdin, file.getvalue())
        except BrokenPipeError:
            self._end_alike()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        try:
            unpickler = served.Unpickler(io.BytesIO(served.read(self._process.stdout)))
        except EOFError:
            self._end_alike()
        unpickler.held = lambda saved: Held(self, *saved[1:])  # type: ignore[method-assign]
        return unpickler.load()

    def _end_alike(self) -> None:
        """End this process in the way in which the other one ended, so that its watcher sees it."""
        status = self._process.wait()
        if status < 0:
            signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -status)
        os._exit(status)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@functools.cache
def _exception(name: str) -> type[Exception]:
    return KNOWN.get(name) or type(name, (Exception,), {})


def load(file: Path, python: str, folder: Path | None = None) -> BufferFunctions:
    """Return functions that call those of a file in another Python, which imports modules from `folder`, too.

    Raises `BadFunctions`.
    """
    connection = Connection(python, str(file), str(folder) if folder else None)
    about = connection.about
    if "bad" in about:
        raise BadFunctions(about["bad"])
    named = {name: _calling(connection, name, arguments) for name, arguments in about["signatures"].items()}
    source = file.read_text(encoding="utf-8")
    more = promised(about["constants"], str(file))
    return BufferFunctions(named, source, file=str(file.resolve()), elsewhere=True, **more)


def _calling(connection: Connection, name: str, arguments: list[tuple[str, int, bool]]) -> Callable[..., Any]:
    """Return a function with this signature that calls the other Python."""

    def call(*given: Any, **keywords: Any) -> Any:
        return connection.call(name, *given, **keywords)

    kinds = [inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD]
    kinds += [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD]
    parameters = [
        inspect.Parameter(each, kinds[kind], default=DEFAULT if optional else inspect.Parameter.empty)
        for each, kind, optional in arguments
    ]
    call.__name__, call.__signature__ = name, inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call
