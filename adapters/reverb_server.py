"""The process that hosts a Reverb server for `adapters.reverb`.

Run as `python -m adapters.reverb_server '<json>'`. It prints one line, `port <number>`, once it
serves, and exits when its standard input closes or its parent is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile

from adapters.lifeline import exit_with_parent

TABLE = "replay"


def serve(config: dict) -> None:
    # Ctrl-C reaches the whole process group; the parent closes this process in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    checkpoints = tempfile.mkdtemp(prefix="replaybench-reverb-")

    def tidy() -> None:
        shutil.rmtree(checkpoints, ignore_errors=True)

    exit_with_parent(config["parent"], tidy)
    try:
        server = start(config, checkpoints)
    except BaseException:
        tidy()
        raise
    print(f"port {server.port}", flush=True)
    sys.stdin.buffer.read()  # returns when the adapter closes its end
    tidy()
    # Server.stop() waits about ten seconds for clients that keep their connection; nothing is lost by leaving.
    os._exit(0)


def start(config: dict, checkpoints: str):
    """A running server with one table; the library is imported only here."""
    import reverb
    import tensorflow as tf
    from reverb.platform.checkpointers_lib import DefaultCheckpointer

    signature = {
        name: tf.TensorSpec(field["shape"], tf.as_dtype(field["dtype"]), name=name)
        for name, field in config["fields"].items()
    }
    selectors = reverb.selectors
    table = reverb.Table(
        name=TABLE,
        sampler=selectors.Prioritized(config["alpha"]) if config["prioritized"] else selectors.Uniform(),
        remover=selectors.Fifo(),
        max_size=config["capacity"],
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
    )
    # No checkpoint is ever written, but the default checkpointer would leave a folder behind.
    return reverb.Server([table], checkpointer=DefaultCheckpointer(checkpoints))


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
