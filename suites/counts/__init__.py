"""Exact counts of the work per call: instructions, memory accesses, allocations, system calls."""
