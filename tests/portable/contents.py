"""Check what is in a wheel: this package's Python files and types, one extension, the licence, and right metadata.

A wheel contains no C++ sources: nothing reads them at run time, and the source archive has them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "cpprb_impl"
EXTENSION = re.compile(PACKAGE + r"/_native\.cpython-(?P<python>\d+)-(?P<processor>x86_64|aarch64)-linux-gnu\.so")
TAG = re.compile(r"cp(?P<python>\d+)-cp(?P=python)-manylinux_2_\d+_(?P<processor>x86_64|aarch64)")


def package_files() -> set[str]:
    found = [path for pattern in ("*.py", "*.pyi", "py.typed") for path in (ROOT / PACKAGE).rglob(pattern)]
    return {path.relative_to(ROOT).as_posix() for path in found}


def problems(wheel: Path) -> list[str]:
    """Return a sentence for each fault of this wheel."""
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = f"{PACKAGE}-{project['version']}.dist-info"
        of_info = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
        extensions = {name for name in names if EXTENSION.fullmatch(name)}
        wanted = package_files() | of_info
        out = [f"{name} is missing" for name in sorted(wanted - names)]
        out += [f"{name} should not be in it" for name in sorted(names - wanted - extensions)]
        if len(extensions) != 1:
            out.append(f"there must be one extension, got {sorted(extensions)}")
        elif f"{info}/WHEEL" in names:
            out += wrong_tags(message_from_bytes(archive.read(f"{info}/WHEEL")), EXTENSION.fullmatch(*extensions))
        if f"{info}/METADATA" in names:
            out += wrong_metadata(message_from_bytes(archive.read(f"{info}/METADATA")), project)
    return out


def wrong_tags(wheel: Message, extension: re.Match) -> list[str]:
    """Return the wrong tags in its WHEEL file: all must be manylinux, for the extension's Python and processor."""
    tags = wheel.get_all("Tag", [])
    right = [tag for tag in tags if (found := TAG.fullmatch(tag)) and found.groupdict() == extension.groupdict()]
    return [] if tags and right == tags else [f"tags must be of manylinux and fit {extension[0]}, got {tags}"]


def wrong_metadata(metadata: Message, project: dict) -> list[str]:
    required = [line.replace(" ", "") for line in metadata.get_all("Requires-Dist", [])]
    extras = project["optional-dependencies"]
    of_extras = [f'{each};extra=="{extra}"' for extra, needed in extras.items() for each in needed]
    page = (ROOT / project["readme"]).read_text(encoding="utf-8")
    pairs = {
        "the name": (metadata["Name"], project["name"]),
        "the version": (metadata["Version"], project["version"]),
        "Python": (metadata["Requires-Python"], project["requires-python"]),
        "the licence": (metadata["License-Expression"], project["license"]),
        "the extras": (sorted(metadata.get_all("Provides-Extra", [])), sorted(extras)),
        "the requirements": (
            sorted(line.replace("'", '"') for line in required),
            sorted(each.replace(" ", "") for each in project["dependencies"] + of_extras),
        ),
        "the page": (metadata.get_payload(decode=True).decode().strip(), page.strip()),
        "the page's format": (metadata["Description-Content-Type"], "text/markdown"),
    }
    return [f"{what} must be {right!r}, got {got!r}" for what, (got, right) in pairs.items() if got != right]


def main(wheels: list[str]) -> int:
    wrong = 0
    for wheel in map(Path, wheels):
        for problem in problems(wheel):
            print(f"{wheel.name}: {problem}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
