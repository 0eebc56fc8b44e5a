"""Ape-X (Horgan et al. 2018): explorers, one learner with a dueling double DQN, and one shared prioritized buffer.

    python -m suites.apex_dqn.train [--env CartPole-v1] [--explorers 4] [--buffer NAME] [--minutes M] ...
    python -m suites.apex_dqn.train --resume FOLDER
    python -m suites.apex_dqn.train --hosts 3 | --address auto     over the hosts of a Ray cluster

This process only supervises: it restarts explorers that have died, prints the progress, and writes TensorBoard's logs.
The training ends when the score reaches the environment's reward threshold, after `--minutes`, or with Ctrl-C; a
checkpoint is written first, if the buffer can be saved. Exit status: 0 if the target was reached or the time is up, 1
if the learner died or an explorer cannot run, 2 for bad arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys

from suites.apex_dqn import interrupt


def main(arguments: list[str] | None = None) -> int:
    interrupt.watch()
    from suites.apex_dqn import options

    args, settings = options.parse(__doc__.partition("\n")[0], arguments)
    if args.hosts is not None:
        from suites.apex_dqn.cluster import made_hosts

        return made_hosts.run(args, settings)
    from suites.apex_dqn import program  # importing PyTorch takes seconds

    return program.run(args, settings)


if __name__ == "__main__":
    sys.exit(main())
