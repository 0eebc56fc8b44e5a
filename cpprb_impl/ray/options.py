"""Checks of the constructor's arguments: each raises TypeError or ValueError, naming the argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cpprb_impl.layout.fields import integer
from cpprb_impl.layout.options import check_exponent
from cpprb_impl.ray.directory import nodes

LONGEST_DEADLINE = 1e6  # seconds; ZeroMQ counts milliseconds in 32 bits


def parse_prefetch(value: Any) -> int:
    """Return `prefetch` as an int, a number of batches."""
    if (batches := integer("prefetch", value)) < 0:
        raise ValueError(f"prefetch must not be negative, got {value!r}")
    return batches


def parse_deadline(value: Any) -> float:
    """Return `deadline` as a float, a number of seconds."""
    if not 0 < (seconds := check_exponent("deadline", value)) <= LONGEST_DEADLINE:
        raise ValueError(f"deadline must be above 0 and at most {LONGEST_DEADLINE:g} s, got {value!r}")
    return seconds


def parse_flag(name: str, value: Any) -> bool:
    """Return a bool. Other types are rejected: a str such as "no" would be true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return value


def parse_hosts(hosts: Sequence[str] | None) -> list[str]:
    """Return the addresses of the nodes that hold data, without duplicates; if `hosts` is None, those of all nodes.

    Raises RuntimeError for an address that is not a node of the cluster.
    """
    if isinstance(hosts, str) or not isinstance(hosts, Iterable | None):
        raise TypeError(f"hosts must be a sequence of addresses, got {hosts!r}")
    alive = nodes()
    chosen = list(dict.fromkeys(alive if hosts is None else hosts))
    if not chosen:
        raise ValueError(f"hosts must contain at least one address, got {hosts!r}")
    for host in chosen:
        if host not in alive:
            raise RuntimeError(f"{host} is not a node of this Ray cluster, which has {', '.join(alive)}")
    return chosen
