"""Environments of their own, for peers whose requirements clash with those of others.

One peer's pins must not hold back another's version, so each group of peers that can live together has a virtual
environment in `.peers/<name>`, installed from `adapters/pins/<name>.txt` as it stands. A launch of such a peer runs
there, with the same code and the same protocol as any other launch.

    python -m adapters.environments PEER ...      # make what these peers need; `make` calls it

A group that can't be installed is no reason to stop: why is kept in `.peers/<name>/failed`, and becomes the reason of
its peers' cells.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Collection
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT / ".peers"
PINS = CHECKOUT / "adapters" / "pins"
LAST_WORDS = 300  # characters of what pip said


class NotInstalled(Exception):  # noqa: N818 (a state of things, with its reason)
    """This peer could be here, and isn't: the message says why."""


def python(environment: str | None) -> str:
    """The interpreter to launch a peer of this environment with: this one where there is none, so that the launch
    itself finds out why its peer can't be imported."""
    own = ROOT / environment / "bin" / "python" if environment else None
    return str(own) if own and _installed(environment) else sys.executable


def shown(environment: str | None) -> str:
    """The interpreter as a command names it, in the checkout; "python" is the one of everything else."""
    return f"{ROOT.name}/{environment}/bin/python" if environment else "python"


def version(distribution: str, environment: str | None) -> str:
    """The version of a library in its environment. Raises `NotInstalled`."""
    return installed(distribution, environment).version


def installed(distribution: str, environment: str | None) -> importlib.metadata.Distribution:
    """A library as its environment has it: version, licence. Raises `NotInstalled`."""
    if environment is None or Path(sys.prefix) == ROOT / environment:
        try:
            return importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            raise NotInstalled(f"{distribution} is not installed") from None
    if _failed(environment).exists():
        raise NotInstalled(_failed(environment).read_text())
    if not _installed(environment):
        raise NotInstalled(f"its environment, {environment!r}, was not made: make bench PEERS=... does it")
    folders = [str(path) for path in (ROOT / environment / "lib").glob("python*/site-packages")]
    found = next(iter(importlib.metadata.distributions(name=distribution, path=folders)), None)
    if found is None:
        raise NotInstalled(f"{distribution} is not in its environment, {environment!r}")
    return found


def make(environment: str) -> None:
    """Have this environment installed as pinned, or the reason why not written down. One at a time: another make, or
    the pip of one that was killed, may still be at it."""
    if _installed(environment):
        return
    try:
        ROOT.mkdir(exist_ok=True)
        with (ROOT / f"{environment}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _installed(environment):
                _make(environment, lock)
    except OSError as error:  # nothing can be written there, so that "not made" stays its peers' reason
        print(f"the environment {environment!r} could not be made: {error}", file=sys.stderr)


def _make(environment: str, lock: IO[str]) -> None:
    folder = ROOT / environment
    print(f"installing the peers of {environment!r} into {folder.relative_to(CHECKOUT)} (a minute or more)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    reason = None
    try:
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # What comes as source is built with the tools that are pinned, too (the second name is that of newer pips). An
        # address, since pip takes a path with a space for two.
        constraints = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), _pins(environment).as_uri())
        done = subprocess.run(
            [*pip, "--no-deps", "-r", str(_pins(environment))],
            env={**os.environ, **constraints},
            pass_fds=[lock.fileno()],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            reason = " | ".join([line for line in said if line.startswith("ERROR")] or said)[-LAST_WORDS:]
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    if reason is None:
        _mark(environment).write_text(_digest(environment))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _failed(environment).write_text(f"its environment, {environment!r}, could not be installed: {reason}")
        print(_failed(environment).read_text(), file=sys.stderr)


def _pins(environment: str) -> Path:
    return PINS / f"{environment}.txt"


def _mark(environment: str) -> Path:
    return ROOT / environment / "installed"


def _failed(environment: str) -> Path:
    return ROOT / environment / "failed"


def _digest(environment: str) -> str:
    return hashlib.sha256(_pins(environment).read_bytes()).hexdigest()


def _installed(environment: str) -> bool:
    """As pinned today, with the Python that it was made with still there."""
    mark, its_python = _mark(environment), ROOT / environment / "bin" / "python"
    return mark.exists() and its_python.exists() and mark.read_text() == _digest(environment)


def main(names: Collection[str]) -> int:
    from adapters import registry

    try:
        wanted = [registry.adapter_class(name).environment for name in registry.chosen(names)]
    except registry.UnknownPeer as error:
        print(error, file=sys.stderr)
        return 2
    for environment in dict.fromkeys(wanted):
        if environment is not None:
            make(environment)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main([name.strip() for text in sys.argv[1:] for name in text.split(",") if name.strip()]))
    except KeyboardInterrupt:  # what is half made is made anew next time
        sys.exit(130)
