"""Reverb: a table in a real server, in another process on this machine, spoken to over gRPC.

Of the documented ways, the fastest one measured for each job (CartPole rows, 2 cores):
- rows without priorities: StructuredWriter, 30 us a row; TrajectoryWriter 55 us, Client.insert 355 us.
- rows with priorities: TrajectoryWriter, since StructuredWriter has no priority for each item. Both are
  flushed every `FLUSH_EVERY` items: beyond about 50 waiting items Reverb warns, and more wins nothing.
- sampling: TrajectoryDataset, batched, 0.45 ms for 32 rows; TimestepDataset is as fast, Client.sample takes
  5 ms and Reverb's documentation advises against it for training. Two workers a dataset and twice the batch
  in flight for each (the documentation's advice): none of twelve settings was faster beyond the noise.
- new priorities: Client.mutate_priorities, 0.1 ms for 32; TFClient.update_priorities 0.18 ms.

A dataset fetches ahead, so an update, or a new row, shows some batches late. Reverb gives
probabilities; weights are computed here from them, as a user must (largest in the batch = 1, as
Acme's learners do).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adapters.base import Adapter, Columns, Features, Field, Spec, Step

FLUSH_EVERY = 32
START_SECONDS = 90.0  # importing TensorFlow takes seconds, and many times that on a busy machine
TABLE = "replay"


class ServerProcess:
    """The server's process: started, waited for with a time limit, and closed."""

    def __init__(self, spec: Spec) -> None:
        config = {
            "parent": os.getpid(),
            "capacity": spec.capacity,
            "prioritized": spec.prioritized,
            "alpha": spec.alpha,
            "fields": {name: {"shape": list(f.shape), "dtype": f.dtype} for name, f in spec.fields.items()},
        }
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the server)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "adapters.reverb_server", json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=Path(__file__).resolve().parent.parent,
        )

    def wait_for_address(self) -> str:
        """The server's address, once it serves."""
        deadline = time.monotonic() + START_SECONDS
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise RuntimeError(f"the Reverb server did not start in {START_SECONDS:.0f} s:\n{self.errors()}")
                part = os.read(self._process.stdout.fileno(), 100)
                if not part:
                    raise RuntimeError(f"the Reverb server ended at its start:\n{self.errors()}")
                line += part
        return f"localhost:{int(line.split()[1])}"

    def errors(self) -> str:
        """The last of what the server wrote to its standard error."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-2000:].strip() or "(it wrote no error)"

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()


class Reverb(Adapter):
    name = "reverb"
    distribution = "dm-reverb"
    last_python = (3, 11)
    usage = "server in its own process; StructuredWriter or TrajectoryWriter in, batched TrajectoryDataset out"
    weights_relative_to = "batch"
    batches_ahead = 8
    start_method = "forkserver"  # gRPC does not survive a fork; a process that has only imported the library does
    preload = ("reverb",)
    features = Features(
        batch_add="no: a writer streams single steps",
        flexible_fields="yes, nested structures",
        prioritized="yes, priorities on add and later; shows some batches late",
        weights="no: probabilities only (computed here, relative to the largest in the batch)",
        duplicates="yes",
        gives="columns (datasets)",
        copies_on_add="yes (sent to the server)",
        n_step="items of any length; rewards are summed by the user",
        processes="any, also on other machines (gRPC)",
        framework="TensorFlow",
        licence="Apache-2.0",
        disk="yes, checkpoints of the server [Reverb docs, Checkpointing]",
        machines="yes, gRPC [Reverb docs, How does Reverb work?]",
        last_release="0.14.0, 2023-12-10 [PyPI]",
    )

    def __init__(self, spec: Spec) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow greets on stderr otherwise
        self.server = ServerProcess(spec)
        try:
            # The server starts while these imports take their seconds.
            import reverb  # noqa: F401
            import tensorflow as tf

            limit_threads(tf)
            self._connect(spec, self.server.wait_for_address())
        except BaseException:
            self.server.close()
            raise

    def _connect(self, spec: Spec, address: str) -> None:
        import reverb

        self.spec, self.address, self.reverb = spec, address, reverb
        self.prioritized, self.beta, self.fields = spec.prioritized, spec.beta, spec.fields
        self.client = reverb.Client(address)
        self.structured_writer = self.trajectory_writer = None
        self.batch_size, self.batches = 0, None

    def __reduce__(self) -> tuple:
        """In another process: a client of the same server."""
        return _client, (type(self), self.spec, self.address)

    def _structured(self):
        """A writer that makes an item of priority 1 of every step appended to it."""
        if self.structured_writer is None:
            lib = self.reverb.structured_writer
            step = lib.create_reference_step(dict.fromkeys(self.fields))
            pattern = lib.pattern_from_transform(step, lambda s: {name: s[name][-1] for name in self.fields})
            self.structured_writer = self.client.structured_writer([lib.create_config(pattern, TABLE)])
        return self.structured_writer

    def add(self, steps: Sequence[Step]) -> None:
        writer = self._structured()
        # A Python number would become TensorFlow's default type, int32 for an int, which the table refuses.
        as_act, as_rew = (_converter(self.fields[name]) for name in ("act", "rew"))
        append = writer.append
        for i, (obs, act, rew, next_obs, done) in enumerate(steps, 1):
            append({"obs": obs, "act": as_act(act), "rew": as_rew(rew), "next_obs": next_obs, "done": done})
            if i % FLUSH_EVERY == 0:
                writer.flush()
        writer.flush()  # returns when the server has confirmed every row

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        steps = list(map(Step, *(columns[name] for name in Step._fields)))
        if priorities is None:
            self.add(steps)
        else:
            self.add_with_priorities(steps, priorities.tolist())

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        if self.trajectory_writer is None:
            self.trajectory_writer = self.client.trajectory_writer(num_keep_alive_refs=1)
        writer, names = self.trajectory_writer, tuple(self.fields)
        as_act, as_rew = (_converter(self.fields[name]) for name in ("act", "rew"))
        for i, ((obs, act, rew, next_obs, done), priority) in enumerate(zip(steps, priorities, strict=True), 1):
            writer.append({"obs": obs, "act": as_act(act), "rew": as_rew(rew), "next_obs": next_obs, "done": done})
            history = writer.history
            writer.create_item(TABLE, priority, {name: history[name][-1] for name in names})
            if i % FLUSH_EVERY == 0:
                writer.flush()
        writer.flush()

    def _batches(self, batch_size: int):
        """An endless iterator of batches; one at a time, since each fetches ahead on its own."""
        if batch_size != self.batch_size:
            self.batches = None
            dataset = self.reverb.TrajectoryDataset.from_table_signature(
                self.address,
                TABLE,
                max_in_flight_samples_per_worker=2 * batch_size,
                num_workers_per_iterator=2,
            )
            self.batch_size, self.batches = batch_size, dataset.batch(batch_size).as_numpy_iterator()
        return self.batches

    def sample(self, batch_size: int) -> Columns:
        drawn = next(self._batches(batch_size))
        batch = dict(drawn.data)
        if self.prioritized:
            probability = drawn.info.probability
            batch["weights"] = ((probability / probability.min()) ** -self.beta).astype(np.float32)
            batch["indexes"] = drawn.info.key
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.client.mutate_priorities(TABLE, dict(zip(indexes.tolist(), priorities.tolist(), strict=True)))

    def __len__(self) -> int:
        return self.client.server_info()[TABLE].current_size

    def close(self) -> None:
        # Writers first: they would otherwise try to reach a server that is gone.
        if self.trajectory_writer is not None:
            self.trajectory_writer.close()
        self.batches = self.structured_writer = self.trajectory_writer = None
        self.client = None
        self.server.close()


def _client(kind: type[Reverb], spec: Spec, address: str) -> Reverb:
    client = kind.__new__(kind)
    client._connect(spec, address)
    return client


def _converter(field: Field):
    """A step's value as the table's type; arrays have it already."""
    return (lambda array: array) if field.shape else np.dtype(field.dtype).type


def limit_threads(tf) -> None:
    """One TensorFlow thread, as every peer has; too late, and harmless, where TensorFlow already runs."""
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        pass
