"""Runs a file's functions in the Python that can import the buffer, for a check in another Python.

    python served.py FILE NAMES [FOLDER]

`suites.check.remote` starts it with the names of the functions, and calls them over its standard input and output. This
file needs NumPy and Python 3.7, and nothing of this project.
"""

from __future__ import annotations

import copy
import inspect
import io
import os
import pickle
import struct
import sys
import traceback
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

PROTOCOL = 4  # of pickle, which Python 3.7 reads
LENGTH = struct.Struct("<Q")
ARRAY, HELD = "array", "held"
#: Types of which instances are sent as they are. Of others, only a name is sent.
PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, slice, range)
#: What the file says about the buffer.
CONSTANTS = ("WAYS", "EPS", "LARGEST", "ALPHA", "WITHHOLDS", "WEIGHTS_OVER", "EVICTS_EPISODES", "STORES_FINAL_OBS")
COPY = "deepcopy"  # a function beside those of the file
#: Functions that return a batch, and those that return an object, which stays here whatever it is. Nothing that the
#: others return is used, but the size.
BATCHES, OBJECTS = ("sample", "windows", "at"), ("make", COPY)


class Pickler(pickle.Pickler):
    """Writes arrays so that any version of NumPy can read them."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            array = np.asarray(value)
            descr = np.lib.format.dtype_to_descr(array.dtype)
            return ARRAY, descr, array.shape, array.tobytes(), isinstance(value, np.generic)
        return self.held(value)

    def held(self, value: Any) -> Any:
        """Return the name of an object that stays in the other process, or None."""
        raise NotImplementedError


class Unpickler(pickle.Unpickler):
    def persistent_load(self, saved: Any) -> Any:
        if saved[0] == ARRAY:
            _, descr, shape, data, scalar = saved
            array = np.frombuffer(data, np.lib.format.descr_to_dtype(descr)).reshape(shape).copy()
            return array[()] if scalar else array
        return self.held(saved)

    def held(self, saved: Any) -> Any:
        raise NotImplementedError


def write(file: IO[bytes], pickled: bytes) -> None:
    file.write(LENGTH.pack(len(pickled)) + pickled)
    file.flush()


def read(file: IO[bytes]) -> bytes:
    """Return the next message. Raises EOFError if the other process has ended."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return file.read(LENGTH.unpack(head)[0])


class _Kept:
    """An object that stays here, although it may be plain data."""

    def __init__(self, value: Any) -> None:
        self.value = value


class FunctionServer:
    """The file's functions, and the objects that the check holds: buffers, and indexes that are no plain data."""

    def __init__(self, reads: IO[bytes], writes: IO[bytes]) -> None:
        self._reads, self._writes = reads, writes
        self._objects = {}  # type: dict[int, Any]

    def serve(self, source: str, where: str, names: list[str]) -> None:
        defined = {"__name__": "checked_functions", "__file__": where, "Buffer": None}
        try:
            exec(compile(source, where, "exec"), defined)
        except Exception as error:
            self._tell({"bad": f"{where} cannot be run: {type(error).__name__}: {error}"})
            return
        named = {name: defined[name] for name in names if callable(defined.get(name))}
        self._tell(
            {
                "signatures": {name: list(_arguments(function)) for name, function in named.items()},
                "constants": {name: defined[name] for name in CONSTANTS if name in defined},
            }
        )
        named[COPY] = copy.deepcopy
        while True:
            try:
                dropped, name, given, keywords = self._request()
            except EOFError:
                return
            for key in dropped:
                self._objects.pop(key, None)
            try:
                reply = {"value": self._returned(name, named[name](*given, **keywords))}
            except Exception as error:
                reply = {"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
            given = keywords = ()
            self._tell(reply)

    def _returned(self, name: str, value: Any) -> Any:
        if name in BATCHES:
            return {key: each if key == "indexes" else np.asarray(each) for key, each in value.items()}
        if name in OBJECTS:
            return _Kept(value)
        return value if name == "size" else None

    def _request(self) -> Any:
        unpickler = Unpickler(io.BytesIO(read(self._reads)))
        unpickler.held = lambda saved: self._objects[saved[1]]  # type: ignore[method-assign]
        return unpickler.load()

    def _tell(self, reply: Any) -> None:
        file = io.BytesIO()
        pickler = Pickler(file, PROTOCOL)
        pickler.held = self._hold  # type: ignore[method-assign]
        pickler.dump(reply)
        write(self._writes, file.getvalue())

    def _hold(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return None
        value = value.value if isinstance(value, _Kept) else value
        self._objects[id(value)] = value
        return HELD, id(value), type(value).__name__


def _arguments(function: Any) -> Iterator[tuple[str, int, bool]]:
    """Yield the name and the kind of each parameter, and whether it has a default."""
    for each in inspect.signature(function).parameters.values():
        yield each.name, int(each.kind), each.default is not each.empty


def main() -> None:
    functions, names, folders = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    sys.path[:1] = [os.path.dirname(os.path.abspath(functions)), *folders]
    reads, writes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever the buffer prints
    with open(functions, encoding="utf-8") as file:
        source = file.read()
    FunctionServer(reads, writes).serve(source, functions, names)


if __name__ == "__main__":
    main()
