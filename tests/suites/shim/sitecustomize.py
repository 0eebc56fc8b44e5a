"""With this folder on PYTHONPATH, a launch knows the peers of faulty_peers.py, and suites in other folders, as well as
the project's own."""

import os
from pathlib import Path

try:
    from adapters import catalog  # since the registry would import NumPy, which a helper process may not need
except ImportError:  # a helper process that cannot see the checkout needs no peers
    catalog = None

if catalog is not None:
    for entry in os.environ.get("FAULTY_PEERS", "").split():
        name, _, stands_for = entry.partition("=")
        kind = (stands_for or name).title().replace("-", "")
        catalog.PEERS[name] = catalog.SHARED[name] = f"faulty_peers:{kind}"

if folder := os.environ.get("ADDED_SUITES"):  # the tests of the gate have their own suites
    import suites

    suites.__path__.append(folder)
    suites.SUITES += tuple(spec.parent.name for spec in Path(folder).glob("*/spec.py"))
