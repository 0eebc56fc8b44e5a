"""With this folder on PYTHONPATH, a launch knows the peers of faulty_peers.py, and suites of other folders, beside the
project's own."""

import os
from pathlib import Path

try:
    from adapters import registry
except ImportError:  # a helper process that can't see the checkout needs no peers
    registry = None

if registry is not None:
    for entry in os.environ.get("FAULTY_PEERS", "").split():
        name, _, stands_for = entry.partition("=")
        kind = (stands_for or name).title().replace("-", "")
        registry.PEERS[name] = registry.SHARED[name] = f"faulty_peers:{kind}"

if folder := os.environ.get("ADDED_SUITES"):  # else not imported: the gate's tests have suites of their own
    import suites

    suites.__path__.append(folder)
    suites.SUITES += tuple(spec.parent.name for spec in Path(folder).glob("*/spec.py"))
