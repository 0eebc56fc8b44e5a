"""Launches measure with a heap like that of a long training, in which batches cause no page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOP = """
import resource, sys
import numpy as np
from suites.runner import heap

if sys.argv[2] == "settled":
    heap.settle()
source = np.ones(int(float(sys.argv[1]) * 2**20), np.uint8)
faults, held = [], None
for _ in range(10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = source.copy(), source.copy()  # as a learner holds one batch while it samples the next
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(max(faults[5:]))
"""


@pytest.mark.parametrize("megabytes", [6.0, 12.0])
def test_a_settled_heap_reuses_memory_for_batches(megabytes):
    def faults(state: str) -> int:
        made = subprocess.run([sys.executable, "-c", LOOP, str(megabytes), state], capture_output=True, check=True)
        return int(made.stdout)

    assert faults("settled") < 10
    assert faults("fresh") > 100  # the control
