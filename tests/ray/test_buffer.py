"""The buffer on the hosts of a Ray cluster, here with one host."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import numpy as np
import psutil
import pytest

ray = pytest.importorskip("ray")

from ray.exceptions import RayError  # noqa: E402 (only if Ray is installed)

from cpprb_impl.hosts import kept  # noqa: E402 (the same)
from cpprb_impl.hosts.explorer import LocalExplorer  # noqa: E402 (the same)
from cpprb_impl.ray import PrioritizedReplayBuffer, ShardsLost  # noqa: E402 (the same)

FIELDS = {"id": {"dtype": np.int64}, "obs": {"shape": 3}}
PATIENCE = 60.0
pytestmark = pytest.mark.usefixtures("cluster")


class Made(NamedTuple):
    """A buffer that many tests use. Each test calls `emptied` and uses the returned handle."""

    buffer: PrioritizedReplayBuffer
    warned: list[warnings.WarningMessage]

    def emptied(self) -> PrioritizedReplayBuffer:
        """Remove all rows; return a new copy of the buffer's handle, as in a process that has not used it yet."""
        with closing(pickle.loads(pickle.dumps(self.buffer))) as copy:
            copy._explorer._buffer.clear()
        return pickle.loads(pickle.dumps(self.buffer))


@contextmanager
def made(size: float, kind: type = PrioritizedReplayBuffer, **options) -> Iterator[Made]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # about other objects that are freed meanwhile
        buffer = kind(size, FIELDS, **options)
    with closing(buffer):
        yield Made(buffer, heard)


class Counting(PrioritizedReplayBuffer):
    calls = 0

    def add(self, **steps) -> None:
        self.calls += 1
        super().add(**steps)


# Starting a buffer takes seconds, so each of these fixtures combines several options.
@pytest.fixture(scope="module")
def with_defaults(cluster):
    with made(10_000, normalize="buffer") as each:
        yield each


@pytest.fixture(scope="module")
def unencrypted(cluster):
    with made(10_000, alpha=1.0, eps=0.0, normalize="batch", encrypt=False) as each:
        yield each


@pytest.fixture(scope="module")
def counting(cluster):
    """A buffer of a subclass, with a float as size."""
    with made(100.9, Counting, normalize=None) as each:
        yield each


@pytest.fixture
def buffer(with_defaults):
    """An empty buffer that several tests share: they must not kill, lose or replace its processes."""
    before = set(threading.enumerate())
    empty = with_defaults.emptied()
    yield empty
    empty.close()
    wait_until(lambda: not any("_watch" in each.name for each in set(threading.enumerate()) - before))


@pytest.fixture
def own_buffer(cluster):
    own = PrioritizedReplayBuffer(10_000, FIELDS)
    yield own
    own.close()


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    ids = np.arange(first, first + count)
    return {"id": ids, "obs": np.stack([ids] * 3, axis=1)}


def test_messages_are_encrypted_by_default(with_defaults):
    assert not with_defaults.warned
    assert with_defaults.buffer._keys.server and not with_defaults.buffer._keys.password


def test_a_warning_says_what_can_be_read_without_encryption(unencrypted):
    (warning,) = unencrypted.warned
    assert warning.category is UserWarning
    assert "encrypt=False sends all rows, priorities and the buffer's password in clear" in str(warning.message)
    with closing(unencrypted.emptied()) as buffer:
        assert buffer._keys.password
        buffer.add(**rows(0, 10))
        assert len(buffer.sample(4)["id"]) == 4


@ray.remote(num_cpus=0)
def explore(buffer, first: int, count: int) -> str:
    for at in range(first, first + count, 100):
        buffer.add(**rows(at, 100), priorities=np.ones(100))
    buffer.flush()
    return type(buffer._explorer_).__name__


def test_explorers_and_a_learner_run_in_tasks(buffer):
    assert set(ray.get([explore.remote(buffer, 1000 * n, 1000) for n in range(3)])) == {"LocalExplorer"}

    @ray.remote(num_cpus=0)
    def learn(buffer) -> tuple[int, int]:
        seen = set()
        for _ in range(200):
            batch = buffer.sample(64, beta=0.5)
            assert (batch["obs"] == batch["id"]).all()
            seen |= set(batch["id"].ravel().tolist())
            buffer.update_priorities(batch["indexes"], np.ones(64))
        return buffer.get_stored_size(), len(seen)

    stored, seen = ray.get(learn.remote(buffer))
    assert stored == 3000 and seen > 2900


def test_rows_that_were_just_added_are_counted(buffer):
    buffer.add(**rows(0, 1))
    for stored in range(2, 200):
        if stored % 2:
            buffer.sample(4)  # leaves replies in transit
        buffer.add(**rows(stored, 1))
        assert buffer.get_stored_size() == stored


def test_a_buffer_without_references_is_freed(buffer):
    copy, before = pickle.loads(pickle.dumps(buffer)), set(threading.enumerate())
    copy.add(**rows(0, 10))
    (watching,) = set(threading.enumerate()) - before
    copy.sample(4)
    assert "add" in vars(copy) and attached() == 1
    freed = weakref.ref(copy)
    del copy
    gc.collect()
    wait_until(lambda: freed() is None and attached() == 0)  # the watching thread may be using it at this moment
    wait_until(lambda: not watching.is_alive())


def test_a_method_bound_before_the_first_call_starts_one_thread(buffer):
    add, before = buffer.add, threading.active_count()
    for at in range(100):
        add(**rows(at, 1))
    assert threading.active_count() == before + 1 and buffer.get_stored_size() == 100


def test_a_subclass_may_override_add(counting):
    with closing(counting.emptied()) as buffer:
        for at in range(10):
            buffer.add(**rows(at, 1))
        assert buffer.calls == buffer.get_stored_size() == 10


def test_the_error_in_a_forked_child_suggests_ray(buffer):
    buffer.add(**rows(0, 10))
    buffer.sample(4)
    for name in ("sample", "flush", "save_transitions"):
        hears, says = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(target=say_error, args=(says, CALLS[name], buffer))
        child.start()
        assert hears.poll(PATIENCE), "the child hangs"
        assert "a forked child cannot use the buffer" in hears.recv()
        child.kill()
        child.join()
    assert len(buffer.sample(4)["id"]) == 4


def say_error(says, call, buffer) -> None:
    try:
        call(buffer)
    except RuntimeError as error:
        says.send(str(error))


def attached() -> int:
    """Return how many times this process has mapped the memory of a shard."""
    return sum(kept.PREFIX in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_a_shard_whose_supervisor_is_killed_returns_with_its_rows(own_buffer):
    own_buffer.add(**rows(0, 100))
    drawn = own_buffer.sample(32)
    assert "add" in vars(own_buffer)  # the add method of the shared buffer
    killed = kill_supervisor(own_buffer)
    for first in range(100, 1000, 10):  # meanwhile, rows are stored as before
        own_buffer.add(**rows(first, 10))
        time.sleep(0.01)
    wait_until(lambda: supervisor_of(own_buffer) not in (None, killed))
    wait_until(lambda: own_buffer.get_stored_size() == 1000)
    own_buffer.add(**rows(1000, 100))
    own_buffer.update_priorities(drawn["indexes"], 1e9)  # the indexes are still those of the same rows
    wait_until(lambda: set(own_buffer.sample(64)["id"].ravel()) <= set(drawn["id"].ravel()))
    batch = own_buffer.sample(256)
    assert own_buffer.get_stored_size() == 1100 and (batch["obs"] == batch["id"]).all()


def test_an_explorer_continues_after_its_supervisor_is_replaced_during_a_pause(own_buffer, monkeypatch):
    for stored, (patience, stays) in zip((0, 300), [(5.0, True), (0.3, False)], strict=True):
        monkeypatch.setattr("cpprb_impl.hosts.explorer.RETURN_SECONDS", patience)
        with closing(pickle.loads(pickle.dumps(own_buffer))) as copy:
            copy.add(**rows(stored, 100))
            killed = kill_supervisor(copy)
            wait_until(lambda killed=killed: supervisor_of(own_buffer) not in (None, killed))
            time.sleep(1.5)  # for longer than the deadline
            for first in range(stored + 100, stored + 300, 10):
                copy.add(**rows(first, 10))
                assert not stays or isinstance(copy._explorer_, LocalExplorer)
                time.sleep(0.06)
                if first == stored + 200:
                    copy.on_episode_end()
            assert isinstance(copy._explorer_, LocalExplorer)
            wait_until(lambda copy=copy, stored=stored: copy.get_stored_size() == stored + 300)


def test_a_killed_directory_returns_with_all_shards(own_buffer):
    own_buffer.add(**rows(0, 1000))
    killed = supervisor_of(own_buffer)
    os.kill(ray.get(own_buffer._directory.__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)
    wait_until(lambda: supervisor_of(own_buffer) not in (None, killed))
    wait_until(lambda: own_buffer.get_stored_size() == 1000)
    batch = own_buffer.sample(256)
    assert (batch["obs"] == batch["id"]).all()


DRIVER = """
import os, sys, ray
from cpprb_impl.ray import PrioritizedReplayBuffer
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
buffer = PrioritizedReplayBuffer(1000, {"obs": {}})
buffer.add(obs=1.0)
print(buffer._explorer_.address.segment, flush=True)
exec(sys.argv[2])
"""


@pytest.mark.slow
def test_programs_that_do_not_close_their_buffers_leave_nothing_behind():
    address = ray.get_runtime_context().gcs_address
    ends = ["", "ray.shutdown()", "os.kill(os.getpid(), 9)", "del buffer; sys.stdin.read()"]
    command = [sys.executable, "-c", DRIVER, address]
    programs = [subprocess.Popen([*command, end], stdin=PIPE, stdout=PIPE, text=True) for end in ends]
    segments = [program.stdout.readline().strip() for program in programs]
    assert all(segments)
    wait_until(lambda: not any(kept.exists(segment) for segment in segments))
    for program in programs:
        program.communicate()


def test_a_shard_that_loses_its_memory_returns_empty_and_a_bound_add_method_refuses_rows(own_buffer, monkeypatch):
    own_buffer.add(**rows(0, 500))
    assert own_buffer.get_stored_size() == 500
    (address,) = own_buffer._known()()
    old = own_buffer.sample(8)["indexes"].copy()
    kept.remove(address.segment)
    kill_supervisor(own_buffer)
    wait_until(lambda: [each.number for each in own_buffer._known()()] not in ([], [address.number]))
    own_buffer.add(**rows(1000, 50))
    batch = own_buffer.sample(32)
    assert batch["id"].min() >= 1000 and own_buffer.get_stored_size() == 50
    own_buffer.update_priorities(old, np.full(8, 1e9))  # for the lost shard, so nothing changes
    assert np.allclose(own_buffer.sample(32)["weights"], 1.0)
    monkeypatch.setattr("cpprb_impl.hosts.explorer.RETURN_SECONDS", 0.1)
    with closing(pickle.loads(pickle.dumps(own_buffer))) as copy:
        copy.add(**rows(0, 10))
        add = copy.add  # the add method of the shared buffer
        (address,) = copy._known()()
        kept.remove(address.segment)
        kill_supervisor(copy)
        wait_until(lambda: copy._explorer_.is_closed)
        with pytest.raises(ValueError, match="the buffer is closed"):
            add(**rows(10, 10))
        wait_until(lambda: [each.number for each in copy._known()()] not in ([], [address.number]))
        copy.add(**rows(20, 10))
        assert copy.get_stored_size() == 10


def test_an_explorer_returns_to_the_shard_of_its_host(monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.explorer.RETURN_SECONDS", 0.0)
    buffer = PrioritizedReplayBuffer(10_000, FIELDS, when_lost="wait")
    try:
        buffer.add(**rows(0, 10))
        (address,) = buffer._known()()
        kept.remove(address.segment)
        kill_supervisor(buffer)
        wait_until(lambda: not buffer._known()() and not isinstance(buffer._explorer, LocalExplorer))
        buffer.add(**rows(10, 10))
        buffer.flush()  # waits until the shard is back
        buffer.on_episode_end()
        buffer.add(**rows(20, 10))
        assert isinstance(buffer._explorer_, LocalExplorer) and buffer.get_stored_size() == 20
    finally:
        buffer.close()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def supervisor_of(buffer) -> int | None:
    """Return the process of the actor that supervises the only shard, or None while there is none."""
    try:
        (shard,) = ray.get(buffer._directory.get_shards.remote())
        servers = ray.get(shard.get_servers.remote())
        return psutil.Process(next(iter(servers.values()))).ppid()
    except (RayError, psutil.NoSuchProcess):  # it has died a moment ago
        return None


def kill_supervisor(buffer) -> int:
    supervisor = supervisor_of(buffer)
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    return supervisor


def test_a_saved_buffer_can_be_loaded(buffer, counting, tmp_path):
    buffer.add(**rows(0, 100), priorities=np.arange(1.0, 101.0))
    buffer.save_transitions(tmp_path / "saved")
    with pytest.raises(FileExistsError):
        buffer.save_transitions(tmp_path / "saved")
    with pytest.raises(FileNotFoundError, match="contains no shard files"):
        buffer.load_transitions(tmp_path)
    with closing(counting.emptied()) as loaded:  # with a different size
        loaded.load_transitions(tmp_path / "saved")
        drawn = np.concatenate([loaded.sample(100)["id"] for _ in range(20)])
        assert loaded.get_stored_size() == 100 and 52 < drawn.mean() < 68  # 61 if drawn by priority, 49.5 if uniformly
        file = tmp_path / "saved" / "shard-0-of-1.npz"
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(ValueError, match=f"{file}: .*cut short"):
            loaded.load_transitions(tmp_path / "saved")
        assert loaded.get_stored_size() == 100


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["0-of-3", "2-of-3"], FileNotFoundError, "shard-1-of-3.npz is missing"),
        (["0-of-2"], FileNotFoundError, "shard-1-of-2.npz is missing"),
        (["0-of-1", "x"], ValueError, "shard-x.npz: the name must be shard-I-of-N.npz, with I from 0 to N - 1"),
        (["0-of-1", "1-of-1"], ValueError, "shard-1-of-1.npz: the name must be shard-I-of-N.npz"),
        (["0-of-1", "00-of-1"], ValueError, "shard-00-of-1.npz: the name must be shard-I-of-N.npz"),
        (["0-of-0"], ValueError, "shard-0-of-0.npz: the name must be shard-I-of-N.npz"),
        (["0-of-1", "1-of-2"], ValueError, "must hold the files of one buffer, got shard-0-of-1.npz, shard-1-of-2.npz"),
    ],
)
def test_nothing_is_loaded_if_a_file_is_missing_or_has_another_name(names, error, message, buffer, tmp_path):
    buffer.add(**rows(0, 10))
    buffer.save_transitions(tmp_path / "saved")
    (saved,) = (tmp_path / "saved").iterdir()
    contents = saved.read_bytes()
    saved.unlink()
    for name in names:
        (tmp_path / "saved" / f"shard-{name}.npz").write_bytes(contents)
    with pytest.raises(error, match=message):
        buffer.load_transitions(tmp_path / "saved")
    assert buffer.get_stored_size() == 10


@ray.remote(num_cpus=0)
def learn_with_others(buffer, own: Path, seconds: float) -> int:
    own.touch()
    wait_until(lambda: len(list(own.parent.iterdir())) == 2)
    until, steps = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        batch = buffer.sample(64)
        assert (batch["obs"] == batch["id"]).all()
        buffer.update_priorities(batch["indexes"], batch["id"].ravel() + 1.0)
        steps += 1
    return steps


def test_two_learners_share_the_buffer(buffer, tmp_path):
    buffer.add(**rows(0, 1000), priorities=np.full(1000, 1e4))  # so that each row is soon drawn and gets a new priority
    learners = [learn_with_others.remote(buffer, tmp_path / name, 1.0) for name in "ab"]
    assert min(ray.get(learners)) > 10
    drawn = np.concatenate([buffer.sample(500)["id"] for _ in range(20)])
    expected = np.average(np.arange(1000), weights=(np.arange(1000) + 1) ** 0.6)
    assert abs(drawn.mean() - expected) < 20  # 7 standard deviations; uniform draws would have 500


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hosts": ["192.0.2.77"]}, RuntimeError, r"192\.0\.2\.77 is not a node of this Ray cluster"),
        ({"hosts": []}, ValueError, r"hosts must contain at least one address, got \[\]"),
        ({"hosts": "10.0.0.1"}, TypeError, "hosts must be a sequence of addresses, got '10.0.0.1'"),
        ({"hosts": 1}, TypeError, "hosts must be a sequence of addresses, got 1"),
        ({"when_lost": "never"}, ValueError, "when_lost must be 'elsewhere' or 'wait', got 'never'"),
        ({"prefetch": -1}, ValueError, "prefetch must not be negative, got -1"),
        ({"prefetch": 1.5}, TypeError, "prefetch must be an int, got 1.5"),
        ({"deadline": 0}, ValueError, "deadline must be above 0 and at most .* got 0"),
        ({"deadline": 1e9}, ValueError, "deadline must be above 0 and at most .* got 1000000000.0"),
        ({"deadline": float("inf")}, ValueError, "deadline must be finite and not negative, got inf"),
        ({"deadline": "1"}, TypeError, "deadline must be a number, got '1'"),
        ({"encrypt": "yes"}, TypeError, "encrypt must be a bool, got 'yes'"),
        ({"compress": "no"}, TypeError, "compress must be a bool, got 'no'"),
        ({"normalize": "max"}, ValueError, "normalize must be 'buffer', 'batch' or None, got 'max'"),
        ({"size": 0}, ValueError, "size must be at least 1"),
        ({"size": "10"}, TypeError, "size must be a number of transitions, got '10'"),
        ({"env_dict": {}}, ValueError, "env_dict must have at least one field, got {}"),
        ({"env_dict": None}, ValueError, "env_dict must have at least one field, got None"),
        ({"env_dict": {"obs": {"dtype": object}}}, TypeError, "obs: .* holds Python objects"),
        (
            {"env_dict": {"at": {"dtype": "datetime64[s]"}}},
            TypeError,
            "at has dtype datetime64.*cannot be sent to other",
        ),
        ({"env_dict": {"at": {"dtype": [("a", "i4")]}}}, TypeError, "at has dtype .*cannot be sent to other"),
        ({"next_of": "observation"}, KeyError, "next_of: there is no field 'observation'"),
        (
            {"size": 10**12},
            RuntimeError,
            "a shard of 1000000000000 transitions .*: OSError: .* needs [0-9]+ MiB",
        ),
    ],
)
def test_the_error_for_a_bad_option_names_it(options, error, message):
    with pytest.raises(error, match=message):
        PrioritizedReplayBuffer(**{"size": 10, "env_dict": FIELDS, **options})


@pytest.mark.parametrize(
    ("normalize", "name"), [("buffer", "with_defaults"), ("batch", "unencrypted"), (None, "counting")]
)
def test_weights_are_normalised_as_requested(normalize, name, request):
    alpha, eps = (1.0, 0.0) if name == "unencrypted" else (0.6, 1e-4)
    priorities = np.r_[1e-6, np.arange(1.0, 100.0)]
    with closing(request.getfixturevalue(name).emptied()) as buffer:
        buffer.add(**rows(0, 100), priorities=priorities)
        batch = buffer.sample(16, beta=0.7)
        weights = (priorities + eps) ** alpha
        drawn = weights[batch["id"].ravel()]
        unit = {"buffer": weights.min(), "batch": drawn.min(), None: weights.mean()}[normalize]
        np.testing.assert_allclose(batch["weights"], (drawn / unit) ** -0.7, rtol=1e-5)


def test_a_float_as_size_is_truncated_as_on_one_host(counting):
    with closing(counting.emptied()) as buffer:
        buffer.add(**rows(0, 110))
        assert buffer.get_stored_size() == 100


CALLS = {
    "add": lambda buffer: buffer.add(**rows(0, 1)),
    "on_episode_end": lambda buffer: buffer.on_episode_end(),
    "flush": lambda buffer: buffer.flush(),
    "sample": lambda buffer: buffer.sample(1),
    "update_priorities": lambda buffer: buffer.update_priorities([0], [1.0]),
    "get_stored_size": lambda buffer: buffer.get_stored_size(),
    "get_lost": lambda buffer: buffer.get_lost(),
    "save_transitions": lambda buffer: buffer.save_transitions("saved"),
    "load_transitions": lambda buffer: buffer.load_transitions("saved"),
}


def test_a_closed_buffer_leaves_nothing_behind_and_refuses_calls():
    buffer = PrioritizedReplayBuffer(1000, FIELDS)
    buffer.add(**rows(0, 10))
    (address,) = buffer._known()()
    segment = Path("/dev/shm", address.segment.lstrip("/"))
    assert segment.exists()
    used, new = (pickle.loads(pickle.dumps(buffer)) for _ in range(2))
    used.add(**rows(0, 10))
    used.sample(4)
    buffer.close()
    buffer.close()
    for call in CALLS.values():
        with pytest.raises(RuntimeError, match="the buffer is closed"):
            call(buffer)
        with pytest.raises(ConnectionError, match="the process that created the buffer has closed it"):
            call(new)
    for name in ("sample", "add"):
        assert "has closed it" in first_error(used, CALLS[name])
    used.close()
    wait_until(lambda: not segment.exists())


def test_a_closed_buffer_refuses_calls_while_its_directory_ends(monkeypatch):
    buffer = PrioritizedReplayBuffer(1000, FIELDS)
    used, new = (pickle.loads(pickle.dumps(buffer)) for _ in range(2))
    used.add(**rows(0, 10))
    with monkeypatch.context() as patch:
        patch.setattr(ray, "kill", lambda actor: None)  # as if Ray took some time to kill the actor
        buffer.close()
    for call in CALLS.values():
        with pytest.raises(ConnectionError, match="the process that created the buffer has closed it"):
            call(new)
    assert "has closed it" in first_error(used, CALLS["add"])
    used.close()


def first_error(buffer, call) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            call(buffer)
        except ConnectionError as error:
            if not isinstance(error, ShardsLost):
                return str(error)
        time.sleep(0.01)
    return "no error"


PROGRAM = """
import pickle, sys, ray
from cpprb_impl.ray import PrioritizedReplayBuffer

def make():
    return PrioritizedReplayBuffer(1000, {"obs": {}})

def connect():
    ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)

def print_error(call):
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)

print_error(make)
connect()
buffer, other = make(), make()
buffer.add(obs=1.0)
copy = pickle.loads(pickle.dumps(buffer))
copy.add(obs=1.0)
ray.shutdown()
buffer.close(), buffer.close()
assert not ray.is_initialized()
connect()
other.close(), other.close()
assert ray.is_initialized()
print("closed", flush=True)
ray.shutdown()
ray.init(num_cpus=0, include_dashboard=False, configure_logging=False)
print_error(lambda: copy.sample(1))
"""


@pytest.fixture(scope="module")
def program(cluster):
    command = [sys.executable, "-c", PROGRAM, ray.get_runtime_context().gcs_address]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_buffer_without_a_cluster_raises_an_error(program):
    assert "RuntimeError: Ray is not initialized: call ray.init()" in program.stdout.splitlines()[0]


def test_a_buffer_of_an_earlier_cluster_refuses_calls(program):
    assert "ConnectionError: the buffer's cluster was shut down" in program.stdout.splitlines()[-1]


def test_closing_after_ray_was_shut_down_raises_no_error(program):
    """It does not start Ray again either, nor affect a later connection."""
    assert program.returncode == 0 and "Error" not in program.stderr
    assert program.stdout.splitlines()[1] == "closed"


def test_a_copy_of_the_handle_does_not_end_the_shards(buffer):
    copy = pickle.loads(pickle.dumps(buffer))
    copy.add(**rows(0, 10))
    copy.close()
    buffer.add(**rows(10, 10))
    assert buffer.get_stored_size() == 20
