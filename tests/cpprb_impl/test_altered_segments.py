"""Attaching to a segment with an altered header or description raises a documented error or yields a working buffer."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.layout.layout import Layout

from .rows import ENV_DICT

SHM = Path("/dev/shm")
NSTEP = {"size": 2, "rew": "rew", "next": "next_obs"}
FRAMES = {"obs": {"shape": (8, 8, 4)}, "rew": {}}
KINDS = {
    "plain": (MPReplayBuffer, ENV_DICT, {}),
    "prioritized": (MPPrioritizedReplayBuffer, ENV_DICT, {"Nstep": NSTEP}),
    "frames": (MPPrioritizedReplayBuffer, FRAMES, {"next_of": "obs", "stack_compress": "obs"}),
}
# From core/protocol/segment_header.hpp: the words that are written once, then the counters up to the locks.
WORDS = ["magic", "capacity", "stride", "journal_at", "rows_at", "description_at", "description_bytes", "tables_at"]
WORDS += ["frames_at", "bytes", "discipline and prioritized"]
COUNTERS = range(128, 320)
CHANGES = [0, 1, 2**63, 2**64 - 1, 2**52, 2**32, 2**31, 4096, 8, 64]


def word(data: bytes, name: str) -> int:
    return struct.unpack_from("<Q", data, 8 * WORDS.index(name))[0]


def add_some(buffer, count: int) -> None:
    columns = buffer.get([])
    buffer.add(**{name: np.ones((count, *column.shape[1:]), column.dtype) for name, column in columns.items()})


def made(kind: str):
    of, env_dict, options = KINDS[kind]
    buffer = of(100, env_dict, **options)
    add_some(buffer, 5)
    return buffer


def front_of(buffer) -> tuple[bytes, int]:
    """Return the segment up to its frames, which are mostly holes, and the length of the whole segment."""
    with (SHM / buffer.segment.strip("/")).open("rb") as file:
        header = file.read(8 * len(WORDS))
        file.seek(0)
        return file.read(word(header, "frames_at")), word(header, "bytes")


def altered(rng: random.Random, data: bytes) -> bytes:
    copy = bytearray(data)
    begin, length = word(data, "description_at"), word(data, "description_bytes")
    description = range(begin, begin + length)
    place = rng.choice([range(8 * len(WORDS)), range(8 * len(WORDS)), COUNTERS, description])
    for _ in range(rng.choice([1, 1, 1, 2])):
        at = rng.choice(place)
        if rng.randrange(2) or place == description:
            copy[at] = rng.choice([copy[at] ^ 1 << rng.randrange(8), *b'019"{}[],', rng.randrange(256)])
        else:
            at -= at % 8
            (old,) = struct.unpack_from("<Q", copy, at)
            change = rng.choice(CHANGES)
            struct.pack_into("<Q", copy, at, rng.choice([change, old + change, old - change]) % 2**64)
    return bytes(copy)


def attach_and_use(name: str, kind: type) -> bool:
    """Return whether the segment was accepted as a buffer. Raises errors that `attach` and buffers must not raise."""
    try:
        buffer = kind.attach(name)
    except (ValueError, RuntimeError, OSError) as error:
        assert str(error)
        return False
    assert 0 <= buffer.get_stored_size() <= buffer.get_buffer_size()
    buffer.get_all_transitions()
    add_some(buffer, 3)
    add_some(buffer, 3)
    batch = buffer.sample(4)
    if kind is MPPrioritizedReplayBuffer:
        assert np.isfinite(batch["weights"]).all()
        buffer.update_priorities(batch["indexes"], np.ones(4))
        buffer.sample(4)
    buffer.close()
    return True


def attach_to_altered(name: str, kind: str, length: int, cases: int) -> None:
    """Attach to altered segments, in a separate process. Prints each case, and how many were accepted before it."""
    path, taken = SHM / name.strip("/"), 0
    data = path.read_bytes()
    for seed in range(-1, cases):
        print(seed, taken, flush=True)
        with path.open("r+b") as file:
            file.truncate(0)
            file.write(altered(random.Random(seed), data) if seed >= 0 else data)
            file.truncate(length)
        taken += attach_and_use(name, KINDS[kind][0])
        assert taken, "the segment as it was made must be taken"
    print(cases, taken)


@pytest.mark.parametrize("kind", KINDS)
def test_attaching_to_a_segment_with_any_altered_word_does_not_crash(alien, kind):
    buffer = made(kind)
    front, length = front_of(buffer)
    buffer.close()
    code = "import sys; from tests.cpprb_impl.test_altered_segments import attach_to_altered as run; "
    code += "run(sys.argv[1], sys.argv[2], int(sys.argv[3]), 600)"
    command = [sys.executable, "-c", code, alien(front), kind, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"status {done.returncode}, case {last}: {done.stderr[-2000:]}"
    assert 30 < int(last[0].split()[1]) < 570, "hardly any case tests what it is about"


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_value_of_each_word_that_is_written_once_is_refused(alien, name, kind):
    buffer = made(kind)
    front, length = front_of(buffer)
    buffer.close()
    for change in (8, -8, 4096, -4096, 2**32, 2**63):
        wrong = bytearray(front)
        struct.pack_into("<Q", wrong, 8 * WORDS.index(name), (word(front, name) + change) % 2**64)
        segment = alien(bytes(wrong))
        os.truncate(SHM / segment.strip("/"), length)
        with pytest.raises((ValueError, RuntimeError), match=segment):
            KINDS[kind][0].attach(segment)


OPTIONS = {"lock": "none", "next_of": [], "stack_compress": {}, "prefault": False}
OF_PRIORITIES = {"alpha": 0.6, "eps": 1e-4, "check_for_update": True, "normalize": "buffer"}
STEPS = {"size": 2, "gamma": 0.9, "rew": ["x"], "next": []}


def fields(**changes) -> list:
    return [{"name": "x", "dtype": "<f4", "shape": [3]} | changes, {"name": "done", "dtype": "|b1", "shape": [1]}]


def described(**changes) -> str:
    recipe = {"size": 100, "fields": fields(), "options": OPTIONS, "prioritized": False, "nstep": None}
    return json.dumps(recipe | changes, sort_keys=True)


def of_field(**values: list) -> list[str]:
    return [described(fields=fields(**{name: value})) for name, of in values.items() for value in of]


def of_options(**values: list) -> list[str]:
    return [described(options=OPTIONS | {name: value}) for name, of in values.items() for value in of]


def of_steps(**values: list) -> list[str]:
    return [described(nstep=STEPS | {name: value}) for name, of in values.items() for value in of]


def segment_with(description: str, prioritized=False):
    """Return a buffer whose segment has this description, right or wrong."""
    kind, native = (PrioritizedRing, {"alpha": 0.6}) if prioritized else (Ring, {})
    of = [("x", np.dtype("f4"), (3,)), ("done", np.dtype(bool), (1,))]
    return kind(Layout(100, of, {"lock": "none", **native}, prioritized), description=description)


def test_an_unaltered_description_is_accepted():
    for description in (described(), described(nstep=STEPS)):
        maker = segment_with(description)
        attached = MPReplayBuffer.attach(maker.segment)
        attached.add(x=[[1, 2, 3]] * 2, done=[0, 0])
        assert maker.get_stored_size() == (2 if description == described() else 1)
        attached.close()
        maker.close()


@pytest.mark.parametrize(
    "description",
    [
        *("", "5", "null", "[]", "{}", "true", '""', "[" * 100_000, "{", "\xff", "NaN"),
        " " + described(),
        described(more=1),
        *(described(size=size) for size in (0, -1, 1.0, True, None, "100", 10**18, 2**63, 10**400, 99)),
        *(described(prioritized=of) for of in (1, None, "no")),
        *(described(fields=of) for of in (None, {}, [], [1], ["x"], [[]], [{}], "x", [], fields() * 2)),
        *of_field(name=[None, 1, ["x"], {}]),
        *of_field(shape=[None, 3, [3.0], ["3"], [-1], [0], [4], [2**62], [2**63], [1] * 99]),
        *of_field(dtype=["|O", "<f5", "<f8", "", "f4,f4", "(" * 500, 1, {}, "|V0", "|V4294967300"]),
        *of_field(dtype=[[], [1], [["a"]], [["a", "|O"]], [["a", []]], [[[], "<f4"]], [["a", "<f4", [2**40]]]]),
        described().replace('"<f4"', "[" * 500 + "]" * 500),
        *(described(options=of) for of in (None, [], 1, {}, {"lock": "none", "segment": "x"})),
        *of_options(lock=[None, 1, "buffer", "unshared", "other", []], next_of=[1, ["y"], [1], "y"]),
        *of_options(more=[1], segment=["x"], batch_through_python=[True, False]),
        *of_options(sequences=[1, {}, {"size": 0}, {"size": 2, "more": 1}, {"size": 2}]),
        *of_options(mmap_prefix=[1, "\udc80\ud800", "a\0b", "/nowhere/at/all"]),
        *(described(nstep=of) for of in (1, [], {}, {"size": 2}, "x")),
        *of_steps(size=[0, 1.5, "2", None, 10**400], gamma=[None, "x", -1.0, float("nan"), []]),
        *of_steps(rew=[None, 1, "x", ["y"], [[]], ["done"]], next=[["y"], 1], more=[1]),
    ],
)
def test_impossible_descriptions_are_refused(description):
    maker = segment_with(description)
    with pytest.raises((ValueError, RuntimeError, FileNotFoundError), match=r"cpprb_impl-|/nowhere"):
        MPReplayBuffer.attach(maker.segment)
    maker.close()


@pytest.mark.parametrize("exponent", [None, "x", -1.0, float("nan"), float("inf"), [], 10**400])
@pytest.mark.parametrize("name", ["alpha", "eps"])
def test_impossible_exponents_are_refused(name, exponent):
    options = OPTIONS | OF_PRIORITIES
    for value, refused in ((options[name], False), (exponent, True)):
        maker = segment_with(described(prioritized=True, options=options | {name: value}), prioritized=True)
        if refused:
            with pytest.raises(ValueError, match="cpprb_impl-"):
                MPPrioritizedReplayBuffer.attach(maker.segment)
        else:
            MPPrioritizedReplayBuffer.attach(maker.segment).close()
        maker.close()


@pytest.mark.parametrize(
    "options",
    [
        *(OPTIONS | OF_PRIORITIES | {name: value} for name, value in (("autoreset", None), ("n_envs", 1))),
        *({**OPTIONS, **OF_PRIORITIES, lacking: ...} for lacking in (*OPTIONS, *OF_PRIORITIES)),
    ],
)
def test_options_that_no_prioritized_buffer_writes_are_refused(options):
    options = {name: value for name, value in options.items() if value is not ...}
    maker = segment_with(described(prioritized=True, options=options), prioritized=True)
    with pytest.raises(ValueError, match="its options must be those of a shared buffer"):
        MPPrioritizedReplayBuffer.attach(maker.segment)
    maker.close()


def test_options_of_priorities_are_refused_in_a_uniform_buffer():
    maker = segment_with(described(options=OPTIONS | OF_PRIORITIES))
    with pytest.raises(ValueError, match="its options must be those of a shared buffer"):
        MPReplayBuffer.attach(maker.segment)
    maker.close()


def test_a_bad_seed_is_reported_as_an_error_of_the_caller():
    maker = segment_with(described())
    with pytest.raises(TypeError, match="seed must be an int"):
        MPReplayBuffer.attach(maker.segment, seed="x")
    maker.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_segment_of_another_user_is_refused(alien):
    """Root, or any user with permission, could open such a segment."""
    buffer = made("plain")
    name = alien(front_of(buffer)[0])
    MPReplayBuffer.attach(name).close()
    os.chown(SHM / name.strip("/"), 65534, -1)
    with pytest.raises(PermissionError, match=f"{name} belongs to another user"):
        MPReplayBuffer.attach(name)
    buffer.close()
