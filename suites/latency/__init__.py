"""Latency: how long single calls take, the slowest ones included."""
