"""The directory of a buffer over several hosts: a Ray actor that starts the shards and knows where they are.

A shard that dies is restarted with its rows. If a shard's host is lost, an empty shard with a new number is started
once the host is back. If the directory dies, Ray ends the shards and restarts the directory, which restarts the shards.
The directory runs on the host of the process that created the buffer, so losing any other host does not affect it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.shard import Address, Shard
from cpprb_impl.layout.layout import Layout

log = logging.getLogger("cpprb_impl.hosts")

LOOK_SECONDS = 0.2  # time between checks of the cluster's nodes, and before a shard is restarted
LONGEST_PAUSE = 10.0  # longest time between attempts to start a shard that cannot start
RETURN_SECONDS = 10.0  # time for a lost shard to return before an error is raised
NUMBERS = 1 << 15  # shards have numbers below this


class ClosedBufferError(Exception):
    """The process that made the buffer has closed it."""


class Directory:
    """Starts one shard on each host, and restarts it whenever it is lost. An asynchronous actor."""

    def __init__(self, buffer: str, hosts: Sequence[str], layout: Layout, keys: Keys) -> None:
        self._buffer, self._layout, self._keys = buffer, layout, keys
        self._addresses: dict[str, Address] = {}  # by host
        self._shards: dict[str, Any] = {}
        self._numbers: set[int] = set()  # assigned to shards
        self._failed = ""
        self._closed = False
        self._hosts, self._complete = list(hosts), asyncio.Event()
        self._tasks = [asyncio.ensure_future(self._keep(host)) for host in hosts]

    async def start(self) -> None:
        """Return once every host has a shard. Raises RuntimeError if a shard could not start."""
        await self._complete.wait()
        if self._failed:
            raise RuntimeError(self._failed)

    async def find(self) -> list[Address]:
        """Return the addresses of the shards that exist now. Raises ClosedBufferError once the buffer is closed."""
        self._check_open()
        return list(self._addresses.values())

    async def get_shards(self) -> list[Any]:
        """Return the handles of all shards, once every host that Ray considers alive has a shard.

        Raises ConnectionError if a host has no shard after `RETURN_SECONDS`, and ClosedBufferError once the buffer is
        closed.
        """
        end = time.monotonic() + RETURN_SECONDS
        while True:
            self._check_open()
            alive = await asyncio.to_thread(nodes)
            missing = [host for host in self._hosts if host in alive and host not in self._shards]
            if self._shards and not missing:
                return list(self._shards.values())
            if time.monotonic() > end:
                raise ConnectionError(f"there is no shard on {', '.join(missing or self._hosts)}")
            await asyncio.sleep(LOOK_SECONDS)

    def _check_open(self) -> None:
        # Ray ends this actor some time after the buffer was closed: until then, it must not appear to have no shards.
        if self._closed:
            raise ClosedBufferError

    async def close(self) -> None:
        """End all shards."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        closing = [shard.close.remote() for shard in self._shards.values()]
        await asyncio.wait([asyncio.ensure_future(_end(each)) for each in closing], timeout=10) if closing else None

    async def _keep(self, host: str) -> None:
        pause = LOOK_SECONDS
        while not self._closed:
            try:
                node = (await asyncio.to_thread(nodes)).get(host)
                if node is not None:
                    await self._run_shard(host, node)
            except RayError as error:
                log.warning("the shard on %s was lost: %s", host, error)
                if not self._complete.is_set():  # the first shards must start
                    rows = self._layout.size
                    self._failed = f"a shard of {rows} transitions could not be started on {host}: {_reason(error)}"
                    self._complete.set()
                pause = LOOK_SECONDS if host in self._shards else min(2 * pause, LONGEST_PAUSE)
            finally:
                self._shards.pop(host, None)
                self._addresses.pop(host, None)
            await asyncio.sleep(pause)

    async def _run_shard(self, host: str, node: str) -> None:
        """Start a shard, and return when it is closed. Raises `RayError` if it cannot start, or is lost."""
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        shard: Any = (
            ray.remote(Shard)
            .options(num_cpus=0, scheduling_strategy=here, max_concurrency=2)
            .remote(self._buffer, self._new_number(), host, node, self._layout, self._keys)
        )
        self._addresses[host] = await shard.get_address.remote()
        self._shards[host] = shard
        if len(self._addresses) == len(self._hosts):
            self._complete.set()
        await shard.wait.remote()

    def _new_number(self) -> int:
        """Return a random number that no shard has used recently, since a restarted directory draws new numbers."""
        if len(self._numbers) > NUMBERS // 2:
            self._numbers = {address.number for address in self._addresses.values()}
        while (number := secrets.randbelow(NUMBERS)) in self._numbers:
            pass
        self._numbers.add(number)
        return number


async def _end(reference: Any) -> None:
    with suppress(RayError):
        await reference


def _reason(error: RayError) -> str:
    """Return the last line of an exception from an actor's constructor, of which Ray keeps only the text."""
    text = str(error).strip()
    return text.splitlines()[-1] if getattr(error, "actor_init_failed", False) else text


def nodes() -> dict[str, str]:
    """Return the Ray node IDs of living nodes, by address."""
    known: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeManagerAddress"]: node["NodeID"] for node in known if node["Alive"]}
