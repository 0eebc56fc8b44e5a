"""Which machine this is: shared memory ends at its borders, a pickle does not."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Host(NamedTuple):
    boot: str  # differs between any two running systems; "" where the system does not say
    host: str


def this_host() -> Host:
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return Host(boot, socket.gethostname())


def check_host(made_on: Host) -> None:
    """Raises RuntimeError unless what was made there can be here."""
    here = this_host()
    if made_on.boot != here.boot:
        raise RuntimeError(
            f"this buffer lives on host {made_on.host}: a shared buffer can only be used on the machine where it was "
            f"made, and this is host {here.host}"
        )
