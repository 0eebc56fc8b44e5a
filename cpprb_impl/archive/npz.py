"""Archives of arrays (.npz, a zip of .npy files) that can be read without trusting them.

Nothing is pickled or compressed, so an archive cannot claim more data than the file itself contains. One member is
JSON: it describes the other members and contains a checksum over all of them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np

from cpprb_impl.archive.dtype_names import dtype_named

ABOUT = "about.json"
MOST_ABOUT = 1 << 20  # bytes
PIECE = 1 << 24  # number of bytes that are decompressed at a time
BLOCK = 1 << 16  # number of bytes of a stored member that are read at a time
LOCAL_HEADER = 30  # bytes before a member's name
MOST_HEADER = 1 << 14  # bytes
MAGIC = b"\x93NUMPY\x01\x00"  # the signature and format version 1.0
# A header as NumPy writes it. NumPy's own reader parses it as a Python expression, nested to any depth.
HEADER = re.compile(
    rb"\{'descr': '([^']{1,32})', 'fortran_order': (False|True), 'shape': "
    rb"\(((?:[0-9]{1,19}, ?){0,32}(?:[0-9]{1,19})?)\), \} *\n"
)


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


class Member(NamedTuple):
    """The location of a stored member's bytes in a file, and the CRC-32 of each of its blocks."""

    name: str
    start: int
    size: int
    checksums: Sequence[int]


class StoredArray:
    """A checked array in an archive. Its rows are read again when they are requested.

    RuntimeError is raised if the rows have changed since the check.
    """

    def __init__(self, file: IO[bytes], member: Member, header: Header) -> None:
        self._file, self._member, self._header = file, member, header
        self.dtype, self.shape = header.dtype, header.shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the rows selected by a slice, or by an array of row numbers, which may have any shape."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(len(self))
            return self._between(first, max(first, end))
        used, places = np.unique(rows, return_inverse=True)
        read = np.empty((len(used), *self.shape[1:]), self.dtype)
        at = 0
        for run in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1):
            read[at : at + len(run)] = self._between(int(run[0]), int(run[-1]) + 1)
            at += len(run)
        found: np.ndarray = read[places.reshape(rows.shape)]
        return found

    def whole(self) -> np.ndarray:
        """Return the whole array, which may be zero-dimensional."""
        return self._bytes(0, math.prod(self.shape) * self.dtype.itemsize).view(self.dtype).reshape(self.shape)

    def view(self, dtype: np.dtype) -> StoredArray:
        """Return the same array with its bytes interpreted as elements of `dtype`, which must have the same size."""
        return StoredArray(self._file, self._member, self._header._replace(dtype=dtype))

    def _between(self, first: int, end: int) -> np.ndarray:
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        return self._bytes(first * row, end * row).view(self.dtype).reshape(end - first, *self.shape[1:])

    def _bytes(self, first: int, end: int) -> np.ndarray:
        """Return the array's bytes first .. end - 1, after reading and checking the whole blocks that contain them."""
        first, end = first + self._header.size, end + self._header.size
        block = first // BLOCK
        begin = block * BLOCK
        data, at = np.empty(min(-(-end // BLOCK) * BLOCK, self._member.size) - begin, np.uint8), 0
        self._file.seek(self._member.start + begin)
        while at < len(data) and (piece := self._file.read(min(BLOCK, len(data) - at))):
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        checksums = [zlib.crc32(data[each : each + BLOCK].data) for each in range(0, len(data), BLOCK)]
        if at < len(data) or checksums != self._member.checksums[block : block + len(checksums)]:
            raise RuntimeError(f"{self._member.name}: the file was changed while it was being loaded")
        return data[first - begin : end - begin]


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
        self._file = file
        self._room = file.seek(0, io.SEEK_END)
        if sum(info.compress_size for info in infos) > self._room:
            raise ValueError("the archive's members overlap")
        self._digest = hashlib.sha256()

    def read_about(self) -> dict[str, Any]:
        """Return the archive's description, which has not been checked yet."""
        with as_value_errors(ABOUT):
            about = json.loads(b"".join(self._blocks(self._stored(ABOUT, MOST_ABOUT))))
        if not isinstance(about, dict):
            raise ValueError(f"{ABOUT} must contain a JSON object")
        return about

    def read(self, name: str) -> np.ndarray:
        """Like `scan`, but return array `name` in memory."""
        stored = self.scan(name)
        with as_value_errors(name):
            return stored.whole()

    def scan(self, name: str) -> StoredArray:
        """Check array `name`, a block at a time. Arrays must be scanned in the order in which they were written."""
        with as_value_errors(name):
            info = self._stored(f"{name}.npy", self._room)
            self._digest.update(name.encode() + b"\0")
            begin, checksums = b"", []
            for block in self._blocks(info):
                begin = begin or block[:MOST_HEADER]
                checksums.append(zlib.crc32(block))
                self._digest.update(block)
            header = read_header(begin)
            size, dtype, shape, fortran_order = header
            if dtype.hasobject or dtype.itemsize == 0 or fortran_order:
                raise ValueError(
                    f"the array must have a plain dtype and be in C order, got {dtype} with "
                    f"fortran_order={fortran_order}"
                )
            if math.prod(shape) * dtype.itemsize != info.file_size - size:
                raise ValueError(f"shape {shape} of {dtype} does not fit the member's {info.file_size - size} bytes")
            if 0 in shape:
                np.empty(0, dtype).reshape(shape)  # raises if the other lengths are too large
            return StoredArray(self._file, Member(name, self._start_of(info), info.file_size, checksums), header)

    def read_compressed(self, member: str, most: int) -> bytes:
        """Return the bytes of a possibly compressed member. Raises ValueError if there are more than `most`."""
        info = self._info(member)
        # Other compression methods may need any amount of memory.
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

    def _stored(self, member: str, most: int) -> zipfile.ZipInfo:
        """Return the entry of an uncompressed member."""
        info = self._info(member)
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ValueError("the member must not be compressed or encrypted")
        if info.file_size != info.compress_size or info.file_size > min(most, self._room):
            raise ValueError(f"the member states an impossible length of {info.file_size} bytes")
        return info

    def _blocks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield a stored member's bytes: `BLOCK` at a time, fewer at the end."""
        with self.archive.open(info) as file:
            for at in range(0, info.file_size, BLOCK):
                block = file.read(BLOCK)
                if len(block) != min(BLOCK, info.file_size - at):
                    raise ValueError("the member was cut short")
                yield block

    def _start_of(self, info: zipfile.ZipInfo) -> int:
        """Return the file offset of a member's bytes, which follow a header, the name and an extra field."""
        self._file.seek(info.header_offset)
        name, extra = struct.unpack("<HH", self._file.read(LOCAL_HEADER)[-4:])
        return info.header_offset + LOCAL_HEADER + int(name) + int(extra)


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _canonical(about: dict[str, Any]) -> bytes:
    return json.dumps(about, sort_keys=True).encode()


@contextmanager
def as_value_errors(what: str) -> Iterator[None]:
    """Convert exceptions of zipfile, json, pickle and NumPy for a broken file to ValueErrors that begin with `what`.

    Exceptions caused by the machine rather than the file propagate.
    """
    try:
        yield
    except Exception as error:
        broken_offset = isinstance(error, OSError) and error.errno == errno.EINVAL
        if isinstance(error, (OSError, MemoryError)) and not broken_offset:
            raise
        raise ValueError(f"{what}: {error}") from error
