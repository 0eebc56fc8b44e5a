"""A truncated, altered or forged file is refused with a reason, and the buffer does not change."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer, ReverseReplayBuffer
from cpprb_impl.archive.npz import ABOUT, ArrayReader, ArrayWriter
from cpprb_impl.buffers.saving import SavableBuffer

from .rows import ENV_DICT, make_rows


def make(kind=PrioritizedReplayBuffer, size=8, fields=ENV_DICT, **options):
    return kind(size, fields, seed=1, **options)


@pytest.fixture
def good() -> bytes:
    buffer = make()
    buffer.add(**make_rows(0, 11), priorities=np.arange(11) + 1.0)
    file = io.BytesIO()
    buffer.save_transitions(file)
    return file.getvalue()


def state_of(buffer):
    file = io.BytesIO()
    buffer.save_transitions(file)
    return file.getvalue()


def refused(data: bytes, says: str, buffer=None) -> None:
    """Check that an empty buffer and a used buffer both refuse `data`, and that neither changes."""
    used = make()
    used.add(**make_rows(30, 5))
    for each in [buffer] if buffer else [make(), used]:
        before = state_of(each)
        with pytest.raises(ValueError, match=says):
            each.load_transitions(io.BytesIO(data))
        assert state_of(each) == before


def forged(data: bytes, change=lambda about: None, arrays=None) -> bytes:
    """Return the file with a changed `about`, or other arrays, and a corrected checksum."""
    reader = ArrayReader(io.BytesIO(data))
    about = reader.read_about()
    names = [name.removesuffix(".npy") for name in reader.members if name != ABOUT]
    columns = {name: reader.read(name) for name in names} | (arrays or {})
    change(about)
    del about["checksum"]
    file = io.BytesIO()
    with ArrayWriter(file) as writer:
        for name, column in columns.items():
            writer.write(name, column.dtype, column.shape, [column])
        writer.finish(about)
    return file.getvalue()


def rezipped(data: bytes, compression=zipfile.ZIP_STORED, **members: bytes) -> bytes:
    """Return the file with other bytes in some members, or compressed. "about" means about.json, and "x" x.npy."""
    file = io.BytesIO()
    named = {ABOUT if name == "about" else f"{name}.npy": content for name, content in members.items()}
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", compression) as new:
        for info in old.infolist():
            new.writestr(info.filename, named.get(info.filename, old.read(info)))
    return file.getvalue()


def test_the_unchanged_file_is_loaded(good):
    for data in (good, forged(good), rezipped(good)):
        buffer = make()
        buffer.load_transitions(io.BytesIO(data))
        assert state_of(buffer) == good


def test_truncated_files_are_refused(good):
    for length in [*range(0, len(good) - 1, 97), len(good) - 1]:
        refused(good[:length], "cut short|about.json|missing|saved by")


def test_a_changed_byte_is_refused_or_harmless(good):
    """Some bytes in the zip headers of each member are never read."""
    unnoticed = 0
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 0x55
        buffer = make()
        before = state_of(buffer)
        try:
            buffer.load_transitions(io.BytesIO(data))
        except ValueError:
            assert state_of(buffer) == before
        else:
            assert state_of(buffer) == good
            unnoticed += 1
    assert unnoticed < 64 * len(zipfile.ZipFile(io.BytesIO(good)).namelist())


def test_a_changed_array_is_noticed_by_the_checksum(good):
    values = zipfile.ZipFile(io.BytesIO(good)).read("column_1.npy")
    refused(rezipped(good, column_1=values[:-1] + b"\1"), "checksum")
    about = json.loads(zipfile.ZipFile(io.BytesIO(good)).read(ABOUT))
    about["position"]["next_index"] = 1
    refused(rezipped(good, about=json.dumps(about).encode()), "checksum")


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize("column", ["column_0", "column_1", "leaves"])
def test_a_file_that_changes_after_it_was_checked_is_noticed(good, column, size, monkeypatch):
    """No row of a changed column is added, and an empty buffer remains empty."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        at = archive.getinfo(f"{column}.npy").header_offset + 30 + len(f"{column}.npy") + 20 + 128
    file, check = io.BytesIO(good), SavableBuffer._contents_of

    def changed(buffer, stream):
        contents = check(buffer, stream)
        file.getbuffer()[at] ^= 0x55
        return contents

    monkeypatch.setattr(SavableBuffer, "_contents_of", changed)
    for rows in (0, 1):
        buffer = make(size=size)
        for row in range(rows):
            buffer.add(**make_rows(30 + row, 1))
        with pytest.raises(RuntimeError, match=f"{column}: the file was changed while it was being loaded"):
            buffer.load_transitions(file)
        file.getbuffer()[at] ^= 0x55
        if column != "leaves" or not rows:  # leaves are read after the rows were added
            assert buffer.get_all_transitions()["act"].ravel().tolist() == [30] * rows


def setting(*path_and_value):
    *path, last, value = path_and_value

    def change(about):
        for name in path:
            about = about[name]
        about[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (setting("format", "other"), "format"),
        (setting("version", 2), "version 2"),
        (setting("version", "1"), "version"),
        (setting("rows", 7), "obs: shape .* 7 rows"),
        (setting("rows", -1), "'rows'"),
        (setting("rows", True), "'rows'"),
        (setting("rows", 10**400), "'rows'"),
        (setting("columns", {}), "'columns'"),
        (setting("columns", [1]), "'columns'"),
        (setting("columns", []), "checksum|missing|fields"),
        (setting("columns", 0, "names", ["obz"]), "fields are .*obz"),
        (setting("columns", 0, "names", ["obs", "act"]), "got 'rows'"),
        (setting("columns", 0, "names", [3]), "'names'"),
        (setting("columns", 0, "kind", "diffs"), "got 'diffs'"),
        (setting("columns", 0, "kind", "frames"), "'stack'"),
        (lambda about: about["columns"][0].update(kind="frames", stack=3), "column_0_first_0"),
        (lambda about: about["columns"][0].update(kind="frames", stack=0), "'stack'"),
        (setting("columns", 0, "dtype", "float16"), "obs: dtype float16"),
        (setting("columns", 0, "dtype", 3), "'dtype'"),
        (setting("options", None), "'options'"),
        (setting("options", "size", 3), "'size'"),
        (setting("options", "alpha", -1.0), "'alpha'"),
        (setting("options", "alpha", float("nan")), "'alpha'"),
        (setting("options", "eps", "much"), "'eps'"),
        (setting("options", "eps", 10**400), "'eps'"),
        (setting("position", "max_priority", 10**400), "'max_priority'"),
        (setting("position", "next_index", 8), "'next_index'"),
        (setting("position", "next_index", 2.0), "'next_index'"),
        (setting("position", "episode_len", -3), "'episode_len'"),
        (setting("position", "unseen", None), "'unseen'"),
        (setting("position", "random", [0, 0, 0, 0]), "zeros"),
        (setting("position", "random", [1, 2, 3]), "'random'"),
        (setting("position", "random", [1, 2, 3, 2**64]), "'random'"),
        (setting("position", "max_priority", float("inf")), "'max_priority'"),
        (setting("position", "max_priority", 1e300), "too large"),
        (setting("own", "last"), "'own'"),
        (setting("Nstep", {"size": 3}), "Nstep is {'size': 3} in the file, but None"),
    ],
)
def test_the_description_in_a_file_is_checked(good, change, says):
    refused(forged(good, change), says)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"leaves": np.full(8, np.nan, np.float32)}, r"leaves\[0\]"),
        ({"leaves": np.full(8, -1, np.float32)}, r"leaves\[0\]"),
        ({"leaves": np.ones(8)}, "got float64"),
        ({"leaves": np.ones(7, np.float32)}, "got float32 of shape"),
        ({"column_0": np.ones((8, 4), np.float64)}, "obs: dtype"),
        ({"column_0": np.ones((8, 5), np.float32)}, "obs: shape"),
        ({"column_0": np.ones((7, 4), np.float32)}, "obs: shape"),
    ],
)
def test_arrays_in_a_file_are_checked(good, arrays, says):
    refused(forged(good, arrays=arrays), says)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({**ENV_DICT, "more": {}}, "fields"),
        ({name: ENV_DICT[name] for name in ("obs", "act")}, "fields"),
        ({**ENV_DICT, "obs": {"shape": 5}}, "obs: shape"),
        ({**ENV_DICT, "act": {"dtype": np.int32}}, "act: dtype int64 in the file, but int32"),
        ({**ENV_DICT, "act": {"dtype": ">i8"}}, "act: dtype int64 in the file, but >i8"),
        ({**ENV_DICT, "act": {"dtype": "V8"}}, "act: dtype"),
    ],
)
def test_a_file_of_a_different_buffer_is_refused(good, fields, says):
    refused(good, says, make(fields=fields))
    refused(good, says, make(ReplayBuffer, fields=fields))


def test_the_position_of_reverse_sampling_is_checked(good):
    buffer = make(ReverseReplayBuffer)
    buffer.add(**make_rows(0, 5))
    buffer.sample(2)
    file = state_of(buffer)
    for own in (np.array([8]), np.array([-2]), np.array([1.0]), np.array([1, 2])):
        refused(forged(file, arrays={"own_0": own}), "must hold the position", make(ReverseReplayBuffer))


def test_remembered_samples_are_checked():
    buffer = make(PrioritizedReplayBuffer, check_for_update=True)
    buffer.add(**make_rows(0, 5))
    buffer.sample(2)
    file = state_of(buffer)
    for own in (np.array([1.0]), np.array([[1, 2]]), np.array(["1"])):
        refused(forged(file, arrays={"own_0": own}), "samples must be int64", make(PrioritizedReplayBuffer))


def header_of(shape, dtype="<f4", fortran=False) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return header.getvalue()


NOT_NUMPYS = "not one that NumPy writes"
NO_DTYPE = "must be a plain NumPy|data type .* not understood"  # the second message comes from NumPy 2 itself


def header_with(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header_of((2**40, 4)) + bytes(64), "does not fit the member's 64 bytes"),
        (header_of((-8, 4)) + bytes(128), NOT_NUMPYS),
        (header_of((8, 4), fortran=True) + bytes(128), "plain dtype and be in C order"),
        (header_of((8, 4), "|O") + bytes(128), "plain dtype and be in C order"),
        (header_of((2**62, 0)) + b"", "obs: shape|column_0"),
        (b"\x93NUMPY\x01\x00\xff\xff{" + b"[" * 5000, "column_0"),
        (b"\x93NUMPY\x01\x00\x10\x00__import__('os')\n", "column_0"),
        (header_with(b"-" * 9800), NOT_NUMPYS),  # MemoryError of Python's parser
        (header_with(b"(" * 9800), NOT_NUMPYS),
        (header_with(b"[" * 90 + b"]" * 90), NOT_NUMPYS),
        (header_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1, " * 33 + b"), }"), NOT_NUMPYS),
        (header_of((8, 4), "|V4294967297") + bytes(32), NO_DTYPE),  # read as V1 by NumPy 1
        (header_of((8, 4), "<U999999999") + bytes(128), NO_DTYPE),
        (header_of((8, 4), "f4,f4") + bytes(256), "must be a plain NumPy"),
        (b"\x93NUMPY\x07\x00" + bytes(200), "version"),
        (b"", "column_0"),
    ],
)
def test_false_sizes_in_headers_allocate_no_memory(good, content, says):
    data = rezipped(good, column_0=content)
    tracemalloc.start()
    refused(data, says)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_zip_bombs_allocate_no_memory(good):
    bomb = rezipped(good, zipfile.ZIP_DEFLATED, column_0=header_of((10**8,)) + bytes(4 * 10**8))
    lying = bytearray(good)
    at = lying.index(b"column_0.npy", lying.index(b"PK\1\2")) - 46
    for field in (20, 24):
        lying[at + field : at + field + 4] = (2**31).to_bytes(4, "little")
    about = rezipped(good, about=b" " * 10**7)
    tracemalloc.start()
    refused(bomb, "compressed")
    refused(bytes(lying), "members overlap|impossible")
    refused(about, "length of 10000000 bytes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000


@pytest.mark.parametrize("about", [b"", b"[]", b"7", b"{", b"[" * 100_000, b'{"format": 1}', b"\xff\xfe"])
def test_metadata_that_is_not_a_json_object_is_refused(good, about):
    refused(rezipped(good, about=about), "about.json|format")


def test_duplicate_members_are_refused(good):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file := io.BytesIO(good), "a") as archive:
        archive.writestr("leaves.npy", b"")
    refused(file.getvalue(), "two members")


def test_other_archives_are_refused():
    file = io.BytesIO()
    np.savez(file, obs=np.zeros(3))
    refused(file.getvalue(), "saved by cpprb_impl or cpprb")
    refused(b"", "not an .npz archive")
    refused(b"PK" + bytes(1000), "not an .npz archive")


def deep(about: bytes, name: str, depth: int) -> bytes:
    """Return `about` with lists nested `depth` deep as the value of `name`."""
    altered = json.loads(about)
    altered[name] = "here"
    return json.dumps(altered).replace('"here"', "[" * depth + "]" * depth).encode()


@pytest.mark.parametrize(
    "name", ["more", "format", "version", "rows", "columns", "Nstep", "options", "position", "own"]
)
def test_deeply_nested_json_is_refused(good, name):
    """JSON that Python can parse may still be nested too deeply to compare, print or write."""
    about = zipfile.ZipFile(io.BytesIO(good)).read(ABOUT)
    for depth in (100, 300, *range(700, 1000, 20), 10_000):
        refused(rezipped(good, about=deep(about, name, depth)), "the file: ")


def test_the_error_names_the_file(good, tmp_path):
    path = tmp_path / "saved.npz"
    path.write_bytes(good[:-1])
    with path.open("rb") as stream:
        for file in (path, str(path), str(path.with_suffix("")), stream):
            with pytest.raises(ValueError, match=rf"^{path}: the file is not an \.npz archive"):
                make().load_transitions(file)
    with pytest.raises(ValueError, match=r"^the file: "):
        make().load_transitions(io.BytesIO(good[:-1]))
