"""`load_transitions` with altered files: a short version of `make fuzz`."""

from __future__ import annotations

import io
import random

import pytest

from . import file_case


def test_a_changed_file_is_refused_and_changes_nothing_or_is_loaded():
    taken = 0
    for seed in range(1500):
        try:
            taken += file_case.run(random.Random(seed))
        except Exception as error:
            error.add_note(f"file_case.run(random.Random({seed}))")
            raise
    assert 100 < taken < 1400, "almost all files were refused, or almost all were loaded"


@pytest.mark.parametrize("kind", range(len(file_case.KINDS)))
def test_a_repacked_archive_is_loaded(kind):
    """Otherwise every case would stop at a checksum."""
    data = file_case.good_file(kind, 11)
    buffer = file_case.make(kind, 8)
    buffer.load_transitions(io.BytesIO(file_case.packed(*file_case.unpacked(data))))
    assert file_case.saved(buffer) == data


def test_a_loader_that_changes_the_buffer_before_it_fails_is_detected(monkeypatch):
    load = file_case.ReplayBuffer.load_transitions

    def loads_half(self, file):
        try:
            load(self, file)
        except ValueError:
            file_case.fill(self, 1)
            raise

    monkeypatch.setattr(file_case.ReplayBuffer, "load_transitions", loads_half)
    with pytest.raises(AssertionError, match="refused, and the buffer has changed"):
        for seed in range(50):
            file_case.run(random.Random(seed))
