"""Constructors with arbitrary arguments: a short version of `make fuzz`."""

from __future__ import annotations

import random

import pytest

from cpprb_impl import ReplayBuffer

from . import construct_case
from .choices import FromBytes


def test_a_constructor_makes_a_buffer_that_works_or_raises_a_documented_error():
    made = 0
    for seed in range(2000):
        try:
            made += construct_case.run(random.Random(seed))
        except Exception as error:
            error.add_note(f"construct_case.run(random.Random({seed}))")
            raise
    assert 300 < made < 1700, "almost all buffers were refused, or almost all were created"


class Wraps(ReplayBuffer):
    """Stores its size in 16 bits."""

    def __init__(self, size, *args, **options):
        super().__init__(max(int(size) % 65536, 1), *args, **options)


class HalfAFile(ReplayBuffer):
    def __init__(self, size, env_dict, *, mmap_prefix=None, **options):
        super().__init__(size, env_dict, mmap_prefix=mmap_prefix, **options)
        for name in env_dict if mmap_prefix else ():
            open(f"{mmap_prefix}_{name}.dat", "w").close()


@pytest.mark.parametrize("broken", [Wraps, HalfAFile])
def test_the_oracle_detects_a_wrong_buffer(broken):
    with pytest.raises(AssertionError, match=r"a capacity of|bytes, not"):
        for seed in range(200):
            construct_case.run(random.Random(seed), kinds=(broken,))


def test_the_bytes_of_a_fuzzer_are_converted_to_cases():
    rng = random.Random(0)
    for size in [0, 1, 10, 100]:
        for _ in range(10):
            construct_case.run(FromBytes(rng.randbytes(size)))
