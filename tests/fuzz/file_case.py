"""One case of fuzzing `load_transitions`: load an altered file, written by our buffer or by cpprb.

The oracle: the call raises ValueError and leaves the buffer unchanged, or it loads the file and the buffer works. After
a change inside an archive the checksums are corrected, since otherwise the code behind them would never be reached.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import pickletools
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

ABOUT = "about.json"
# The fields in the files of cpprb.
FIELDS = {"obs": {"shape": (2, 3)}, "act": {"dtype": np.int64}, "rew": {}, "done": {"dtype": bool}}
NEXT = {"next_obs": FIELDS["obs"]}
KINDS: list[tuple[type, dict[str, Any], dict[str, Any]]] = [
    (ReplayBuffer, FIELDS | NEXT, {}),
    (PrioritizedReplayBuffer, FIELDS | NEXT, {}),
    (ReplayBuffer, FIELDS, {"next_of": "obs", "stack_compress": "obs"}),
    (PrioritizedReplayBuffer, FIELDS | NEXT, {"Nstep": {"size": 2, "rew": "rew", "next": "next_obs"}}),
]
THEIRS = sorted((Path(__file__).parents[1] / "cpprb_impl/data").glob("*.npz"))
NUMBERS = [0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, float("nan"), float("inf")]
ODD: list[Any] = [*NUMBERS, None, True, "", "obs", "f4", "|O", "V0", [], [0], [-1], [2**62, 4], {}, {"a": 1}]


def make(kind: int, size: int) -> Any:
    of, fields, options = KINDS[kind]
    return of(size, fields, seed=1, **options)


def fill(buffer: Any, rows: int) -> None:
    for number in range(rows):
        frames = np.tile(np.arange(number, number + 4), (2, 1))  # the frames of obs, and one more for next_obs
        step = {"obs": frames[:, :3], "next_obs": frames[:, 1:], "act": number, "rew": 1.0, "done": False}
        buffer.add(**step)


def saved(buffer: Any) -> bytes:
    file = io.BytesIO()
    buffer.save_transitions(file)
    return file.getvalue()


@functools.cache
def good_file(kind: int, rows: int) -> bytes:
    buffer = make(kind, 8)
    fill(buffer, rows)
    return saved(buffer)


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 8, 100])
    return rng.choice(
        [
            lambda: data[:at],
            lambda: data[:at] + rng.randbytes(length) + data[at + length :],
            lambda: data[:at] + rng.randbytes(length) + data[at:],
            lambda: data[:at] + data[at + length :],
            lambda: data[:at] + data[max(0, at - length) : at] + data[at:],
            lambda: data[:at] + b"\xff" * length + data[at + length :],
        ]
    )()


def changed_values(rng: random.Random, data: bytes) -> bytes:
    """Return an .npy member with other numbers."""
    body = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        body[rng.randrange(min(128, len(body) - 1), len(body))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    return bytes(body)


def changed_json(rng: random.Random, value: Any) -> Any:
    """Return `value` with a change in one place."""
    if isinstance(value, dict | list) and value and rng.randrange(5):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        if rng.randrange(6) == 0:
            del value[key]
        elif isinstance(value, dict) and rng.randrange(8) == 0:
            value[rng.choice(["", "obs", "next_obs", "x" * 300])] = value.pop(key)
        else:
            value[key] = changed_json(rng, value[key])
        return value
    return rng.choice(ODD) if rng.randrange(20) else functools.reduce(lambda inner, _: [inner], range(400), 0)


# Opcodes that nest values, or that insert the same value twice.
NESTING = [b"\x85", b"\x86", b"\x87", b"(t", b"(", b"t", b"}", b"]", b"s", b"u", b"a", b"K\x00", b"N", b"}K\x00"]
NESTING += [b"q\x05h\x05", b"q\x05h\x05\x86", b"h\x01", b"R", b"b", b"2"]


def changed_pickle(rng: random.Random, data: bytes) -> bytes:
    """Return an .npy member with additional opcodes in its pickle, some of them repeated many times."""
    begin = 10 + int.from_bytes(data[8:10], "little")
    try:
        opcodes = [(opcode.name, place or 0) for opcode, _, place in pickletools.genops(data[begin:])]
    except ValueError:  # the pickle was changed before
        return changed_bytes(rng, data)
    after_names = [opcodes[i + 1][1] for i, (name, _) in enumerate(opcodes) if name in ("BINUNICODE", "BININT1")]
    at = begin + rng.choice(rng.choice([after_names, [place for _, place in opcodes]]))
    more = b"".join(rng.choices(NESTING, k=rng.choice([1, 1, 1, 2, 3]))) * rng.choice([1, 3, 60, 1000, 30_000, 400_000])
    return data[:at] + more + data[at:]


def changed_header(rng: random.Random, data: bytes) -> bytes:
    """Return an .npy member whose header describes different data."""
    if rng.randrange(8) == 0:
        text = rng.choice([b"-", b"(", b"[", b"{", b"~", b"1,", b"'"]) * 9800
        text = text[: rng.choice([9, 100, 1000, 9800])] + b"\n"
        return data[:8] + len(text).to_bytes(2, "little") + text + data[128:]
    for old in rng.sample([b"'<f4'", b"'|u1'", b"'<i8'", b"False", b"(", b"1", b"2", b",)"], 8):
        if old in data[:128]:
            new = rng.choice([b"'|O'", b"'<f8'", b"'>i8'", b"'|V0'", b"True", b"((", b"-1", b"99999999999", b""])
            head = data[:128].replace(old, new, 1)[:128].ljust(128)
            return head + data[128:]
    return changed_bytes(rng, data)


Members = list[tuple[str, bytes]]


def unpacked(data: bytes) -> tuple[Members, int]:
    """Return the members and their compression method."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        return [(info.filename, archive.read(info)) for info in infos], infos[0].compress_type


def packed(members: Members, compression: int) -> bytes:
    """Return an archive with correct checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, body in with_checksum(members):
            archive.writestr(zipfile.ZipInfo(name), body, compression)
    return file.getvalue()


def changed_archive(rng: random.Random, data: bytes) -> bytes:
    members, compression = unpacked(data)
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.randrange(len(members))
        name, body = members[at]
        if name == ABOUT:
            told = changed_json(rng, json.loads(body))
            members[at] = name, json.dumps(told).encode() if isinstance(told, dict) else body
        else:
            change = rng.choice([changed_bytes, changed_values, changed_values, changed_header])
            if b"'|O'" in body[:128] and rng.randrange(2):
                change = changed_pickle
            members[at] = name, change(rng, body) if body else body
        if rng.randrange(12) == 0:
            members.insert(rng.randrange(len(members)), members.pop(at))
        if rng.randrange(12) == 0:
            members.pop(at % len(members))
    return packed(members, compression)


def with_checksum(members: Members) -> Members:
    digest, told = hashlib.sha256(), None
    for name, body in members:
        if name == ABOUT:
            told = json.loads(body)
        else:
            digest.update(name.removesuffix(".npy").encode() + b"\0" + body)
    if told is None:
        return members
    told.pop("checksum", None)
    digest.update(json.dumps(told, sort_keys=True).encode())
    body = json.dumps(told | {"checksum": digest.hexdigest()}).encode()
    return [(name, body if name == ABOUT else old) for name, old in members]


def run(rng: random.Random) -> bool:
    """Return whether the file was loaded. Raises AssertionError if the buffer is wrong."""
    kind = rng.randrange(len(KINDS))
    theirs = THEIRS and rng.randrange(3) == 0
    data = rng.choice(THEIRS).read_bytes() if theirs else good_file(kind, rng.choice([0, 3, 11]))
    change = rng.choice([changed_bytes, changed_archive, changed_archive, changed_archive])
    data = change(rng, data)
    buffer = make(kind, rng.choice([8, 8, 5, 20]))
    fill(buffer, rng.choice([0, 0, 4]))
    before = saved(buffer)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy, about odd headers
            buffer.load_transitions(io.BytesIO(data))
    except ValueError:
        assert saved(buffer) == before, "a file was refused, and the buffer has changed"
        return False
    check_works(buffer, kind)
    return True


def check_works(buffer: Any, kind: int) -> None:
    stored = buffer.get_stored_size()
    assert 0 <= stored <= buffer.get_buffer_size()
    columns = buffer.get_all_transitions()
    assert {len(column) for column in columns.values()} == {stored}
    again = make(kind, buffer.get_buffer_size())
    again.load_transitions(io.BytesIO(saved(buffer)))
    assert saved(again) == saved(buffer), "what was saved is not what is loaded"
    if stored and isinstance(buffer, PrioritizedReplayBuffer):
        try:
            batch = buffer.sample(5)
        except ValueError as error:
            assert "every stored priority is 0" in str(error)
        else:
            assert np.isfinite(batch["weights"]).all()
    fill(buffer, 3)
    buffer.clear()
