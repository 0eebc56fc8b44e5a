"""Releases of other libraries: downloaded and unpacked, but not installed, and the Pythons that run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from adapters import venvs

HERE = Path(__file__).resolve().parent
CACHE = venvs.CHECKOUT / ".cache" / "check-corpus"
INSTALLED = "installed"  # stands for the release in the venv


class NotObtained(Exception):  # noqa: N818 (a state, with its reason)
    """A release or the Python to run it is missing; the message says why."""


@dataclass(frozen=True)
class Fault:
    """A published fault. A release is "name==version", or `INSTALLED`; `fixed` is "" if there is none."""

    number: int
    library: str
    fault: str
    reference: str
    broken: str
    fixed: str
    python: str  # a venv of `adapters.venvs`, "" for the common one, or a version such as "3.8"
    functions: str  # a file in functions/
    checks: tuple[str, ...] = ()  # that a fault of the broken release must fail
    out_of_scope: str = ""  # why the check does not look for it
    borrows: str = ""  # files of the installed library that the release lacks for this version of its requirements

    @property
    def file(self) -> Path:
        return HERE / "functions" / f"{self.functions}.py"


@cache
def table() -> dict[str, Any]:
    return tomllib.loads((HERE / "releases.toml").read_text(encoding="utf-8"))


def faults() -> list[Fault]:
    return [Fault(**{**each, "checks": tuple(each.get("checks", ()))}) for each in table()["fault"]]


def unpacked(release: str, fault: Fault) -> Path:
    """Return the folder of a release, downloaded first if it is not there. Raises `NotObtained`."""
    name, _, version = release.partition("==")
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        part = folder.with_suffix(f".part{os.getpid()}")
        _unpack(_downloaded(release, python(fault.python)), part)
        if fault.borrows:
            _borrow(part, fault)
        part.rename(folder)
    return folder


def _downloaded(release: str, python: str) -> Path:
    """Return the release's wheel or source archive. It is downloaded for the Python that will run it, whose pip runs
    the setup.py of a source archive to learn the release's name."""
    folder = CACHE / "downloads" / release
    pip = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", f"--dest={folder}"]
    done = subprocess.run([*pip, release], capture_output=True, text=True, errors="replace")
    files = [file for file in folder.glob("*") if file.is_file()]
    if done.returncode or len(files) != 1:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["pip downloaded nothing"]
        raise NotObtained(f"{release}: {said[-1].strip()}")
    return files[0]


def _unpack(archive: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        return
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (inner,) = folder.iterdir()  # name-version
    for each in list(inner.iterdir()):
        each.rename(folder / each.name)
    inner.rmdir()


def _borrow(folder: Path, fault: Fault) -> None:
    for site in map(Path, venvs.site_packages(fault.python or None)):
        for file in site.glob(fault.borrows):
            shutil.copy(file, folder / file.relative_to(site))


@cache
def python(name: str) -> str:
    """Return the interpreter of a venv, or of one made here for an old version of Python. Raises `NotObtained`."""
    if re.fullmatch(r"[\d.]+", name):
        return _old(name)
    if name and (trouble := venvs.trouble(name)):
        raise NotObtained(trouble)
    return venvs.python(name or None)


def _old(version: str) -> str:
    """Return the interpreter of a venv for an old version, with the libraries that releases of its time need."""
    folder = CACHE / f"python{version}"
    if not (folder / "done").exists():
        found = _interpreter(version)
        if found is None:
            raise NotObtained(f"there is no python{version}, on the path or of pyenv")
        made = [[found, "-m", "venv", "--clear", str(folder)]]
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        made += [[*pip, *table()["python"][version]["requirements"]]]
        for command in made:
            if subprocess.run(command, stdout=sys.stderr).returncode:
                raise NotObtained(f"the venv for Python {version} could not be made")
        (folder / "done").touch()
    return str(folder / "bin" / "python")


def _interpreter(version: str) -> str | None:
    """Return an interpreter of this version. pyenv's shims are no use: they run only versions that are switched on."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = [*sorted(root.glob(f"versions/{version}.*/bin")), *map(Path, os.environ["PATH"].split(os.pathsep))]
    for each in folders:
        found = str(each / f"python{version}")
        if shutil.which(found) and not subprocess.run([found, "-c", ""], capture_output=True).returncode:
            return found
    return None
