"""Files of cpprb 11 are read as cpprb reads them, and a pickle in one cannot run code."""

from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

try:
    import cpprb
except ImportError:
    cpprb = None

needs_cpprb = pytest.mark.skipif(cpprb is None, reason="cpprb is not installed for this Python")
DATA = Path(__file__).parent / "data"

PLAIN = {"obs": {"shape": (2, 3)}, "act": {"dtype": np.int64}, "rew": {}, "done": {"dtype": bool}}
FIELDS = {**PLAIN, "next_obs": PLAIN["obs"]}


def step(number: int, age: int, done: bool) -> dict[str, np.ndarray]:
    """Return a step with numbered frames: obs has the last three up to `number`, or copies of the episode's first."""
    frames = np.maximum([number - 2, number - 1, number], number - age)
    obs = np.broadcast_to(frames, (2, 3)).astype(np.float32)
    following = np.broadcast_to(np.append(frames[1:], number + 1), (2, 3)).astype(np.float32)
    return {"obs": obs, "act": number, "rew": number / 2, "done": done, "next_obs": following}


def play(buffer, episodes, ended=True) -> None:
    number = 0
    for n, length in enumerate(episodes):
        for age in range(length):
            done = age == length - 1 and (ended or n < len(episodes) - 1)
            buffer.add(**step(number, age, done))
            number += 1
        if done:
            buffer.on_episode_end()
            number += 1


def their_file(buffer, **options) -> io.BytesIO:
    file = io.BytesIO()
    buffer.save_transitions(file, **options)
    file.seek(0)
    return file


def rows_in(file, size=100):
    buffer = ReplayBuffer(size, FIELDS)
    buffer.load_transitions(file)
    return buffer.get_all_transitions()


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]), name


COMPRESSIONS = [{}, {"next_of": "obs"}, {"stack_compress": "obs"}, {"next_of": "obs", "stack_compress": "obs"}]


@needs_cpprb
@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(5, 15),
    episodes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    ended=st.booleans(),
    options=st.sampled_from(COMPRESSIONS),
)
def test_values_that_cpprb_left_out_are_restored(size, episodes, ended, options):
    theirs = cpprb.ReplayBuffer(size, PLAIN if "next_of" in options else FIELDS, **options)
    ours = ReplayBuffer(size, FIELDS)
    for buffer in (theirs, ours):
        play(buffer, episodes, ended)
    read, right = rows_in(their_file(theirs, safe=False)), ours.get_all_transitions()
    if len(options) == 2:  # because their cache itself may then be wrong: see the next test
        their_own = theirs.get_all_transitions()
        off = (read["next_obs"] != right["next_obs"]).any(axis=(1, 2))
        assert np.array_equal(read["next_obs"][off], their_own["next_obs"][off])
        right["next_obs"][off] = their_own["next_obs"][off]
    same(read, right)
    same(rows_in(their_file(theirs, safe=True)), theirs.get_all_transitions())


@needs_cpprb
def test_next_observations_that_cpprb_expands_wrongly_are_read_correctly():
    """cpprb takes next_obs from the following stack, which was partly overwritten. Only cpprb's cache is right."""
    theirs = cpprb.ReplayBuffer(6, PLAIN, next_of="obs", stack_compress="obs")
    ours = ReplayBuffer(6, FIELDS)
    for buffer in (theirs, ours):
        play(buffer, [4, 9, 1], ended=False)
    wrong, right = (buffer._encode_sample([5])["next_obs"][0, 0] for buffer in (theirs, ours))
    assert not np.array_equal(wrong, right)
    assert np.array_equal(rows_in(their_file(theirs, safe=False))["next_obs"][5, 0], right)


@needs_cpprb
@pytest.mark.parametrize("options", [{}, {"next_of": "obs"}, {"stack_compress": "obs"}])
@pytest.mark.parametrize("safe", [True, False])
def test_loading_appends_the_same_rows_as_cpprb(safe, options):
    theirs = cpprb.ReplayBuffer(9, PLAIN if "next_of" in options else FIELDS, **options)
    play(theirs, [4, 6, 3])
    file = their_file(theirs, safe=safe)
    buffers = [cpprb.ReplayBuffer(20, FIELDS), ReplayBuffer(20, FIELDS)]
    for buffer in buffers:
        play(buffer, [3])
        file.seek(0)
        buffer.load_transitions(file)
    same(*[buffer.get_all_transitions() for buffer in buffers])


@needs_cpprb
def test_files_are_loaded_into_prioritized_buffers():
    theirs = cpprb.PrioritizedReplayBuffer(9, FIELDS)
    play(theirs, [5])
    ours = PrioritizedReplayBuffer(9, FIELDS, alpha=1.0, eps=0.0)
    ours.add(**step(50, 0, False), priorities=3.0)
    ours.load_transitions(their_file(theirs))
    assert ours._get_leaves(range(6)).tolist() == [3.0] * 6


@needs_cpprb
def test_n_step_files_are_loaded_only_into_n_step_buffers():
    nstep = {"size": 2, "rew": "rew", "next": "next_obs"}
    theirs = cpprb.ReplayBuffer(9, FIELDS, Nstep=nstep)
    play(theirs, [5])
    with pytest.raises(ValueError, match="n-step"):
        ReplayBuffer(9, FIELDS).load_transitions(their_file(theirs))
    ours = ReplayBuffer(9, FIELDS, Nstep=nstep)
    ours.load_transitions(their_file(theirs))
    same(ours.get_all_transitions(), theirs.get_all_transitions())
    play(theirs := cpprb.ReplayBuffer(9, FIELDS), [5])
    with pytest.raises(ValueError, match="n-step"):
        ours.load_transitions(their_file(theirs))


@needs_cpprb
@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("options", COMPRESSIONS)
def test_files_are_loaded_into_buffers_that_share_frames(safe, options):
    theirs = cpprb.ReplayBuffer(9, PLAIN, next_of="obs", stack_compress="obs")
    play(theirs, [4, 3])
    expected, ours = ReplayBuffer(9, FIELDS), ReplayBuffer(9, PLAIN if "next_of" in options else FIELDS, **options)
    play(expected, [4, 3])
    ours.load_transitions(their_file(theirs, safe=safe))
    same(ours.get_all_transitions(), expected.get_all_transitions())


DTYPES = ["f2", "f4", ">f8", "i1", "u2", "?", "c8", "U3", "S4", "M8[s]", "m8[3ms]", "g"]


@needs_cpprb
@pytest.mark.parametrize("dtype", DTYPES)
def test_fields_of_every_dtype_are_loaded(dtype):
    buffers = [kind(4, {"x": {"dtype": dtype, "shape": 2}}) for kind in (cpprb.ReplayBuffer, ReplayBuffer)]
    buffers[0].add(x=np.array([0, 1]).astype(dtype))
    buffers[1].load_transitions(their_file(buffers[0]))
    same(*[buffer.get_all_transitions() for buffer in buffers])


@pytest.mark.parametrize("name", ["next_of_stack_compress_unsafe.npz", "plain_safe.npz"])
@pytest.mark.parametrize("module", ["numpy.core", "numpy._core"])
def test_files_of_earlier_versions_are_loaded(name, module):
    """The file has `play(..., [4, 6, 3])` in 9 rows, by cpprb 11.0.0 and NumPy 1.26. NumPy 2 renamed a module."""
    data = with_members(DATA / name, lambda _, content: content.replace(b"cnumpy.core.m", f"c{module}.m".encode()))
    rows = rows_in(io.BytesIO(data))
    expected = ReplayBuffer(9, FIELDS)
    play(expected, [4, 6, 3])
    same(rows, expected.get_all_transitions())


def test_pickles_of_later_protocols_are_loaded():
    """NumPy 2 writes such pickles."""
    expected = ReplayBuffer(9, FIELDS)
    play(expected, [4, 6, 3])
    members = {"safe": True, "version": 1, "data": expected.get_all_transitions(), "Nstep": False, "cache": None}
    for protocol in (3, 4):
        same(rows_in(pickled({**members, "next_of": None}, protocol)), expected.get_all_transitions())


def with_members(file, change) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
    return out.getvalue()


def pickled(members, protocol=3) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            member = io.BytesIO()
            if isinstance(value, bytes):  # a pickle, used unchanged
                np.lib.format.write_array_header_1_0(member, {"descr": "|O", "fortran_order": False, "shape": ()})
                member.write(value)
            else:
                array = np.empty((), object) if value is None or isinstance(value, dict) else np.array(value)
                if array.dtype == object:
                    array[()] = value
                    np.lib.format.write_array_header_1_0(member, {"descr": "|O", "fortran_order": False, "shape": ()})
                    pickle.dump(array, member, protocol)
                else:
                    np.lib.format.write_array(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
    file.seek(0)
    return file


BASE = {"safe": True, "version": 1, "data": {"x": np.ones((2, 1), np.float32)}, "Nstep": False, "cache": None}
BASE["next_of"] = None
X = {"x": {}}


def refused(members, says, fields=X):
    buffer = ReplayBuffer(4, fields)
    buffer.add(**dict.fromkeys(fields, 7))
    with pytest.raises(ValueError, match=says):
        buffer.load_transitions(pickled({**BASE, **members}))
    assert buffer.get_all_transitions()["x"].ravel().tolist() == [7]


def test_the_unchanged_file_is_loaded():
    buffer = ReplayBuffer(4, X)
    buffer.load_transitions(pickled(BASE))
    assert buffer.get_all_transitions()["x"].ravel().tolist() == [1, 1]


class RunsCode:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_code_in_a_pickle_is_not_run(tmp_path):
    """The control: NumPy's own reader with pickles allowed, which cpprb uses, runs the code."""
    for member in ("data", "cache", "next_of"):
        evil = pickle.dumps(RunsCode(tmp_path / member), 3)
        refused({member: evil, "safe": False}, "refers to posix.mkdir")
        refused({member: {"x": RunsCode(tmp_path / member)}, "safe": False}, "refers to posix.mkdir")
        assert os.listdir(tmp_path) == []
        np.load(pickled({**BASE, member: evil}), allow_pickle=True)[member]
        assert os.listdir(tmp_path) == [member]
        os.rmdir(tmp_path / member)


def of_numpy(tail: bytes) -> bytes:
    """Return a pickle that begins with an array of NumPy, with `tail` in place of its state."""
    return b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R" + tail


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "data"),
        (b"\x80\x03N.", "must contain an array with one object"),
        (b"\x80\x03cbuiltins\neval\nX\x01\x00\x00\x00110R.", "data"),
        (b"\x80\x03cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "refers to builtins.eval"),
        (b"\x80\x03cnumpy\nload\nX\x01\x00\x00\x001\x85R.", "refers to numpy.load"),
        (b"\x80\x03cnumpy.core.multiarray\n_reconstruct\n}X\x01\x00\x00\x00aK\x01sb.", "sets attributes"),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "data"),
        (b"\x80\x04\x8e\x00\x00\x00\x00\x00\x10\x00\x00ab.", "data"),  # announces 2^44 bytes
        (b"\x80\x03Nr\xff\xff\xff\x7f.", "must contain an array"),  # slot 2^31 of the memo
        (b"\x80\x03I1\n.", "opcode INT"),
        (b"\x80\x05\x97.", "opcode NEXT_BUFFER"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (of_numpy(b"(K\x01)cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R\x89](NNetb."), "data"),
        (
            of_numpy(
                b"(K\x01\x8a\x07\x00\x00\x00\x00\x00\x00\x01\x85cnumpy\ndtype\nX\x02\x00\x00\x00f4\x85R\x89C\x01atb."
            ),
            "does not fit",
        ),
        (of_numpy(b"K\x01b."), "data"),
        (of_numpy(b"."), "must contain an array"),
    ],
)
def test_pickles_that_numpy_never_writes_are_refused(data, says):
    tracemalloc.start()
    refused({"data": data}, says)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {0: value, 1: value}
    return value


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"version": 2}, "version must be 1.* got 2"),
        ({"Nstep": True}, "n-step"),
        ({"data": {"y": np.ones((2, 1), np.float32)}}, "among the buffer's.* got 'y'"),
        ({"data": {}}, "fields"),
        ({"data": nested(60)}, "twice"),
        ({"data": {"x": nested(60)}}, "twice"),
        ({"data": {"x": np.ones((2, 2), np.float32)}}, "x: shape"),
        ({"data": {"x": np.ones((2, 1))}}, "x: dtype"),
        ({"data": {"x": np.ones((2, 1), object)}}, "APPENDS"),
        ({"data": {"x": np.ones((2, 1), [("a", "f4")])}}, "dtype 'V4'|compound"),
        ({"data": {"x": None}}, "must be an array"),
        ({"data": np.ones(3)}, "must be a dict"),
        ({"safe": False, "cache": {2: {}}}, "cache"),
        ({"safe": False, "cache": {-1: {}}}, "cache"),
        ({"safe": False, "cache": {"0": {}}}, "cache"),
        ({"safe": False, "cache": {0: {"y": np.ones(1, np.float32)}}}, "cache"),
        ({"safe": False, "cache": {0: {"x": np.ones(2, np.float32)}}}, "x of row 0 must"),
        ({"safe": False, "cache": {0: {"x": np.ones(1)}}}, "x of row 0 must"),
        ({"safe": False, "cache": {0: nested(60)}}, "cache"),
        ({"safe": False, "next_of": np.array(["y"])}, "next_of: 'y'"),
        ({"safe": False, "next_of": np.array([1])}, "names"),
        ({"safe": False, "next_of": np.array(["x"])}, "fields"),
    ],
)
def test_members_that_cpprb_never_writes_are_refused(members, says):
    refused(members, says)


def dict_with_key(key: bytes) -> bytes:
    """Return a pickle of an array that contains the dict {key: None}. `key` is the opcodes of the key."""
    dtype = b"cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    return of_numpy(b"(K\x01)" + dtype + b"\x89]}" + key + b"Nsatb.")


@pytest.mark.parametrize("member", ["data", "cache", "next_of", "safe", "Nstep", "version"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (dict_with_key(b"K\x00" + b"\x85" * 400_000), "opcodes|nests"),
        (dict_with_key(b"K\x00" + b"\x85" * 1000), "nests"),
        (dict_with_key(b"K\x00" + b"\x85" * 12), "nests"),
        (dict_with_key(b"K\x00" + b"q\x05h\x05\x86" * 60), "nests"),  # with 2^60 leaves
        (dict_with_key(b"K\x00" + b"q\x05h\x05\x86" * 3), "keys"),
        (dict_with_key(b"K\x00\x85"), "keys"),
        (dict_with_key(b"N"), "keys"),
        (dict_with_key(b"\x8a\x08" + (2**61 - 1).to_bytes(8, "little")), "keys"),  # multiples of it have the same hash
        (dict_with_key(b"K\x01" + b"}K\x01" * 1000 + b"N" + b"s" * 1000), "nests"),
        (dict_with_key(b"}q\x05h\x05"), "twice"),
        (b"\x80\x03" + b"}" * 200_000 + b".", "opcodes"),
        (b"\x80\x03" + b"]" * 1000 + b"a" * 999 + b".", "nests"),
        (b"\x80\x03" + b"(" * 1000 + b".", "must contain an array"),
        (b"\x80\x03h\x00.", "data|cache|next_of|safe|Nstep|version"),
        (b"\x80\x03a.", "data|cache|next_of|safe|Nstep|version"),
    ],
)
def test_deep_and_wide_pickles_raise_value_error(member, content, says):
    """They cause neither a crash of Python's unpickler, which hashes keys, nor a RecursionError."""
    refused({member: content, "safe": content if member == "safe" else False}, says)


def test_a_shape_with_very_many_lengths_is_refused():
    """Multiplying the lengths would take minutes."""
    lengths = b"\x8a\x08" + b"\xff" * 7 + b"\x7fq\x05" + b"h\x05" * 30_000
    tail = b"(K\x01(" + lengths + b"tcnumpy\ndtype\nX\x02\x00\x00\x00f4\x85R\x89C\x01atb."
    refused({"data": of_numpy(tail)}, "a tuple of at most 32 lengths")


def test_scalars_that_multiply_their_bytes_are_refused():
    """A string of 100,000 letters that is stored once and referred to by 10,000 scalars is 1 GB."""
    letters = "x" * 100_000
    text = letters.encode("utf-32-le")
    dtype = b"cnumpy\ndtype\nX\x07\x00\x00\x00U100000\x85R(K\x03X\x01\x00\x00\x00<NNNK\x04K\x04K\x08tb"
    scalar = b"cnumpy.core.multiarray\nscalar\n" + dtype + b"B" + len(text).to_bytes(4, "little") + text + b"\x86q\x05"
    again = b"cnumpy.core.multiarray\nscalar\nq\x06" + b"h\x06h\x05R" * 10_000
    tracemalloc.start()
    refused({"data": b"\x80\x03" + scalar + again + b"."}, "more bytes than the pickle")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_code_points_beyond_unicode_are_refused():
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "<U1", "fortran_order": False, "shape": (1,)})
    data = pickled({**BASE, "safe": False}).getvalue()
    change = {"next_of.npy": member.getvalue() + b"\xff\xff\xff\x7f"}
    with pytest.raises(ValueError, match="the file"):
        ReplayBuffer(4, X).load_transitions(io.BytesIO(with_members(io.BytesIO(data), lambda n, c: change.get(n, c))))


def test_other_compression_methods_are_refused(tmp_path):
    """For example, the header of LZMA data says how many gigabytes the decoder allocates."""
    file = tmp_path / "lzma.npz"
    with zipfile.ZipFile(pickled(BASE)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    with pytest.raises(ValueError, match=r"lzma\.npz: version: the member must be stored or deflated"):
        ReplayBuffer(4, X).load_transitions(file)


def test_a_field_in_both_data_and_next_of_is_refused():
    both = {"x": np.ones((2, 1), np.float32), "next_x": np.ones((2, 1), np.float32)}
    refused(
        {"safe": False, "data": both, "next_of": np.array(["x"])},
        "next_x is not stored",
        {"x": {}, "next_x": {}},
    )


@pytest.mark.parametrize("missing", BASE)
def test_missing_members_are_refused(missing):
    with pytest.raises(ValueError, match=r"missing|saved by"):
        ReplayBuffer(4, X).load_transitions(pickled({name: BASE[name] for name in BASE if name != missing}))


def test_a_zip_bomb_allocates_no_memory():
    file = pickled({**BASE, "data": {"x": np.zeros((10**8, 1), np.float32)}})
    assert len(file.getvalue()) < 10**6
    tracemalloc.start()
    with pytest.raises(ValueError, match="at most"):
        ReplayBuffer(1000, X).load_transitions(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
    buffer = ReplayBuffer(10, X)
    buffer.load_transitions(pickled({**BASE, "data": {"x": np.arange(5000, dtype=np.float32)[:, None]}}))
    assert buffer.get_all_transitions()["x"].ravel().tolist() == list(range(4990, 5000))


def test_truncated_and_changed_files_are_refused():
    whole = (DATA / "next_of_stack_compress_unsafe.npz").read_bytes()
    expected = rows_in(io.BytesIO(whole))
    for length in range(0, len(whole) - 1, 31):
        with pytest.raises(ValueError, match=r"^the file"):
            rows_in(io.BytesIO(whole[:length]))
    taken = 0
    for at in range(0, len(whole), 3):
        data = bytearray(whole)
        data[at] ^= 0x21
        try:
            same(rows_in(io.BytesIO(data)), expected)
            taken += 1
        except ValueError:
            pass
    assert taken < len(whole) / 6


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # from a changed header that Python parses
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_pickle_is_refused_or_harmless(data):
    """Bypasses zip's checksums: any file that is accepted has the fields and types of the buffer."""
    pattern = data.draw(st.sampled_from(["data", "cache", "next_of", "safe", "version"])) + ".npy"
    place, value = data.draw(st.integers(0, 5000)), data.draw(st.binary(min_size=1, max_size=4))

    def change(name, content):
        if name != pattern:
            return content
        at = place % len(content)
        return content[:at] + value + content[at + len(value) :]

    file = DATA / "next_of_stack_compress_unsafe.npz"
    buffer = ReplayBuffer(100, FIELDS)
    try:
        buffer.load_transitions(io.BytesIO(with_members(file, change)))
    except ValueError:
        assert buffer.get_stored_size() == 0
    else:
        assert buffer.get_stored_size() == 9
