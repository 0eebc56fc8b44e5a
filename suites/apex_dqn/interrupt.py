"""Ctrl-C and SIGTERM as a flag. An exception could be raised within a fork or an import, and be lost there."""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []


def watch() -> None:
    """From now on, these signals only set the flag."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _: _received.append(number))


def received() -> bool:
    return bool(_received)
