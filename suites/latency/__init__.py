"""Latency: how long single calls take, including the slowest."""
