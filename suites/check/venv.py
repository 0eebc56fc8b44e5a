"""Starts a check with a Python that can import the buffer. Needs only the standard library.

    python -m suites.check.venv BUFFER [--project FOLDER] [options of suites.check]

The Python is, in this order: the one named on make's command line, that of the venv in the project's folder, that of
the active venv, or that of a venv made here, with NumPy and what the project requires.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

HOUSE = Path(__file__).resolve().parents[2]
ROOT = HOUSE / ".cache" / "check"
NAMED = "REPLAYBENCH_PYTHON"  # the Python named on make's command line; an environment variable
NEEDED = "import sys, numpy; sys.exit(sys.version_info < (3, 11))"
FOR_FUNCTIONS = "import sys, numpy; sys.exit(sys.version_info < (3, 7))"  # suites.check.remote
SUPPORTED = "Python 3.11 or later with NumPy, or 3.7 or later for a file with functions"
#: Files that say what a project requires, the first that exists, and how pip is asked to install it.
REQUIREMENTS = {
    "pyproject.toml": lambda folder: [str(folder)],
    "setup.py": lambda folder: [str(folder)],
    "requirements.txt": lambda folder: ["-r", str(folder / "requirements.txt")],
}


def main(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the check, which Ctrl-C then reaches alone."""
    if (made := command(arguments)) is None:
        sys.exit(2)
    path = os.pathsep.join(filter(None, [str(HOUSE), os.environ.get("PYTHONPATH", "")]))
    os.execvpe(made[0], made, {**os.environ, "PYTHONPATH": path})


def command(arguments: Sequence[str]) -> list[str] | None:
    """Return the command that makes the check, or None if there can be none, after saying why."""
    if not arguments or not arguments[0]:
        print("BUFFER must be module:Class or the path of a Python file; docs/check.md says more", file=sys.stderr)
        return None
    if (named := os.environ.get(NAMED)) and not shutil.which(named):
        print(f"PYTHON must be an executable, got {named!r}", file=sys.stderr)
        return None
    project = _project(arguments)
    python = _found(project) or _made(project)
    if python is None:
        return None
    if not _has(python, NEEDED):
        if not arguments[0].endswith(".py") or not _has(python, FOR_FUNCTIONS):
            print(f"{python} must be {SUPPORTED}; name another one with PYTHON=...", file=sys.stderr)
            return None
        arguments, python = [*arguments, f"--through={python}"], _made(None)
    return None if python is None else [python, "-m", "suites.check", *arguments]


def _has(python: str, code: str) -> bool:
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def _project(arguments: Sequence[str]) -> Path | None:
    given = [after for name, after in itertools.pairwise(arguments) if name == "--project"]
    return Path(given[-1]) if given else None


def _found(project: Path | None) -> str | None:
    folders = [project / name for name in (".venv", "venv")] if project else []
    folders += [Path(os.environ["VIRTUAL_ENV"])] if "VIRTUAL_ENV" in os.environ else []
    candidates = [os.environ.get(NAMED, ""), *(str(folder / "bin" / "python") for folder in folders)]
    return next((each for each in candidates if each and shutil.which(each)), None)


def _made(project: Path | None) -> str | None:
    """Return the Python of a venv with NumPy and the project's requirements, or None if pip fails."""
    wanted = _requirements(project)
    folder = ROOT / hashlib.sha256(repr((sys.version, wanted, _content(project))).encode()).hexdigest()[:12]
    python, done = folder / "bin" / "python", folder / "done"
    if not done.exists():
        print(f"creating a venv with {' '.join(wanted)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
        if subprocess.run(pip, stdout=sys.stderr).returncode:
            print("this venv cannot be installed; name a Python that has the buffer: PYTHON=...", file=sys.stderr)
            return None
        done.touch()
    return str(python)


def _requirements(project: Path | None) -> list[str]:
    pinned = re.search(r"^numpy==\S+", (HOUSE / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    if project is None:
        return [pinned[0]]
    file = next((name for name in REQUIREMENTS if (project / name).is_file()), None)
    return ["numpy", *REQUIREMENTS[file](project.resolve())] if file else [pinned[0]]


def _content(project: Path | None) -> list[str]:
    files = [project / name for name in REQUIREMENTS] if project else []
    return [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]


if __name__ == "__main__":
    main(sys.argv[1:])
