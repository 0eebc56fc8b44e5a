"""Probes: each drives a buffer, and observes how it behaves."""
