"""Generate the skeleton of a new peer: an adapter with its contract, and a line in the registry.

    python -m adapters.new_peer NAME [VENV]      # `make new-peer NAME=...` calls it

The skeleton can be imported, but it fails every conformance test until its TODOs are resolved.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from adapters import registry

HERE = Path(__file__).resolve().parent
NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
SKELETON = Template('''"""TODO: what $name is, in one sentence.

TODO: link the page of its documentation that shows this use, and note its oddities.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes


class $cls(Adapter):
    name = "$name"
    distribution = "$name"  # TODO: its name on PyPI, if different
$venv    usage = "TODO: the calls that are used here (the page that documents them)"
    # yes(...) and no(...) take a detail for the feature table and its evidence: a page, or "seen: " and a test.
    contract = Contract(
        batch_add=no("TODO"),
        fields=Stated(RowFields.FIXED, "TODO"),
        priorities=yes(),  # TODO: or no()
        returns=Stated(Returns.COLUMNS, "TODO: their type"),
        n_step=no("TODO"),
        disk=no("TODO"),
        framework="TODO",
        licence="TODO",
        release=Release("TODO", datetime.date(2000, 1, 1)),  # the pinned version, and when it was published
        # TODO: the fields of adapters/contract.py for which its documentation states a value other than the default.
        source="TODO: where its documentation states it",
    )

    def __init__(self, spec: Spec) -> None:
        # Import the library here, not at the top of the file.
        self.fields, self.prioritized = spec.fields, spec.prioritized
        raise AssertionError("$name: the constructor is not written yet")

    def add(self, steps: Sequence[Step]) -> None:
        raise AssertionError("$name: add is not written yet")

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        raise AssertionError("$name: add_batch is not written yet")

    def sample(self, batch_size: int) -> Columns:
        raise AssertionError("$name: sample is not written yet")

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        raise AssertionError("$name: update_priorities is not written yet; delete it if there are no priorities")

    def __len__(self) -> int:
        raise AssertionError("$name: __len__ is not written yet")
''')


def main(arguments: Sequence[str], folder: Path = HERE) -> int:
    name, venv = ([*arguments, ""] if len(arguments) == 1 else arguments) if arguments else ("", "")
    module = name.replace("-", "_")
    if error := _check_name(name, module, folder):
        print(error, file=sys.stderr)
        return 2
    cls = "".join(part.capitalize() for part in module.split("_"))
    line = f'    venv = "{venv}"\n' if venv else ""
    (folder / "peers" / f"{module}.py").write_text(SKELETON.substitute(name=name, cls=cls, venv=line))
    _register(folder / "catalog.py", f'    "{name}": "adapters.peers.{module}:{cls}",\n')
    print(f"wrote adapters/peers/{module}.py and its line in adapters/catalog.py; next: see CONTRIBUTING.md")
    return 0


def _check_name(name: str, module: str, folder: Path) -> str | None:
    if not name:
        return "NAME must be the name of the new peer: make new-peer NAME=..."
    if not NAME.fullmatch(name):
        return f"NAME must be lower-case letters, digits and single dashes, beginning with a letter, got {name!r}"
    if name in map(registry.family, registry.every()):
        return f"NAME must be new, got {name!r}, which is already listed in adapters/catalog.py"
    for path in (f"{module}.py", module):
        if (folder / "peers" / path).exists():
            return f"NAME must be new, got {name!r}, but adapters/peers/{path} already exists"
    return None


def _register(file: Path, line: str) -> None:
    """Add a line to the end of ON_REQUEST: a new peer is measured only when named."""
    start = "\nON_REQUEST: dict[str, str] = {"  # does not match SHARED_ON_REQUEST, for instance
    text = file.read_text().replace(f"{start}}}", f"{start}\n}}")
    end = text.index("\n}", text.index(start)) + 1
    file.write_text(text[:end] + line + text[end:])


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument]))
