"""Begin a new peer: its adapter, with what it promises, and its line in the registry.

    python -m adapters.new_peer NAME [ENVIRONMENT]      # make new-peer NAME=... calls it

What is written runs, and fails every conformance test until its TODOs are done: nothing in it can pass by accident.
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

TODO: which page of its documentation shows the way it is used here, and what is odd about it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.promises import Promises


class $cls(Adapter):
    name = "$name"
    distribution = "$name"  # TODO: its name on PyPI, if that is another
$environment    usage = "TODO: the calls that are used here (the page that says so)"
    # Each may end in its evidence, in brackets: a page, or a test of tests/adapters/test_features.py that saw it.
    features = Features(
        batch_add="TODO",
        flexible_fields="TODO",
        prioritized="TODO",  # "yes, ...", or "no": then nothing below asks for priorities
        weights="TODO",
        duplicates="TODO",
        gives="TODO",
        copies_on_add="TODO",
        n_step="TODO",
        processes="TODO",
        framework="TODO",
        licence="TODO",
        disk="TODO",
        machines="TODO",
        last_release="TODO: version, and the date when it was published",
    )
    # TODO: a word for each check where the default (adapters/promises.py) is not what its documentation promises.
    promises = Promises(source="TODO")

    def __init__(self, spec: Spec) -> None:
        # Import the library here, and not above.
        self.fields, self.prioritized = spec.fields, spec.prioritized
        raise AssertionError("$name: the constructor is not written yet")

    def add(self, steps: Sequence[Step]) -> None:
        raise AssertionError("$name: add is not written yet")

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        raise AssertionError("$name: add_batch is not written yet")

    def sample(self, batch_size: int) -> Columns:
        raise AssertionError("$name: sample is not written yet")

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        raise AssertionError("$name: update_priorities is not written yet; without priorities, take it out")

    def __len__(self) -> int:
        raise AssertionError("$name: __len__ is not written yet")
''')


def main(arguments: Sequence[str], room: Path = HERE) -> int:
    name, environment = ([*arguments, ""] if len(arguments) == 1 else arguments) if arguments else ("", "")
    module = name.replace("-", "_")
    if trouble := _trouble(name, module, room):
        print(trouble, file=sys.stderr)
        return 2
    cls = "".join(part.capitalize() for part in module.split("_"))
    line = f'    environment = "{environment}"\n' if environment else ""
    (room / "peers" / f"{module}.py").write_text(SKELETON.substitute(name=name, cls=cls, environment=line))
    _register(room / "registry.py", f'    "{name}": "adapters.peers.{module}:{cls}",\n')
    print(
        f"wrote adapters/peers/{module}.py and its line in adapters/registry.py; CONTRIBUTING.md tells the next steps"
    )
    return 0


def _trouble(name: str, module: str, room: Path) -> str | None:
    if not name:
        return "which peer? make new-peer NAME=..."
    if not NAME.fullmatch(name):
        return f"{name!r} is no name for a peer: lower-case letters, digits and single dashes, a letter first"
    if name in map(registry.family, registry.every()):
        return f"there is a peer {name!r} already"
    if (room / "peers" / f"{module}.py").exists():
        return f"there is an adapters/peers/{module}.py already"
    return None


def _register(file: Path, line: str) -> None:
    """At the end of ON_REQUEST: a new peer is measured when named, until it is among the usual ones."""
    text = file.read_text().replace("ON_REQUEST: dict[str, str] = {}", "ON_REQUEST: dict[str, str] = {\n}")
    end = text.index("\n}", text.index("ON_REQUEST: dict[str, str] = {")) + 1
    file.write_text(text[:end] + line + text[end:])


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument]))
