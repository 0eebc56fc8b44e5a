"""Separate venvs for peers whose requirements conflict with those of other peers.

One peer's pins must not restrict another's version, so each group of compatible peers has a virtual environment (venv)
in `.peers/<name>`, installed from `adapters/pins/<name>.txt` without dependency resolution. A launch of such a peer
runs in its venv, with the same code and protocol as any other launch.

If a venv cannot be installed, the reason is stored in `.peers/<name>/failed`, and the cells of its peers record this
reason; the run continues.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT / ".peers"
PINS = CHECKOUT / "adapters" / "pins"
PYTORCH = "torch"  # the venv for training runs, whatever buffer they use
LONGEST_REASON = 300  # characters of pip's messages that a reason quotes


class NotInstalled(Exception):  # noqa: N818 (a state, with its reason)
    """The peer exists for this platform but is not installed; the message says why."""


def python(name: str | None) -> str:
    """Return the interpreter for launches in this venv. If the venv is not installed, return the current
    interpreter, so that the launch itself reports why its peer cannot be imported."""
    if name is None or not _installed(name):
        return sys.executable
    return str(ROOT / name / "bin" / "python")


def site_packages(name: str | None) -> list[str]:
    """Return the folders of the packages that are installed in this venv."""
    if name is None:
        return [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return [str(path) for path in (ROOT / name / "lib").glob("python*/site-packages")]


def is_known(name: str) -> bool:
    return _pins(name).exists()


def trouble(name: str) -> str | None:
    """Return why this venv cannot be used, or None if it can."""
    if not is_known(name):
        known = ", ".join(sorted(path.stem for path in PINS.glob("*.txt")))
        return f"unknown venv {name!r}; known venvs: {known}"
    if _failed(name).exists():
        return _failed(name).read_text()
    return None if _installed(name) else f"its venv, {name!r}, is not installed"


def shown(name: str | None) -> str:
    """Return the interpreter of a venv as typed in the checkout; "python" stands for the common venv's interpreter."""
    return f"{ROOT.name}/{name}/bin/python" if name else "python"


def version(distribution: str, name: str | None) -> str:
    """Return the version of a library in its venv. Raises `NotInstalled`."""
    return installed(distribution, name).version


def installed(distribution: str, name: str | None) -> importlib.metadata.Distribution:
    """Return a library's metadata in its venv. Raises `NotInstalled`."""
    if name is None or set(site_packages(name)) & set(sys.path):  # it can be imported here
        try:
            return importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            raise NotInstalled(f"{distribution} is not installed") from None
    if _failed(name).exists():
        raise NotInstalled(_failed(name).read_text())
    if not _installed(name):
        raise NotInstalled(f"its venv, {name!r}, is not installed; install it with make setup PEERS=...")
    found = next(iter(importlib.metadata.distributions(name=distribution, path=site_packages(name))), None)
    if found is None:
        raise NotInstalled(f"{distribution} is not installed in its venv, {name!r}")
    return found


def make(name: str) -> None:
    """Install this venv as pinned, or store the reason why that failed.

    A lock ensures one installation at a time: another make, or the pip of a killed make, may still be running.
    """
    if _installed(name):
        return
    try:
        ROOT.mkdir(exist_ok=True)
        with (ROOT / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _installed(name):
                _make(name, lock)
    except OSError as error:  # no reason can be stored there, so its peers remain "not installed"
        print(f"the venv {name!r} could not be installed: {error}", file=sys.stderr)


def _make(name: str, lock: IO[str]) -> None:
    folder = ROOT / name
    print(f"installing the peers of {name!r} into {folder.relative_to(CHECKOUT)} (a minute or more)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    reason = None
    try:
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Source distributions are also built with pinned tools (newer versions of pip use the second name). The value
        # is a URI, since pip splits a path at a space.
        constraints = dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), _pins(name).as_uri())
        done = subprocess.run(
            [*pip, "--no-deps", "-r", str(_pins(name))],
            env={**os.environ, **constraints},
            pass_fds=[lock.fileno()],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            reason = " | ".join([line for line in errors if line.startswith("ERROR")] or errors)[-LONGEST_REASON:]
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    if reason is None:
        _mark(name).write_text(_digest(name))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _failed(name).write_text(f"its venv, {name!r}, could not be installed: {reason}")
        print(_failed(name).read_text(), file=sys.stderr)


def _pins(name: str) -> Path:
    return PINS / f"{name}.txt"


def _mark(name: str) -> Path:
    return ROOT / name / "installed"


def _failed(name: str) -> Path:
    return ROOT / name / "failed"


def _digest(name: str) -> str:
    return hashlib.sha256(_pins(name).read_bytes()).hexdigest()


def _installed(name: str) -> bool:
    """Return whether the current pins are installed and the Python used to install them still exists."""
    mark, its_python = _mark(name), ROOT / name / "bin" / "python"
    return mark.exists() and its_python.exists() and mark.read_text() == _digest(name)
