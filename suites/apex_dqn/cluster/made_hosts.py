"""A training run on hosts emulated on this machine, for trying out a cluster without having one."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from adapters.hosts import RAY_PORT
from suites.apex_dqn import interrupt, options, program
from suites.apex_dqn.settings import TrainingSettings
from suites.lan import Lan, NoHosts, ray_cluster

LOOK_SECONDS = 0.1


def run(args: argparse.Namespace, settings: TrainingSettings) -> int:
    """Make the hosts, train on the first one, and remove them; return the program's exit status."""
    try:
        program.check(args, settings)
        if args.folder:
            program.check_new(args.folder)
    except program.TROUBLE as error:
        return program.refuse(error, settings)
    folders = [Path(folder) for folder in (args.folder, args.resume) if folder]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with Lan(args.hosts, shown=folders) as lan:
            print(f"starting Ray on {args.hosts} host{'s' * (args.hosts > 1)} emulated on this machine", flush=True)
            ray_cluster.start(lan, cpus=settings.explorers)
            address = f"{lan.address(1)}:{RAY_PORT}"
            command = [sys.executable, "-m", "suites.apex_dqn.train", *options.arguments_for(args, settings, address)]
            # In a session of its own, so that Ctrl-C reaches it only once: as a signal that this process sends.
            process = lan.start(1, command, env=ray_cluster.ENVIRONMENT, start_new_session=True)
            return _wait(process, lan, args.lose_host)
    except (NoHosts, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2


def _wait(process: subprocess.Popen, lan: Lan, lose_after: float | None) -> int:
    lost_at = None if lose_after is None else time.monotonic() + lose_after
    interrupted = False
    while process.poll() is None:
        if interrupt.received() and not interrupted:
            with suppress(psutil.NoSuchProcess):  # it has just ended
                for training in psutil.Process(process.pid).children():
                    training.send_signal(interrupt.SIGNALS[0])
                    interrupted = True
        if lost_at is not None and time.monotonic() > lost_at:
            lost_at = None
            print(f"host {lan.count} loses power", flush=True)
            lan.power_off(lan.count)
        time.sleep(LOOK_SECONDS)
    return process.returncode
