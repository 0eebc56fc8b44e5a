"""`make draws`: each of ten million equal priorities is drawn equally often; this takes too long for a test.

Prints a record, such as the one in docs/measuring/conformance.md, and fails unless chi-square per degree of freedom is
between 0.99 and 1.01. For uniform draws it is 1 with a standard deviation of 0.0005.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

import numpy as np

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

ROWS, DRAWS = 10**7, 10**8
BATCH = 1000  # a stratum is then ten thousand rows wide, whose evenness lowers chi-square by a ten-thousandth
PIECE = 10**7


def chi_square(draw: Callable[[], np.ndarray]) -> float:
    """Return chi-square per degree of freedom, for `DRAWS` draws of 0 to `ROWS` - 1 that should be uniform."""
    counts, piece = np.zeros(ROWS, np.int64), np.empty(PIECE, np.int64)
    for _ in range(DRAWS // PIECE):
        filled = 0
        while filled < PIECE:
            drawn = draw()
            piece[filled : filled + len(drawn)] = drawn
            filled += len(drawn)
        counts += np.bincount(piece, minlength=ROWS)
    wanted = DRAWS / ROWS
    return float(((counts - wanted) ** 2).sum() / wanted / (ROWS - 1))


def main() -> int:
    prioritized = PrioritizedReplayBuffer(ROWS, {"x": {"dtype": np.uint8}}, seed=1)
    prioritized.add(x=np.zeros(ROWS), priorities=np.ones(ROWS))
    uniform = ReplayBuffer(ROWS, {"x": {"dtype": np.int32}}, seed=1)
    uniform.add(x=np.arange(ROWS))
    rng = np.random.default_rng(1)
    results = {
        "PrioritizedReplayBuffer.sample": chi_square(lambda: prioritized.sample(BATCH)["indexes"]),
        "ReplayBuffer.sample": chi_square(lambda: uniform.sample(BATCH)["x"].ravel()),
    }
    # The control: a single-precision point in the sum has only 2^24 possible values.
    control = chi_square(lambda: (rng.random(PIECE, dtype=np.float32) * np.float32(ROWS)).astype(np.int64) % ROWS)
    print(f"{DRAWS:.0e} draws over {ROWS:.0e} equal rows, in batches of {BATCH}; {platform.machine()}")
    for name, value in {**results, "control: in single precision": control}.items():
        print(f"  {name:<32} chi2/df {value:.4f}")
    if not all(0.99 < value < 1.01 for value in results.values()) or control < 1.01:
        print("FAILED: chi2/df is not within 0.99 and 1.01, or the control is")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
