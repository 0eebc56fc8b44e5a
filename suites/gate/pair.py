"""One launch of two processes, base and head, that take turns on one core.

    python -m suites.gate.pair --begins SIDE --core N --endings FILE --base COMMAND --head COMMAND

Each COMMAND is the launch of one side, as a JSON list, to which the options of `suites.runner.turns` are added.
FILE gets the exit status of each side, as JSON: a side whose partner has ended has no figures either.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from adapters.child_process import exit_with_parent

SIDES = ("base", "head")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.gate.pair", description=__doc__.partition("\n")[0])
    parser.add_argument("--begins", choices=SIDES, required=True)
    parser.add_argument("--core", type=int, required=True, help="the core that both use")
    parser.add_argument("--endings", type=Path, required=True)
    for side in SIDES:
        parser.add_argument(f"--{side}", type=json.loads, required=True)
    args = parser.parse_args()
    exit_with_parent(os.getppid())
    os.sched_setaffinity(0, {args.core})
    processes = {}
    for side, end in zip(SIDES, socket.socketpair(), strict=True):
        turns = [f"--turns={end.fileno()}", *(["--begins"] if side == args.begins else [])]
        processes[side] = subprocess.Popen([*getattr(args, side), *turns], pass_fds=[end.fileno()])
        end.close()
    statuses = {side: process.wait() for side, process in processes.items()}
    args.endings.write_text(json.dumps(statuses))
    return int(any(statuses.values()))


if __name__ == "__main__":
    sys.exit(main())
