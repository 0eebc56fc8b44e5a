"""Run the conformance tests of the peers that are measured only when named, each in its own venv.

    python -m tests.adapters.in_venvs [PEER,...] [ARGUMENT OF PYTEST ...]      # `make test-peers` calls it

Without names: all such peers. The tests are those that `make test` runs for all other peers. A peer whose venv
cannot be created fails, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from adapters import registry, venvs

TESTS = ("tests/adapters/test_conformance.py", "tests/adapters/test_any_fields.py")
OF_SEQUENCES = ("tests/adapters/test_sequence_contracts.py",)  # for peers that draw these
FAMILIES = "tests/check/test_families.py"
ONLY_THERE: dict[str | None, list[str]] = {
    "legacy": ["tests/adapters/peers/test_fidelity.py", FAMILIES],
    "torch": [FAMILIES],
    "jax": [FAMILIES],
}


def main(names: Sequence[str], options: Sequence[str]) -> int:
    known = {**registry.ON_REQUEST, **registry.SEQUENCES_ON_REQUEST}
    try:
        peers = [name for name in registry.chosen(names or [registry.ALL]) if name in known]
    except registry.UnknownPeer as error:
        print(error, file=sys.stderr)
        return 2
    if not peers:
        print(f"make test tests these: {', '.join(names)}", file=sys.stderr)
        return 2
    groups: dict[tuple[str | None, Sequence[str]], list[str]] = {}
    for name in peers:
        venv = registry.peer_class(name).venv
        tests = OF_SEQUENCES if name in registry.SEQUENCES_ON_REQUEST else (*TESTS, *ONLY_THERE.get(venv, ()))
        groups.setdefault((venv, tests), []).append(name)
    return max([_test(venv, tests, names, options) for (venv, tests), names in groups.items()])


def _test(venv: str | None, tests: Sequence[str], peers: Sequence[str], options: Sequence[str]) -> int:
    if venv is not None:
        venvs.make(venv)
    missing = [f"{name}: {reason}" for name in peers if (reason := registry.describe(name).reason)]
    if missing:
        print(*missing, sep="\n", file=sys.stderr)
        return 1
    print(f"{', '.join(peers)} in {venv or 'make test'}'s venv", flush=True)
    # This setting is for pytest-timeout, which the venv may lack.
    command = [
        venvs.python(venv),
        "-m",
        "pytest",
        "-q",
        "-W",
        "ignore::pytest.PytestConfigWarning",
        *tests,
    ]
    return subprocess.run([*command, *(f"--peer={name}" for name in peers), *options]).returncode


if __name__ == "__main__":
    named, *options = sys.argv[1:] or [""]
    sys.exit(main([name.strip() for name in named.split(",") if name.strip()], options))
