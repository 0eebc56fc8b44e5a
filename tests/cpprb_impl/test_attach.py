"""One buffer in many processes, attached by the name of its segment or by pickle, and the errors if attaching fails."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, ReplayBuffer
from cpprb_impl.layout.layout import Layout
from cpprb_impl.processes import host

from .rows import ENV_DICT, make_rows, stored_numbers

SHM = Path("/dev/shm")
BUFFERS = pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])


class Mine(MPReplayBuffer):
    """A user's own subclass."""

    def doubled(self, count):
        return {name: 2 * column for name, column in self.sample(count).items()}


class MinePrioritized(MPPrioritizedReplayBuffer):
    __slots__ = ("slot",)


@pytest.fixture
def make():
    made = []

    def build(kind=MPReplayBuffer, size=100, env_dict=ENV_DICT, **options):
        made.append(kind(size, env_dict, **options))
        return made[-1]

    yield build
    for buffer in made:
        buffer.close()


def contents_of(buffer) -> bytes:
    return (SHM / buffer.segment.strip("/")).read_bytes()


@BUFFERS
def test_any_process_can_attach_by_name(make, kind):
    buffer = make(kind)
    buffer.add(**make_rows(0, 3))
    code = f"""if True:
        import sys
        from cpprb_impl import {kind.__name__}
        from tests.cpprb_impl.rows import make_rows, stored_numbers
        buffer = {kind.__name__}.attach(sys.argv[1])
        first = len(stored_numbers(buffer))
        buffer.add(**make_rows(first, 2))
    """
    for name in (buffer.segment, buffer.segment.strip("/"), buffer.segment):
        subprocess.run([sys.executable, "-c", code, name], check=True, timeout=60)
    assert stored_numbers(buffer) == list(range(9))


@BUFFERS
def test_a_segment_can_be_attached_repeatedly(make, kind):
    buffer = make(kind)
    attached = [kind.attach(buffer.segment) for _ in range(3)]
    attached += [kind.attach(attached[0].segment)]
    for first, each in enumerate(attached):
        each.add(**make_rows(first, 1))
    assert all(stored_numbers(each) == [0, 1, 2, 3] for each in [buffer, *attached])
    attached.pop().close()
    buffer.close()
    assert all(stored_numbers(each) == [0, 1, 2, 3] for each in attached)


def test_an_attached_buffer_has_the_fields_and_options_of_its_maker(make):
    env_dict = {
        "native": {"shape": (2, 3), "dtype": np.int16},
        "swapped": {"dtype": ">f8"},
        "structured": {"dtype": [("a", ">i4"), ("b", [("c", "u1", (2,))])], "shape": ()},
        "padded": {"dtype": np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [4], "itemsize": 16})},
        "time": {"dtype": "M8[ns]"},
        "text": {"dtype": "U3"},
        "sch\xf6n \"'": {"dtype": bool},
    }
    options = {"alpha": 1 / 3, "eps": 1e-7, "lock": "buffer"}
    buffer = make(MPPrioritizedReplayBuffer, 7, env_dict, **options)
    random = np.random.default_rng(1)
    row = {
        "native": random.integers(99, size=(2, 3)),
        "swapped": 1.5,
        "structured": np.array((7, ([1, 2],)), env_dict["structured"]["dtype"]),
        "padded": np.array((2.5,), env_dict["padded"]["dtype"]),
        "time": np.datetime64("2020-02-02", "ns"),
        "text": "abc",
        "sch\xf6n \"'": True,
    }
    buffer.add(**row, priorities=1.0)
    buffer.add(**row)
    for other in (MPPrioritizedReplayBuffer.attach(buffer.segment), pickle.loads(pickle.dumps(buffer))):
        assert other._layout == buffer._layout and other.get_buffer_size() == 7
        mine, its = buffer.get_all_transitions(), other.get_all_transitions()
        assert list(mine) == list(its)
        for name, column in mine.items():
            assert its[name].dtype == column.dtype and its[name].tobytes() == column.tobytes()
        other.sample(1)  # priorities of rows written since the last sample remain
        other.update_priorities([1], [3.0])
        batch = buffer.sample(50, beta=1.0)
        weights = dict(zip(batch["indexes"], batch["weights"], strict=True))
        assert weights[1] == pytest.approx(((1 + 1e-7) / (3 + 1e-7)) ** (1 / 3))
        other.close()


def test_a_dtype_without_a_name_is_passed_by_pickle_only(make):
    aligned = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    buffer = make(env_dict={"x": {}, "odd": {"dtype": aligned}})
    with pytest.raises(ValueError, match="'odd' has a dtype that JSON cannot describe: pass the buffer itself"):
        MPReplayBuffer.attach(buffer.segment)
    other = pickle.loads(pickle.dumps(buffer))
    other.add(x=1, odd=np.array((1, 2.5), aligned))
    assert buffer.sample(1)["odd"].item() == (1, 2.5)
    other.close()


def test_a_subclass_attaches_with_its_attributes(make):
    buffer = make(Mine, env_dict={"x": {}})
    buffer.gamma = 0.5
    buffer.add(x=4)
    by_name = Mine.attach(buffer.segment)
    assert type(by_name) is Mine and by_name.doubled(1)["x"].item() == 8
    by_pickle = pickle.loads(pickle.dumps(buffer))
    assert type(by_pickle) is Mine and by_pickle.doubled(1)["x"].item() == 8 and by_pickle.gamma == 0.5
    buffer = make(MinePrioritized, env_dict={"x": {}})
    buffer.slot, buffer.other = 3, 4
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(buffer))))
    assert (again.slot, again.other) == (3, 4) and again.segment == buffer.segment


def test_an_attached_buffer_draws_by_its_own_seed(make):
    buffer = make(seed=1)
    buffer.add(**make_rows(0, 100))
    drawn = [MPReplayBuffer.attach(buffer.segment, seed=1).sample(50)["act"].tobytes() for _ in range(2)]
    assert drawn[0] == drawn[1] == buffer.sample(50)["act"].tobytes()
    assert MPReplayBuffer.attach(buffer.segment).sample(50)["act"].tobytes() != drawn[0]


@BUFFERS
def test_attaching_to_a_removed_segment_raises_file_not_found(kind):
    buffer = kind(4, ENV_DICT)
    name, pickled = buffer.segment, pickle.dumps(buffer)
    buffer.close()
    for attach in (lambda: kind.attach(name), lambda: pickle.loads(pickled)):
        with pytest.raises(FileNotFoundError, match=f"{name} is gone: its creator has closed it or exited") as caught:
            attach()
        assert caught.value.errno == errno.ENOENT


def test_attaching_does_not_wait_for_a_process_that_removes_the_segment(alien):
    """The maker of another segment locks an abandoned one exclusively before it removes it."""
    code = f"from cpprb_impl import MPReplayBuffer; MPReplayBuffer.attach({alien(bytes(4096), fcntl.LOCK_EX)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "FileNotFoundError" in done.stderr and "is gone" in done.stderr


def test_an_invalid_segment_name_is_refused(make):
    for name in ("", "/", "/etc/passwd", "../etc/passwd", "/cpprb_impl-1/../x", "cpprb_impl-1\n"):
        with pytest.raises(ValueError, match="not the name of a shared segment"):
            MPReplayBuffer.attach(name)


def test_a_segment_of_a_different_class_is_refused(make):
    uniform, prioritized = make(), make(MPPrioritizedReplayBuffer)
    with pytest.raises(ValueError, match=r"holds an MPReplayBuffer: .* not with MPPrioritizedReplayBuffer"):
        MPPrioritizedReplayBuffer.attach(uniform.segment)
    with pytest.raises(ValueError, match=r"holds an MPPrioritizedReplayBuffer: .* not with Mine"):
        Mine.attach(prioritized.segment)
    assert not hasattr(ReplayBuffer, "attach")


def test_a_file_that_is_not_a_segment_is_refused(alien):
    for contents, what in [
        (b"", "is empty"),
        (b"short", "was not made by this library"),
        (b"something else altogether" * 1000, "was not made by this library"),
        (bytes(10_000), "is still being created, or was not made by this library"),
    ]:
        name = alien(contents)
        with pytest.raises(ValueError, match=f"{name} {what}"):
            MPReplayBuffer.attach(name)


def test_a_segment_with_a_different_layout_version_is_refused(make, alien):
    whole = contents_of(make())
    assert whole[:6] == b"rbimpl"
    with pytest.raises(RuntimeError, match=f"has layout rbimpl07, but .* uses {whole[:8].decode()}"):
        MPReplayBuffer.attach(alien(b"rbimpl07" + whole[8:]))


def test_a_truncated_or_extended_segment_is_refused(make, alien):
    whole = contents_of(make())
    for bytes_left in (8, 100, 4096, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match="was cut short"):
            MPReplayBuffer.attach(alien(whole[:bytes_left]))
    longer = MPReplayBuffer(4, {})
    longer.close()
    with pytest.raises(ValueError, match="was cut short"):
        MPReplayBuffer.attach(alien(whole + bytes(4096)))


def test_a_description_that_does_not_fit_the_segment_is_refused(make, alien):
    buffer = make()
    whole, text = contents_of(buffer), buffer._layout.text().encode()
    assert whole.count(text) == 1
    for wrong in (b"x" * len(text), b"[1]".ljust(len(text)), text.replace(b'"size"', b'"SIZE"')):
        with pytest.raises(ValueError, match="cannot be attached to by name"):
            MPReplayBuffer.attach(alien(whole.replace(text, wrong)))
    with pytest.raises(RuntimeError, match="has a different layout"):
        MPReplayBuffer.attach(alien(whole.replace(text, text.replace(b'"size": 100', b'"size": 101'))))
    find, (kind, recipe, name, here) = buffer.__reduce__()[:2]
    for change in ({"size": 99}, {"fields": recipe.fields[:2]}, {"options": {"lock": "buffer"}}, {"prioritized": True}):
        with pytest.raises(RuntimeError, match="does not have the layout"):
            find(kind, Layout(**{**vars(recipe), **change}), name, here)


def test_a_segment_without_permission_is_refused(make):
    buffer = make()
    if os.geteuid() == 0:
        os.seteuid(65534)
    else:
        (SHM / buffer.segment.strip("/")).chmod(0)
    try:
        with pytest.raises(PermissionError, match=buffer.segment):
            MPReplayBuffer.attach(buffer.segment)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


def test_a_pickle_from_another_machine_is_refused(make, monkeypatch, tmp_path):
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    pickled = pickle.dumps(make())
    other_boot = tmp_path / "boot_id"
    other_boot.write_text("another\n")
    with monkeypatch.context() as there:
        there.setattr(host, "BOOT_ID", other_boot)
        there.setattr(socket, "gethostname", lambda: "there")
        with pytest.raises(RuntimeError, match=r"only .* where it was created: .* created on here, and this is there"):
            pickle.loads(pickled)
    monkeypatch.setattr(socket, "gethostname", lambda: "renamed")  # the host of a container, or one that was renamed
    pickle.loads(pickled).close()
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "none")
    pickle.loads(pickle.dumps(make())).close()
