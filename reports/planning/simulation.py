"""Explorers, data hosts and a learner as a discrete-event simulation in SimPy.

A learner asks all data hosts for their parts of a batch, up to `PREFETCH` batches ahead, and handles a batch once all
parts have arrived. On each data host, one process draws rows and another stores them, each of which handles messages
one by one. Messages with rows take time on the sender's and the receiver's link, and every message takes another
`delay`: the time until the receiving process wakes up. Service times are exponentially distributed.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from reports.planning.costs import SENT_ROWS, RequestCosts
from reports.queueing.processors import Cores, Process

PREFETCH, WINDOW = 2, 8  # batches requested ahead; unacknowledged messages per explorer
REQUEST_BYTES, NEW_PRIORITY_BYTES = 100, 12  # size of a request, and of each row's new priority in it
PIECES, PIECE_BYTES = 16, 65_536  # a message has at most this many pieces, of at least this many bytes
STEPS, MESSAGES = 1000, 300  # measured: steps of the learner, messages of explorers; the warm-up is a quarter of that
MOST_EVENTS = 300_000

Events = Generator[Any, Any, None]


@dataclass(frozen=True)
class HostCounts:
    """`data` hosts with rows, `explorers` hosts that send rows, and the learner's host, with `cores` each.

    With `one_machine`, all of them share `cores`, and the explorer is on the learner's host, as in the hosts suite.
    With no explorer hosts, explorers add to the memory of their own data host, and send nothing.
    """

    data: int
    explorers: int = 1
    cores: int = 2
    link: float = math.inf  # bytes per second of each host, in either direction
    one_machine: bool = False


@dataclass(frozen=True)
class Load:
    """The wanted rates. An infinite rate means as fast as one process can; with a rate of 0, that side does nothing."""

    row_bytes: float
    batch: int
    batches: float  # per second
    transitions: float  # per second


@dataclass(frozen=True)
class Reached:
    """Batches and stored rows per second, and percentiles of the duration of a learner's step in seconds: from its call
    until it has the batch and has sent the new priorities. They are NaN if there were no steps."""

    batches: float
    rows: float
    p50: float
    p99: float
    steps: int


class _Host:
    def __init__(self, environment: simpy.Environment, cores: Cores, link: float) -> None:
        self.cores, self.link = cores, link
        self.into, self.out = (simpy.Resource(environment, 1) for _ in range(2))


class _Simulation:
    def __init__(self, costs: RequestCosts, hosts: HostCounts, load: Load, delay: float, seed: int) -> None:
        self.costs, self.hosts, self.load, self.delay = costs, hosts, load, delay
        self.environment, self.chance = simpy.Environment(), random.Random(seed)
        shared = Cores(self.environment, hosts.cores)

        def host() -> _Host:
            cores = shared if hosts.one_machine else Cores(self.environment, hosts.cores)
            return _Host(self.environment, cores, hosts.link)

        self.home = host()
        self.data = [host() for _ in range(hosts.data)]
        self.drawing = [simpy.Store(self.environment) for _ in self.data]
        self.storing = [simpy.Store(self.environment) for _ in self.data]
        for place, drawing, storing in zip(self.data, self.drawing, self.storing, strict=True):
            self.environment.process(self.serve(place, drawing))
            self.environment.process(self.serve(place, storing))
        self.asking = [simpy.Resource(self.environment, 1) for _ in self.data]  # connections
        self.took: list[float] = []
        self.stored = 0
        if load.batches:
            self.environment.process(self.learn())
        self.explorers = self.exploring(host) if load.transitions else []
        for number, place in enumerate(self.explorers):
            self.environment.process(self.explore(number, place))

    def exploring(self, host: Any) -> list[_Host]:
        """Return the host of each explorer's process."""
        if self.hosts.one_machine:
            return [self.home]
        return [place for place in (host() for _ in range(self.hosts.explorers)) for _ in range(self.hosts.cores)]

    def vary(self, seconds: float) -> float:
        # Rounded, because the logarithm's last digits depend on the processor, and could change the order of events.
        return round(self.chance.expovariate(1 / seconds), 12) if seconds > 0 else 0.0

    def carry(self, count: float, sender: _Host, receiver: _Host, connection: simpy.Resource) -> Events:
        """Move this many bytes over both hosts' links. Bytes on one connection arrive in order. Messages are sent in
        pieces, so other connections can use the link between two pieces."""
        yield self.environment.timeout(self.vary(self.delay))
        if math.isinf(sender.link):
            return
        with connection.request() as turn:
            yield turn
            pieces = max(1, min(PIECES, round(count / PIECE_BYTES)))
            for _ in range(pieces):
                with receiver.into.request() as entrance:
                    yield entrance
                    with sender.out.request() as exit_:
                        yield exit_
                        yield self.environment.timeout(count / pieces / sender.link)

    def serve(self, place: _Host, requests: simpy.Store) -> Events:
        """Handle messages one by one. A message is (CPU seconds, bytes of the reply, its receiver, an event for its
        arrival)."""
        process, connection = Process(place.cores), simpy.Resource(self.environment, 1)
        while True:
            if not requests.items:
                process.sleep()
            seconds, count, receiver, arrived = yield requests.get()
            yield from process.run(self.vary(seconds))
            self.environment.process(self.reply(count, place, receiver, arrived, connection))

    def reply(
        self, count: float, sender: _Host, receiver: _Host, arrived: simpy.Event, connection: simpy.Resource
    ) -> Events:
        yield from self.carry(count, sender, receiver, connection)
        arrived.succeed()

    def ask(self, shard: int, rows: int, arrived: simpy.Event) -> Events:
        row_bytes = self.load.row_bytes
        place = self.data[shard]
        yield from self.carry(REQUEST_BYTES + NEW_PRIORITY_BYTES * rows, self.home, place, self.asking[shard])
        seconds, count = self.costs.draw.of(rows, row_bytes), self.costs.wire.of(rows, row_bytes)
        self.drawing[shard].put((seconds, count, self.home, arrived))

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield each shard that supplies rows of a batch, and the number of these rows."""
        rows, shards = self.load.batch, self.hosts.data
        first = self.chance.randrange(shards)
        for number in range(min(rows, shards)):
            yield (first + number) % shards, (rows + number) // shards or 1

    def request_batch(self) -> list[simpy.Event]:
        arrivals = []
        for shard, rows in self.parts():
            arrivals.append(self.environment.event())
            self.environment.process(self.ask(shard, rows, arrivals[-1]))
        return arrivals

    def learn(self) -> Events:
        environment, load = self.environment, self.load
        process = Process(self.home.cores)
        seconds = self.costs.learn.of(load.batch, load.row_bytes, min(load.batch, self.hosts.data))
        ahead: deque[list[simpy.Event]] = deque()
        due = environment.now
        while True:
            began = environment.now
            while len(ahead) <= PREFETCH:
                ahead.append(self.request_batch())
            arrivals = ahead.popleft()
            if not all(arrival.triggered for arrival in arrivals):
                process.sleep()
                yield environment.all_of(arrivals)
            yield from process.run(self.vary(seconds))
            self.took.append(environment.now - began)
            due += 1 / load.batches
            if due > environment.now:
                process.sleep()
                yield environment.timeout(due - environment.now)

    def explore(self, number: int, place: _Host) -> Events:
        environment, load = self.environment, self.load
        process, rate = Process(place.cores), load.transitions / SENT_ROWS / len(self.explorers)
        window: deque[simpy.Event] = deque()
        connection = simpy.Resource(environment, 1)
        shard, due = number % self.hosts.data, self.vary(1 / rate)
        while True:
            due += 1 / rate
            if due > environment.now:
                process.sleep()
                yield environment.timeout(due - environment.now)
            yield from process.run(self.vary(self.costs.send.of(SENT_ROWS, load.row_bytes, 1)))
            while len(window) >= WINDOW:
                if not window[0].triggered:
                    process.sleep()
                    yield window[0]
                window.popleft()
            window.append(environment.event())
            environment.process(self.add(shard, place, window[-1], connection))
            shard = (shard + (0 if self.hosts.one_machine else 1)) % self.hosts.data

    def add(self, shard: int, place: _Host, acknowledged: simpy.Event, connection: simpy.Resource) -> Events:
        row_bytes = self.load.row_bytes
        yield from self.carry(self.costs.wire.of(SENT_ROWS, row_bytes), place, self.data[shard], connection)
        self.storing[shard].put((self.costs.store.of(SENT_ROWS, row_bytes), REQUEST_BYTES, place, acknowledged))
        yield acknowledged
        self.stored += SENT_ROWS

    def advance(self, steps: int, messages: int, events: int) -> float:
        """Run for this many steps of the learner and stored messages, but for at most this many events."""
        begin = self.environment.now
        learnt, stored = len(self.took) + steps * bool(self.load.batches), self.stored
        wanted = stored + messages * SENT_ROWS * bool(self.explorers)
        for _ in range(events):
            if len(self.took) >= learnt and self.stored >= wanted:
                break
            self.environment.step()
        return float(self.environment.now - begin)


def simulate(
    costs: RequestCosts, hosts: HostCounts, load: Load, delay: float, steps: int = STEPS, seed: int = 0
) -> Reached:
    """Return the rates that are reached under this load, over a simulated time of about `steps` steps of the
    learner."""
    simulation = _Simulation(costs, hosts, load, delay, seed)
    simulation.advance(steps // 4, MESSAGES // 4, MOST_EVENTS // 4)
    known, stored = len(simulation.took), simulation.stored
    seconds = simulation.advance(steps, MESSAGES, MOST_EVENTS)
    took = simulation.took[known:]
    p50, p99 = np.percentile(took, [50, 99]).tolist() if took else (math.nan, math.nan)
    return Reached(len(took) / seconds, (simulation.stored - stored) / seconds, p50, p99, len(took))
