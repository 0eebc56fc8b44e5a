"""Workloads and measurements, one file a suite, and the runner. See ARCHITECTURE.md."""
