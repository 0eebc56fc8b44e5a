"""Reverb's selectors and rate limiters behave as their names promise, on a real server.

One server holds all tables. Items are numbered in the order of insertion; every wait has a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from adapters.base import Field, Spec, Unavailable
from adapters.peers.reverb.server import ServerProcess, TableSettings
from adapters.registry import adapter_class

FIELDS = {"number": Field((), "int64")}
PRIORITIES = [3.0, 5.0, 1.0, 4.0, 2.0]
#: selector -> the numbers in the order in which it picks them, if each is removed once picked
ORDERS = {
    "Fifo": [0, 1, 2, 3, 4],
    "Lifo": [4, 3, 2, 1, 0],
    "MaxHeap": [1, 3, 0, 4, 2],
    "MinHeap": [2, 4, 0, 3, 1],
}
LONG_MS, SHORT_MS = 20_000, 300  # time limits for what must happen, and for what must not

TABLES = [
    *(TableSettings(10, FIELDS, f"sampler {name}", sampler=(name,)) for name in ORDERS),
    *(TableSettings(4, FIELDS, f"remover {name}", sampler=("Fifo",), remover=(name,)) for name in ORDERS),
    TableSettings(10, FIELDS, "mutated", sampler=("MaxHeap",)),
    TableSettings(4, FIELDS, "uniform"),
    TableSettings(4, FIELDS, "prioritized", sampler=("Prioritized", 1.0)),
    TableSettings(10, FIELDS, "min size", rate_limiter=("MinSize", 3)),
    TableSettings(10, FIELDS, "ratio", rate_limiter=("SampleToInsertRatio", 2.0, 2, 4.0)),
    TableSettings(2, FIELDS, "queue", ("Fifo",), ("Fifo",), ("Queue", 2), max_times_sampled=1),
    TableSettings(2, FIELDS, "stack", ("Lifo",), ("Lifo",), ("Stack", 2), max_times_sampled=1),
]

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.timeout(120)]


class Client:
    """A client of the server, each of whose calls has a time limit."""

    def __init__(self, address: str) -> None:
        import reverb

        self.reverb, self.address, self.client = reverb, address, reverb.Client(address)

    def insert(self, table: str, *numbers: int, priority: float = 1.0, limit_ms: int = LONG_MS) -> None:
        """Insert the numbers. Raises DeadlineExceededError if an item must wait; it continues to wait."""
        self.writer = self.client.trajectory_writer(num_keep_alive_refs=1)
        for number in numbers:
            self.writer.append({"number": number})
            self.writer.create_item(table, priority, {"number": self.writer.history["number"][-1]})
            self.writer.flush(timeout_ms=limit_ms)
        self.writer.close()

    def blocked(self, table: str, number: int) -> bool:
        """Return whether an insert must wait. It continues to wait until `let_in`."""
        try:
            self.insert(table, number, limit_ms=SHORT_MS)
        except self.reverb.errors.DeadlineExceededError:
            return True
        return False

    def let_in(self) -> None:
        """Wait until the blocked insert is confirmed."""
        self.writer.flush(timeout_ms=LONG_MS)
        self.writer.close()

    def samples(self, table: str, rows: int, limit_ms: int = LONG_MS) -> list:
        """Return this many samples, or fewer if the rate limiter allowed no more in that time."""
        dataset = self.reverb.TrajectoryDataset.from_table_signature(
            self.address,
            table,
            max_in_flight_samples_per_worker=1,
            num_workers_per_iterator=1,
            max_samples=rows,
            rate_limiter_timeout_ms=limit_ms,
        )
        return list(dataset.as_numpy_iterator())

    def numbers(self, table: str, rows: int = 1, limit_ms: int = LONG_MS) -> list[int]:
        return [int(sample.data["number"]) for sample in self.samples(table, rows, limit_ms)]

    def drained(self, table: str) -> list[int]:
        """Return all numbers in the order in which they are picked; each is removed before the next is picked."""
        picked = []
        while self.client.server_info()[table].current_size:
            (sample,) = self.samples(table, 1)
            self.client.mutate_priorities(table, deletes=[int(sample.info.key)])
            picked.append(int(sample.data["number"]))
        return picked


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    try:
        adapter_class("reverb").version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    ServerProcess.prepare()
    import reverb  # noqa: F401 (while the server's process imports it too)

    server = ServerProcess(TABLES)
    try:
        yield Client(server.wait_for_address())
    finally:
        server.close()


def insert_by_priority(client: Client, table: str) -> None:
    for number, priority in enumerate(PRIORITIES):
        client.insert(table, number, priority=priority)


@pytest.mark.parametrize("selector", ORDERS)
def test_a_sampler_selects_items_in_its_order(client: Client, selector: str) -> None:
    table = f"sampler {selector}"
    insert_by_priority(client, table)
    assert client.numbers(table, 3) == 3 * ORDERS[selector][:1]  # a picked item remains
    assert client.drained(table) == ORDERS[selector]


@pytest.mark.parametrize("selector", ORDERS)
def test_a_remover_selects_items_of_a_full_table_in_its_order(client: Client, selector: str) -> None:
    table = f"remover {selector}"
    insert_by_priority(client, table)
    # Whatever the docstring of TableSettings says, room is made after the new item is inserted: Lifo removes that item.
    removed = ORDERS[selector][0]
    assert client.drained(table) == [number for number in range(5) if number != removed]


def test_a_heap_follows_new_priorities(client: Client) -> None:
    insert_by_priority(client, "mutated")
    (top,) = client.samples("mutated", 1)
    client.client.mutate_priorities("mutated", {int(top.info.key): 2.5})
    assert client.drained("mutated") == [3, 0, 1, 4, 2]


@pytest.mark.parametrize(("table", "shares"), [("uniform", [0.25] * 4), ("prioritized", [0.1, 0.2, 0.3, 0.4])])
def test_probabilities_are_returned_with_each_sample(client: Client, table: str, shares: list[float]) -> None:
    """The conformance tests check that draws follow these probabilities."""
    for number in range(4):
        client.insert(table, number, priority=number + 1.0)
    told = {int(s.data["number"]): float(s.info.probability) for s in client.samples(table, 200)}
    assert told == pytest.approx(dict(enumerate(shares)))


def test_min_size_delays_samples(client: Client) -> None:
    client.insert("min size", 0, 1)
    assert client.numbers("min size", limit_ms=SHORT_MS) == []
    client.insert("min size", 2)
    assert len(client.numbers("min size", 20)) == 20


def test_a_ratio_blocks_the_side_that_is_ahead(client: Client) -> None:
    """With two samples per insert, twice the inserts minus the samples stays between 0 and 8."""
    client.insert("ratio", 0)
    assert client.numbers("ratio", limit_ms=SHORT_MS) == []  # fewer than the two items that it requires first
    client.insert("ratio", 1, 2, 3)  # twice the inserts minus the samples is 8
    assert client.blocked("ratio", 4)
    assert len(client.numbers("ratio", 2)) == 2
    client.let_in()  # the difference is 8 again
    assert len(client.numbers("ratio", 10, SHORT_MS)) == 8
    client.insert("ratio", 5)
    assert len(client.numbers("ratio", 10, SHORT_MS)) == 2


@pytest.mark.parametrize(("table", "order"), [("queue", [0, 1, 2]), ("stack", [1, 2, 0])])
def test_a_queue_and_a_stack_return_each_item_once(client: Client, table: str, order: list[int]) -> None:
    assert client.numbers(table, limit_ms=SHORT_MS) == []
    client.insert(table, 0, 1)
    assert client.blocked(table, 2)
    picked = client.numbers(table)
    client.let_in()
    assert [*picked, *client.numbers(table, 3, SHORT_MS)] == order


@pytest.mark.parametrize("queued", [False, True])
def test_prefetched_rows_stay_within_the_limit_of_the_contract(queued: bool) -> None:
    """Counts rows, not batches: a delayed worker thread delivers its rows in a later batch.

    With the default queue of tf.data, far more rows are prefetched.
    """
    spec = Spec(32, FIELDS | {"rest": Field((4,), "float32")})
    try:
        adapter = adapter_class("reverb").make(spec)
    except Unavailable as reason:
        pytest.skip(str(reason))
    adapter.options.experimental_optimization.inject_prefetch = queued
    ahead = adapter.contract.batches_ahead
    stale = []
    try:
        for round_ in range(20):
            numbers = np.arange(32) + 32 * round_
            adapter.add_batch({"number": numbers, "rest": np.zeros((32, 4), np.float32)})
            batches = [adapter.sample(8)["number"] for _ in range(ahead + 12)]
            stale.append(int(np.count_nonzero(np.concatenate(batches) < numbers[0])))
    finally:
        adapter.close()
    assert (max(stale) > 8 * ahead) is queued, stale
