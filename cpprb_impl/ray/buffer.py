"""The buffer that a training program uses on any host of a Ray cluster."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cpprb_impl.buffers.shared import SHARED_PRIORITIZED, layout_of
from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer as OneHost
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.explorer import ELSEWHERE, NEW, WAIT, LocalExplorer, RemoteExplorer
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.learner import Learner
from cpprb_impl.hosts.shard import Address
from cpprb_impl.layout.fields import native_fields, parse_size
from cpprb_impl.layout.options import EnvDict, Names, Stacks
from cpprb_impl.ray import saving
from cpprb_impl.ray.directory import Directory
from cpprb_impl.ray.finder import Finder, asking, check_ray
from cpprb_impl.ray.options import parse_deadline, parse_flag, parse_hosts, parse_prefetch

UNENCRYPTED = (
    "encrypt=False sends all rows, priorities and the buffer's password in clear text: any machine that can read the "
    "network between the hosts can read and change the buffer. Omit encrypt unless that network is private"
)
OF_SEQUENCES = (
    "sample() is not supported by a prioritized buffer with sequences, whose priorities belong to sequences: call "
    "sample_sequences()"
)
START_SECONDS, CLOSE_SECONDS = 60.0, 15.0  # time for the shards to start, and to end


class PrioritizedReplayBuffer:
    """`cpprb_impl.PrioritizedReplayBuffer` over the hosts of a Ray cluster.

    Each data host holds a shard. Pass the buffer to tasks and actors as an argument: explorers call `add`, and learners
    call `sample` and `update_priorities`, which have the same meaning as on one host. A process must use its buffer
    from only one thread. A transition added without a priority gets the largest priority in its shard.

    The shards end when the process that created the buffer calls `close` or exits, or when no process holds the buffer
    any longer. Without `close`, their memory is released about 20 s later.

    Parameters
    ----------
    size : int
        Transitions in all shards together; a float is truncated.
    env_dict : dict of dict
        As for `cpprb_impl.MPPrioritizedReplayBuffer`, with at least one field.
    alpha, eps, normalize, next_of, stack_compress, Nstep, n_envs, autoreset, default_dtype
        As for `cpprb_impl.MPPrioritizedReplayBuffer`.
    sequences : dict, optional
        As for `cpprb_impl.MPPrioritizedReplayBuffer`: `sample_sequences` then draws from all shards, and `sample`
        raises TypeError. A sequence also begins anew with the next step after rows that were lost, and wherever an
        explorer continues on a different shard.
    hosts : sequence of str, optional
        Addresses of the nodes that hold data; by default, all nodes that are alive.
    prefetch : int
        Number of batches that a learner requests ahead: they are drawn before its newest priorities take effect.
    deadline : float
        Seconds after which a learner continues without a shard that does not answer, and an explorer looks for a
        different shard.
    when_lost : {"elsewhere", "wait"}
        What an explorer without a shard on its own host does when its remote shard is lost: send rows to a different
        host, or wait.
    encrypt : bool
        Whether messages are encrypted (CurveZMQ). Without encryption, all rows and the password that gives access to
        them can be read on the network, and a warning says so.
    compress : bool
        Whether rows may be compressed (LZ4) on the network: each link compresses them if its user then waits less,
        which is measured from time to time.

    Raises
    ------
    TypeError, ValueError, OverflowError, KeyError
        If a size, field or option is invalid.
    RuntimeError
        If Ray is not initialized, a host is not a node of the cluster, or a shard cannot be started there, for example
        for lack of shared memory.

    Warns
    -----
    UserWarning
        If `encrypt` is False.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        normalize: str | None = "buffer",
        next_of: Names = None,
        stack_compress: Stacks = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        sequences: Mapping[str, Any] | None = None,
        n_envs: int = 1,
        autoreset: str | None = None,
        default_dtype: Any = None,
        hosts: Sequence[str] | None = None,
        prefetch: int = 2,
        deadline: float = 1.0,
        when_lost: str = ELSEWHERE,
        encrypt: bool = True,
        compress: bool = True,
    ) -> None:
        if when_lost not in (ELSEWHERE, WAIT):
            raise ValueError(f"when_lost must be {ELSEWHERE!r} or {WAIT!r}, got {when_lost!r}")
        self._prefetch, self._deadline, self._when_lost = parse_prefetch(prefetch), parse_deadline(deadline), when_lost
        self._compress = parse_flag("compress", compress)
        if not parse_flag("encrypt", encrypt):
            warnings.warn(UNENCRYPTED, UserWarning, stacklevel=2)
        self._keys = Keys.make(encrypt)
        if not native_fields(env_dict, default_dtype):
            raise ValueError(f"env_dict must have at least one field, got {env_dict!r}")
        check_ray()
        hosts = parse_hosts(hosts)
        options = {
            "alpha": alpha,
            "eps": eps,
            "normalize": normalize,
            "next_of": next_of,
            "stack_compress": stack_compress,
            "Nstep": Nstep,
            "sequences": sequences,
            "n_envs": n_envs,
            "autoreset": autoreset,
            "default_dtype": default_dtype,
        }
        size = -(-parse_size(size) // len(hosts))
        self._layout, _ = layout_of(type(self).__name__, SHARED_PRIORITIZED, size, env_dict, options)
        with closing(OneHost._of(replace(self._layout, size=1))) as trial:  # raises here what each shard would raise
            wire.columns_of(trial.get_all_transitions())
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # If killed, the directory is restarted on this host, and so are the shards, with their rows.
        keep = {"num_cpus": 0, "scheduling_strategy": here, "max_restarts": -1, "max_task_retries": -1}
        start = ray.remote(Directory).options(**keep).remote
        self._directory = cast("Any", start(secrets.token_hex(8), hosts, self._layout, self._keys))
        self._is_maker, self._is_closed = True, False
        try:
            ray.get(self._directory.start.remote(), timeout=START_SECONDS)
        except RayError as error:
            ray.kill(self._directory)
            raise RuntimeError(str(getattr(error, "cause", f"the shards could not be started: {error}"))) from None
        except BaseException:
            ray.kill(self._directory)
            raise
        self._begin()

    def _begin(self) -> None:
        self._add_slowly()
        self._process = os.getpid()
        self._finder: Finder | None = None
        self._learner_: Learner | None = None
        self._explorer_: LocalExplorer | RemoteExplorer | None = None
        self._environments = NEW  # what the next explorer continues

    def _forget_explorer(self) -> None:
        self._add_slowly()
        if self._explorer_ is not None:
            self._explorer_.close()
            self._environments = self._explorer_.environments
        self._explorer_ = None

    def __getstate__(self) -> dict[str, Any]:
        own = ("_finder", "_learner_", "_explorer_", "_environments", "_process", "add")
        return {name: value for name, value in vars(self).items() if name not in own} | {"_is_maker": False}

    def _check_usable(self) -> None:
        if self._is_closed:
            raise RuntimeError("the buffer is closed")
        if os.getpid() != self._process:  # Ray's and ZeroMQ's connections belong to the parent
            raise RuntimeError("a forked child cannot use the buffer: pass it to a Ray task or actor instead")

    def _known(self) -> Finder:
        if self._finder is None:
            self._finder = Finder(self._directory)
        return self._finder

    @property
    def _sequences(self) -> Mapping[str, Any] | None:
        return cast("Mapping[str, Any] | None", self._layout.options.get("sequences"))

    def _check_sequences(self, method: str) -> None:
        if self._sequences is None:
            raise ValueError(f"{method}() requires a buffer that was created with the option `sequences`")

    @property
    def _learner(self) -> Learner:
        self._check_usable()
        if self._learner_ is None:
            self._learner_ = Learner(
                self._known(),
                self._keys,
                prefetch=self._prefetch,
                deadline=self._deadline,
                compress=self._compress,
                sequences=self._sequences,
                **{name: self._layout.options[name] for name in ("normalize", "alpha", "eps")},
            )
        return self._learner_

    @property
    def _explorer(self) -> LocalExplorer | RemoteExplorer:
        self._check_usable()
        explorer = self._explorer_
        if isinstance(explorer, LocalExplorer) and not self._stays(explorer):
            self._forget_explorer()
            explorer = None
        if explorer is None:
            explorer = self._explorer_ = self._local_explorer() or RemoteExplorer(
                self._known(),
                self._keys,
                self._layout,
                when_lost=self._when_lost,
                deadline=self._deadline,
                compress=self._compress,
                environments=self._environments,
            )
        return explorer

    def _local_explorer(self) -> LocalExplorer | None:
        address = self._shard_here()
        try:
            return LocalExplorer(address, self._environments) if address else None
        except FileNotFoundError:  # the shard was lost, but may return
            return None

    def _stays(self, explorer: LocalExplorer) -> bool:
        """Return whether the explorer's shard exists, or may come back with its rows."""
        if explorer.is_closed:
            return False
        if explorer.gone_for() is None:
            return True
        here = self._shard_here()
        if here is None or here == explorer.address:  # so far, no new shard is known
            return explorer.may_return
        if here.number != explorer.address.number:  # empty
            return False
        explorer.follow(here)
        return True

    def _shard_here(self) -> Address | None:
        here = ray.get_runtime_context().get_node_id()
        return next((each for each in self._known()() if each.node == here), None)

    def add(self, **steps: Any) -> None:
        """Add one step or many, as `MPPrioritizedReplayBuffer.add` does.

        On a host with a shard, the steps are stored when the call returns. Elsewhere they are sent in batches, of 100
        rows or, while the shard is busy, of up to 1,024. The last rows wait until further calls fill a batch: `flush`
        sends them, and waits until all are acknowledged.

        Look the method up for each call: a stored bound method raises ValueError after the shard was lost for some
        seconds.
        """
        explorer = self._explorer
        explorer.add(**steps)
        overridden = type(self).add is not PrioritizedReplayBuffer.add
        if isinstance(explorer, LocalExplorer) and not overridden and explorer.gone_for() is None:
            # From now on, the shared buffer's own method is called, until its segment loses its name.
            vars(self)["add"] = explorer.add
            explorer.watch(self._add_slowly)

    def _add_slowly(self) -> None:
        vars(self).pop("add", None)

    def on_episode_end(self) -> None:
        """End the episode of this process: see `MPPrioritizedReplayBuffer`.

        If the shard of this host was lost and is back, this process adds to it again from now on.
        """
        self._explorer.on_episode_end()
        if isinstance(self._explorer_, RemoteExplorer) and self._shard_here() is not None:
            # This host's shard was lost and is back. Switching within an episode would lose pending n-step windows.
            self._explorer_.flush()
            self._forget_explorer()

    def flush(self) -> None:
        """Send the staged rows of this process, and wait until each is acknowledged.

        If a shard on another host is lost, the rows that it had not acknowledged, at most 8 batches, are not sent
        again: they may be stored or lost, and a warning states their number.

        Raises
        ------
        ConnectionError
            If no shard answers in time.
        RuntimeError
            If a shard refuses rows.
        """
        self._explorer.flush()

    def sample(self, batch_size: int, beta: float = 0.4) -> dict[str, np.ndarray]:
        """Return transitions drawn by priority from all shards.

        The result is a dict of arrays (batch_size, *shape), with "weights", float32, and "indexes", int64, both
        (batch_size,). Weights are as for one buffer with all transitions, normalised as `normalize` specifies.

        Raises
        ------
        ValueError
            If `batch_size` is negative or its rows exceed 1 GiB, `beta` is negative or not finite, or all shards that
            answer are empty.
        ShardsLost
            If no shard answers within the deadline.
        TypeError
            If the buffer has `sequences`.
        """
        if self._sequences is not None:
            raise TypeError(OF_SEQUENCES)
        return self._learner.sample(batch_size, beta)

    def sample_sequences(self, batch_size: int, beta: float = 0.4, time_major: bool = False) -> dict[str, np.ndarray]:
        """Return sequences of consecutive steps drawn by priority from all shards; uniformly if `alpha` is 0.

        The result is that of `MPPrioritizedReplayBuffer.sample_sequences`, in new arrays. Weights are as for one buffer
        with the sequences of all shards, normalised as `normalize` specifies.

        Raises
        ------
        ValueError
            If the buffer was created without `sequences`, no shard that answers has a sequence, or for the reasons for
            which `sample` raises it.
        ShardsLost
            If no shard answers within the deadline.
        """
        self._check_sequences("sample_sequences")
        batch = self._learner.sample(batch_size, beta)
        if not time_major:
            return batch
        of_sequence = {"lengths", "weights", "indexes", *(self._sequences or {})["state"]}
        return {
            name: array if name in of_sequence else np.ascontiguousarray(array.swapaxes(0, 1))
            for name, array in batch.items()
        }

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """Set the raw priorities of sampled transitions or sequences, skipping any that were overwritten or lost.

        For sequences, `priorities` may also be the errors of all steps, (n, burn-in + size), which must be finite,
        except those of the burn-in: the shard combines them as `cpprb_impl.PrioritizedReplayBuffer` does.

        For a bad argument, raises the exceptions of `cpprb_impl.PrioritizedReplayBuffer.update_priorities`.
        """
        self._learner.update_priorities(indexes, priorities)

    def reseed(self, seed: None = None) -> None:
        """Restart this learner's random numbers, with a seed from the operating system.

        Raises ValueError if `seed` is not None: each shard has its own generator, so no seed would make batches
        reproducible. Copies in other processes never share random numbers.
        """
        self._learner.reseed(seed)

    def get_stored_size(self) -> int:
        """Return the number of transitions in the shards that answer, as last reported to this process."""
        return self._learner.get_stored_size()

    def get_valid_sequences(self) -> int:
        """Return the number of different sequences in the shards that answer.

        Each shard looks at all of its sequences, so do not call this for each batch. Raises ValueError if the buffer
        was created without `sequences`.
        """
        self._check_sequences("get_valid_sequences")
        return self._learner.get_valid_sequences()

    def get_lost(self) -> list[str]:
        """Return the hosts whose shards do not answer this learner."""
        return self._learner.lost

    def save_transitions(self, folder: str | Path) -> None:
        """Write the transitions of all shards, with their priorities, to a new folder, one file per shard.

        The files are named shard-0-of-3.npz and so on. Their format is that of
        `MPPrioritizedReplayBuffer.save_transitions`, so an `MPPrioritizedReplayBuffer` can load them as well. Explorers
        should call `flush` first and pause meanwhile. The files contain neither the explorers' pending n-step
        transitions nor, with `autoreset`, which environments are about to reset: after loading, explorers must begin
        with environments that have just been reset.

        Raises
        ------
        FileExistsError
            If the folder exists.
        RuntimeError
            If transitions keep being added.
        OSError
            If a file cannot be written; ConnectionError if a host has no shard, or a shard is lost meanwhile. The
            folder is then incomplete.
        """
        saving.save(self._shards(), Path(folder))

    def load_transitions(self, folder: str | Path) -> None:
        """Append the transitions that `save_transitions` wrote, possibly on a different number of hosts.

        If the number differs, each file is divided equally among all shards; with `sequences`, those with steps in two
        parts are lost. No other process may use the buffer meanwhile. If a file cannot be loaded, those before it have
        already been appended.

        Raises
        ------
        FileNotFoundError
            If the folder contains no shard files, or one is missing. Nothing is loaded then.
        ValueError
            If a file has a wrong name: nothing is loaded then. If a file was truncated or changed, or comes from a
            buffer with different fields or a different `Nstep`; or if this buffer has `sequences` and the saved one had
            none.
        ConnectionError
            If a host has no shard, or a shard is lost meanwhile.
        """
        saving.load(self._shards(), Path(folder))

    def _shards(self) -> list[Any]:
        """Return the handles of all shards. Raises ConnectionError if a living host has no shard in time."""
        self._check_usable()
        with saving.as_raised(), asking():
            return cast("list[Any]", ray.get(self._directory.get_shards.remote()))

    def close(self) -> None:
        """Close this process's connections.

        In the process that created the buffer, this also ends all shards: the buffer's methods then raise RuntimeError,
        and those of copies in other processes ConnectionError. A buffer may be closed repeatedly, even after Ray has
        been shut down. In a forked child, this does nothing.
        """
        if os.getpid() != self._process:
            return
        for each in (self._learner_, self._explorer_):
            if each is not None:
                each.close()
        self._begin()
        if self._is_maker and not self._is_closed:
            self._is_closed = True
            self._end_shards()

    def _end_shards(self) -> None:
        # If Ray was shut down, the shards have ended. Ray raises a bare Exception for an actor of an earlier cluster.
        if ray.is_initialized():
            with suppress(Exception):
                ray.get(self._directory.close.remote(), timeout=CLOSE_SECONDS)
            with suppress(Exception):
                ray.kill(self._directory)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._begin()
