"""A million calls leak no reference and no memory, including calls that fail."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import psutil
import pytest

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

from .rows import ENV_DICT, make_rows

pytestmark = pytest.mark.slow

CALLS = 100_000  # calls of each kind
SMALLEST = 16  # bytes of the smallest block
LEAK = 8  # bytes per call, less than the 16 of the smallest object that a call could lose


def make_calls():
    """Return for each kind of call a function, and the objects whose references it could lose."""
    uniform, prioritized = ReplayBuffer(64, ENV_DICT), PrioritizedReplayBuffer(64, ENV_DICT)
    arrays = make_rows(0, 1)
    lists = {name: column.tolist() for name, column in arrays.items()}
    odd = {**arrays, "obs": arrays["obs"].astype(np.float64)[:, ::-1], "act": np.array(7, dtype=object)}
    wrong = {**arrays, "done": np.zeros((2, 6))}
    missing = {name: column for name, column in arrays.items() if name != "done"}
    priority, places, bad = np.ones(1), np.array([0]), np.array([np.nan])
    refused = object()
    for buffer in (uniform, prioritized):
        buffer.add(**make_rows(0, 64))
    out = uniform.sample(4)

    def failing(call):
        def fails():
            try:
                call()
            except (ValueError, TypeError, KeyError, IndexError):
                return
            raise AssertionError("this call should have failed")

        return fails

    return {
        "add arrays": (lambda: uniform.add(**arrays), [arrays, *arrays.values()]),
        "add lists": (lambda: uniform.add(**lists), [lists, *lists.values()]),
        "add converted": (lambda: uniform.add(**odd), [odd, *odd.values()]),
        "add with priorities": (lambda: prioritized.add(**arrays, priorities=priority), [priority]),
        "sample": (lambda: uniform.sample(4), []),
        "sample into out": (lambda: uniform.sample(4, out=out), [out, *out.values()]),
        "sample prioritized": (lambda: prioritized.sample(4, beta=0.5), []),
        "update": (lambda: prioritized.update_priorities(places, priority), [places, priority]),
        "all transitions": (lambda: uniform.get_all_transitions(shuffle=True), []),
        "add of a bad shape": (failing(lambda: uniform.add(**wrong)), [wrong, *wrong.values()]),
        "add of no number": (failing(lambda: uniform.add(**{**arrays, "rew": refused})), [refused]),
        "add without a field": (failing(lambda: uniform.add(**missing)), [missing]),
        "update of a bad priority": (failing(lambda: prioritized.update_priorities(places, bad)), [places, bad]),
        "update of no index": (failing(lambda: prioritized.update_priorities([64], priority)), [priority]),
        "sample of no size": (failing(lambda: uniform.sample(refused)), [refused]),
    }


def grown_by(call, count: int) -> int:
    """Return the bytes per call that remain in use: the smallest growth of several rounds, since each shows a leak.

    Blocks of Python are counted too: small ones may reuse freed memory without changing the size of the process.
    """
    process = psutil.Process()
    for _ in range(count // 10):
        call()
    growths, blocks = [], []
    for _ in range(4):
        gc.collect()
        before, blocks_before = process.memory_info().rss, sys.getallocatedblocks()
        for _ in range(count // 4):
            call()
        gc.collect()
        growths.append(process.memory_info().rss - before)
        blocks.append(sys.getallocatedblocks() - blocks_before)
    return max(min(growths), SMALLEST * min(blocks)) * 4 // count


@pytest.mark.parametrize("kind", make_calls())
def test_calls_leave_references_and_memory_as_they_were(kind):
    call, objects = make_calls()[kind]
    call()
    counts = [sys.getrefcount(each) for each in objects]
    assert grown_by(call, CALLS) < LEAK
    assert [sys.getrefcount(each) for each in objects] == counts


def test_dtypes_names_and_the_buffer_are_released():
    dtype, name = np.dtype([("a", "f4"), ("b", "i2")]), "a name that nobody else uses"
    counts = sys.getrefcount(dtype), sys.getrefcount(name)
    for _ in range(1000):
        buffer = PrioritizedReplayBuffer(4, {name: {"dtype": dtype, "shape": 2}})
        buffer.add(**{name: np.zeros((1, 2), dtype)})
        buffer.sample(3)
        del buffer
    gc.collect()
    assert (sys.getrefcount(dtype), sys.getrefcount(name)) == counts


def test_a_leak_is_detected():
    kept: list = []
    value = np.ones(1)
    before = sys.getrefcount(value)
    assert grown_by(lambda: kept.append([value]), CALLS) >= LEAK
    assert sys.getrefcount(value) > before


def kept_by_each(library: str, buffers: int = 8, size: int = 2**19) -> float:
    """Return the bytes that remain in use per prioritized buffer of `size` that was filled, sampled and deleted."""
    module = importlib.import_module(library)

    def use() -> None:
        buffer = module.PrioritizedReplayBuffer(size, {"x": {}})
        buffer.add(x=np.zeros(size))
        buffer.sample(32)

    process = psutil.Process()
    use()
    gc.collect()
    before = process.memory_info().rss
    for _ in range(buffers):
        use()
        gc.collect()
    return (process.memory_info().rss - before) / buffers


def kept_in_a_fresh_process(library: str) -> float:
    """Measure in a fresh process, since buffers could otherwise reuse memory that earlier tests have freed."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(kept_by_each, library).result()


def test_the_memory_of_a_prioritized_buffer_is_released():
    """cpprb never frees its trees, which have at least 16 bytes per transition of capacity."""
    assert kept_in_a_fresh_process("cpprb_impl") < 2**20


def test_the_same_measurement_detects_the_leak_of_cpprb():
    pytest.importorskip("cpprb")
    assert kept_in_a_fresh_process("cpprb") > 4 * 2**20
