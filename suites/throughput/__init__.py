"""Throughput of one process: single calls, a learner's whole step, sampling as a learner does it."""
