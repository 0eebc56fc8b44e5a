"""Install the venvs of peers; make calls it.

python -m adapters.install NAME ...      # these venvs, or those of these peers; without names, those of all default
peers
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from adapters import registry, venvs


def main(names: Collection[str]) -> int:
    wanted: list[str | None] = [name for name in names if venvs.is_known(name)]
    peers = [name for name in names if name not in wanted]
    try:
        chosen = registry.chosen(peers) if peers or not names else []
        # Training arms need PyTorch's venv, which make installs only for the profiles that train.
        chosen = [name for name in chosen if name in names or name not in registry.training_arms()]
        wanted += [registry.peer_class(name).venv for name in chosen]
    except registry.UnknownPeer as error:
        print(error, file=sys.stderr)
        return 2
    for name in dict.fromkeys(wanted):
        if name is not None:
            venvs.make(name)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main([name.strip() for text in sys.argv[1:] for name in text.split(",") if name.strip()]))
    except KeyboardInterrupt:  # a partial installation is replaced next time
        sys.exit(130)
