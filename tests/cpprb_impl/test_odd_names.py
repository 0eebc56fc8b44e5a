"""Field names and file prefixes that can be used in few or no file names."""

from __future__ import annotations

import os

import pytest

from cpprb_impl import MPReplayBuffer, ReplayBuffer

BUFFERS = pytest.mark.parametrize("kind", [ReplayBuffer, MPReplayBuffer])


@BUFFERS
@pytest.mark.parametrize("name", ["a\ud800", "\ud800", "a\0b"])
def test_field_names_that_no_file_can_have_are_refused(kind, name, tmp_path):
    with pytest.raises(ValueError, match="mmap_prefix: a field's name must be valid as part of a file name, got '"):
        kind(4, {"x": {}, name: {}}, mmap_prefix=tmp_path / "ring")
    assert list(tmp_path.iterdir()) == []
    buffer = kind(4, {name: {}})
    buffer.add(**{name: 3})
    assert buffer.sample(1)[name].item() == 3
    buffer.close()


@BUFFERS
@pytest.mark.parametrize("prefix", ["a\ud800", "a\0b"])
def test_prefixes_that_no_file_can_have_are_refused(kind, prefix):
    with pytest.raises(ValueError, match="mmap_prefix must be valid as part of a file name, got '"):
        kind(4, {"x": {}}, mmap_prefix=prefix)


@BUFFERS
def test_names_may_contain_bytes_that_are_not_text(kind, tmp_path):
    """Python represents such bytes as surrogates, and file names may contain them."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    buffer = kind(4, {"\udcfe": {}}, mmap_prefix=os.fsdecode(folder) + "/ring")
    buffer.add(**{"\udcfe": 3})
    assert os.listdir(folder) == [b"ring_\xfe.dat"]
    if kind is MPReplayBuffer:
        attached = kind.attach(buffer.segment)
        assert attached.sample(1)["\udcfe"].item() == 3
        attached.close()
    buffer.close()
    with pytest.raises(FileNotFoundError, match="ring_x"):
        kind(4, {"x": {}}, mmap_prefix=os.fsdecode(folder) + "/none/ring")
