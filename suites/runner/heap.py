"""Gives launches the heap of a process that has been training for a while, rather than a fresh one.

Linux's usual allocator returns a large freed array to the system until the program has freed a larger one; each new
array then costs a fault per page. A network's tensors are such larger arrays: while a network of CleanRL's size is
being trained on Atari frames, batches of 32 and of 256 cause no page faults. In an empty loop of a fresh process,
faults made cpprb's batches of 256 rows of 18 kB five times as slow, depending on which sizes had been measured before
(measured once, on 2 cores, 27 November 2026; no record).
"""

from __future__ import annotations

import numpy as np

#: Slightly less than the largest array to whose size the allocator adapts (glibc's DEFAULT_MMAP_THRESHOLD_MAX is 32
#: MiB).
SETTLING_BYTES = 31 << 20


def settle() -> None:
    """Make the allocator keep freed arrays of up to 31 MiB, in this process and in its forked children.

    Allocators other than glibc's are not affected.
    """
    np.empty(SETTLING_BYTES, np.uint8)  # freed at once
