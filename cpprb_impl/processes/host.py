"""Identify the host, since a pickled buffer can be sent to another host, but shared memory cannot."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Host(NamedTuple):
    """A running system, and its name for error messages."""

    boot: str  # differs between any two running systems; "" if the system does not provide it
    name: str


def this_host() -> Host:
    """Return the host of this process."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return Host(boot, socket.gethostname())


def check_host(made_on: Host) -> None:
    """Raise RuntimeError unless `made_on` is this host."""
    here = this_host()
    if made_on.boot != here.boot:
        raise RuntimeError(
            f"a shared buffer can only be used on the host where it was created: this one was created on "
            f"{made_on.name}, and this is {here.name}"
        )
