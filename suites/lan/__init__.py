"""Emulates several hosts on this machine, for programs that need more than one machine.

    with Lan(3) as lan:
        lan.start(2, ["python", "-m", "http.server"])
        lan.cut(2)

The script `hosts` in this folder creates them. They share this machine's processors and memory, so several hosts are no
faster than one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

SCRIPT = Path(__file__).with_name("hosts")
CHECKOUT = SCRIPT.parents[2]
NEEDED = ("ip", "tc", "nsenter", "unshare", "setpriv")
STATES = Path("/run")
PREFIX = "b"  # of a name, which has at most 8 characters


class NoHosts(Exception):  # noqa: N818 (a state rather than an error)
    """Hosts cannot be emulated on this machine. The message says why."""


def why_not() -> str | None:
    """Return why hosts cannot be created here, or None if they can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "hosts are Linux namespaces, which only root can create"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return f"hosts need {', '.join(missing)} (Debian: iproute2 and util-linux)" if missing else None


class Lan:
    """Hosts 1, 2, ..., joined by a switch. `rate` is the speed of each host's link, such as "1gbit".

    A host has an empty /tmp of its own, which contains only this checkout, its Python, and the folders `shown`. Raises
    `NoHosts`.
    """

    def __init__(self, count: int, rate: str | None = None, shown: Sequence[Path] = ()) -> None:
        if reason := why_not():
            raise NoHosts(reason)
        _remove_abandoned()
        self.count = count
        network = f"10.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"
        self._env = {**os.environ, "HOSTS_NAME": f"{PREFIX}{os.getpid()}", "HOSTS_NET": network}
        self.addresses = [f"{network}.{host}" for host in range(1, count + 1)]
        used = {Path(path).resolve() for path in (CHECKOUT, sys.prefix, sys.base_prefix, *shown)}
        in_tmp = [str(path) for path in sorted(used) if path.is_relative_to("/tmp")]
        try:
            limited = ["--rate", rate] if rate else []
            self._do("up", str(count), *limited, *(word for each in in_tmp for word in ("--show", each)))
        except subprocess.CalledProcessError as error:
            raise NoHosts(f"hosts could not be created: {error.stderr.strip()}") from error

    def _do(self, *arguments: str) -> str:
        done = subprocess.run([SCRIPT, *arguments], env=self._env, capture_output=True, text=True, check=True)
        return done.stdout

    def address(self, host: int) -> str:
        return self.addresses[host - 1]

    def start(self, host: int, command: Sequence[str | Path], **options: Any) -> subprocess.Popen:
        """Start a command on a host. The command ends when this process ends; daemons that it starts end with the
        host."""
        env = {**self._env, **options.pop("env", {})}
        return subprocess.Popen([SCRIPT, "run", str(host), *map(str, command)], env=env, **options)

    def cut(self, host: int) -> None:
        """Pull the network cable out of a host."""
        self._do("cut", str(host))

    def mend(self, host: int) -> None:
        """Put the cable back."""
        self._do("mend", str(host))

    def power_off(self, host: int) -> None:
        """Turn a host off at once: it sends no further packet, and its processes die."""
        self._do("kill", str(host))

    def set_rate(self, rate: str | None) -> None:
        """Change the speed of every link; None: unlimited."""
        self._do("rate", rate or "none")

    def cpu_seconds(self, host: int) -> float:
        """Return the CPU time that a host has used, including the time of processes that have ended."""
        return float(self._do("cpu", str(host)))

    def sent_bytes(self, host: int) -> int:
        """Return how many bytes a host has sent over its link."""
        # /sys/class/net shows the network namespace in which /sys was mounted, not the host's.
        links = (line.partition(":") for line in self._do("run", str(host), "cat", "/proc/net/dev").splitlines())
        counters = {name.strip(): numbers.split() for name, _, numbers in links}
        return int(counters["eth0"][8])

    def close(self) -> None:
        """Remove all hosts, with their processes and networks."""
        self._do("down")

    def __enter__(self) -> Lan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove_abandoned() -> None:
    """Remove hosts whose creator was killed."""
    for state in STATES.glob(f"hosts-{PREFIX}*"):
        name = state.name.removeprefix("hosts-")
        maker = name.removeprefix(PREFIX)
        if maker.isdigit() and not psutil.pid_exists(int(maker)):
            with suppress(subprocess.CalledProcessError):
                subprocess.run(
                    [SCRIPT, "down"], env={**os.environ, "HOSTS_NAME": name}, capture_output=True, check=True
                )
