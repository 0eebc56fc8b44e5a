"""Archives of arrays (.npz, a zip of .npy files) that can be read without trusting them.

Nothing is pickled or compressed, so an archive cannot claim to hold more than its own size. One member is JSON: it
describes the other members and contains a checksum over all of them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

ABOUT = "about.json"
MOST_ABOUT = 1 << 20  # bytes
PIECE = 1 << 24  # number of bytes read at a time
MOST_HEADER = 1 << 14  # bytes
MAGIC = b"\x93NUMPY\x01\x00"  # and format version 1.0
# A header as NumPy writes it. NumPy's own reader parses it as a Python expression, nested to any depth.
HEADER = re.compile(
    rb"\{'descr': '([^']{1,32})', 'fortran_order': (False|True), 'shape': "
    rb"\(((?:[0-9]{1,19}, ?){0,32}(?:[0-9]{1,19})?)\), \} *\n"
)
DTYPE = re.compile(r"[<>|][biufcmMSUVO][0-9]{0,10}(\[[0-9]{0,10}[A-Za-z]{1,7}\])?")


class Header(NamedTuple):
    """The header of an .npy member."""

    size: int  # bytes
    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool


def read_header(data: bytes) -> Header:
    """Parse the header at the start of `data`. Raises ValueError if NumPy would not write such a header."""
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("the member must begin with a .npy header of version 1.0")
    begin = len(MAGIC) + 2
    size = begin + int.from_bytes(data[len(MAGIC) : begin], "little")
    found = HEADER.fullmatch(data[begin:size])
    if found is None:
        raise ValueError("the .npy header is not one that NumPy writes for a plain array")
    shape = tuple(int(length) for length in found[3].split(b",") if length.strip())
    return Header(size, dtype_named(found[1].decode("ascii")), shape, found[2] == b"True")


def dtype_named(name: str) -> np.dtype:
    """Return the dtype whose `str` is `name`. Raises ValueError if there is none."""
    if not DTYPE.fullmatch(name):
        raise ValueError(f"dtype must be a plain NumPy type string such as '<f4', got {name[:40]!r}")
    dtype = np.dtype(name)
    if dtype.str != name:  # NumPy's own size arithmetic can overflow
        raise ValueError(f"dtype must be a plain NumPy type string such as '<f4', got {name!r}")
    return dtype


class ArrayWriter:
    """Write arrays in sequence, each in pieces, and finally their description. Must be used as a context manager."""

    def __init__(self, file: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._digest = hashlib.sha256()

    def write(self, name: str, dtype: np.dtype, shape: tuple[int, ...], pieces: Iterable[np.ndarray]) -> None:
        """Write member `name`: an array of `shape` whose C-order bytes are the concatenated `pieces`."""
        header = io.BytesIO()
        descr = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, descr)
        self._digest.update(name.encode() + b"\0")
        with self._archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
            for data in itertools.chain([header.getbuffer()], map(_bytes_of, pieces)):
                self._digest.update(data)
                member.write(data)

    def finish(self, about: dict[str, Any]) -> None:
        """Write the last member: `about`, with the checksum added."""
        self._digest.update(_canonical(about))
        text = json.dumps({**about, "checksum": self._digest.hexdigest()}, indent=1)
        self._archive.writestr(zipfile.ZipInfo(ABOUT), text)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *_: object) -> None:
        # After an error the last member is missing, so the archive cannot be mistaken for a complete one.
        self._archive.close()


class ArrayReader:
    """Read an archive's members. Any defect of the archive raises ValueError.

    The constructor raises ValueError if the file is not a zip archive or was truncated.
    """

    def __init__(self, file: IO[bytes]) -> None:
        with as_value_errors("the file is not an .npz archive, or was cut short"):
            self.archive = zipfile.ZipFile(file)
            infos = self.archive.infolist()
        self.members = {info.filename: info for info in infos}
        if len(self.members) != len(infos):
            raise ValueError("the archive has two members of the same name")
        self._room = file.seek(0, io.SEEK_END)
        if sum(info.compress_size for info in infos) > self._room:
            raise ValueError("the archive's members overlap")
        self._digest = hashlib.sha256()

    def read_about(self) -> dict[str, Any]:
        """Return the archive's description, which has not been checked yet."""
        with as_value_errors(ABOUT):
            about = json.loads(self._read(ABOUT, MOST_ABOUT).tobytes())
        if not isinstance(about, dict):
            raise ValueError(f"{ABOUT} must contain a JSON object")
        return about

    def read(self, name: str) -> np.ndarray:
        """Read array `name`. Arrays must be read in the order in which they were written."""
        with as_value_errors(name):
            data = self._read(f"{name}.npy", self._room)
            self._digest.update(name.encode() + b"\0")
            self._digest.update(data.data)
            size, dtype, shape, fortran_order = read_header(data[:MOST_HEADER].tobytes())
            body = data[size:]
            if dtype.hasobject or dtype.itemsize == 0 or fortran_order:
                raise ValueError(
                    f"the array must be plain and in C order, got {dtype} with fortran_order={fortran_order}"
                )
            if math.prod(shape) * dtype.itemsize != len(body):
                raise ValueError(f"shape {shape} of {dtype} does not fit the member's {len(body)} bytes")
            return body.view(dtype).reshape(shape)

    def read_compressed(self, member: str, most: int) -> bytes:
        """Return the bytes of a possibly compressed member. Raises ValueError if there are more than `most`."""
        info = self._info(member)
        # Other methods may need any amount of memory.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("the member must be stored or deflated, as in cpprb's files")
        if info.file_size > most:
            raise ValueError(f"the member must have at most {most} bytes, got {info.file_size}")
        with self.archive.open(info) as file:
            data = b"".join(iter(lambda: file.read(PIECE), b""))
        if len(data) != info.file_size:
            raise ValueError("the member was cut short")
        return data

    def check(self, about: dict[str, Any]) -> None:
        """Raise ValueError unless everything that was read, and `about`, match the checksum."""
        described = {name: value for name, value in about.items() if name != "checksum"}
        self._digest.update(_canonical(described))
        if about.get("checksum") != self._digest.hexdigest():
            raise ValueError("the checksum is wrong: the file was changed after it was written")

    def _info(self, member: str) -> zipfile.ZipInfo:
        if member not in self.members:
            raise ValueError(f"member {member!r} is missing")
        return self.members[member]

    def _read(self, member: str, most: int) -> np.ndarray:
        """Return the bytes of a member as an array of uint8."""
        info = self._info(member)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ValueError("the member must not be compressed or encrypted")
        if info.file_size != info.compress_size or info.file_size > min(most, self._room):
            raise ValueError(f"the member states an impossible length of {info.file_size} bytes")
        data, at = np.empty(info.file_size, np.uint8), 0
        with self.archive.open(info) as file:
            while at < len(data):
                piece = file.read(min(PIECE, len(data) - at))
                if not piece:
                    raise ValueError("the member was cut short")
                data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
        return data


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _canonical(about: dict[str, Any]) -> bytes:
    return json.dumps(about, sort_keys=True).encode()


@contextmanager
def as_value_errors(what: str) -> Iterator[None]:
    """Convert exceptions of zipfile, json, pickle and NumPy for a broken file to a ValueError that begins with `what`.

    Exceptions caused by the machine rather than the file are passed on.
    """
    try:
        yield
    except Exception as error:
        broken_offset = isinstance(error, OSError) and error.errno == errno.EINVAL
        if isinstance(error, (OSError, MemoryError)) and not broken_offset:
            raise
        raise ValueError(f"{what}: {error}") from error
