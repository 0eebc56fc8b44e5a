"""The two builds that a gate compares, in venvs that differ only in the package."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from zipfile import ZipFile

from adapters import venvs
from results.analysis.verdict import HarnessError
from suites.gate.sources import FOLDER, Source
from suites.runner import process as processes
from suites.runner.driver import Interrupt

LIMIT_SECONDS = 900
NINJA = Path(sysconfig.get_path("scripts"), "ninja")


@dataclass(frozen=True)
class Side:
    """One of the two builds."""

    name: str  # its name as a peer of the run
    source: Source
    venv: str | None = None  # one of `adapters.venvs`, whose packages the measurement also needs
    options: tuple[str, ...] = ()  # CMake options of the build, as NAME=VALUE
    variables: tuple[str, ...] = ()  # environment variables of its launches, as NAME=VALUE
    order: int | None = None  # seed of the link order; None: a different order in each launch

    @property
    def version(self) -> str:
        return self.source.version

    @property
    def home(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def start(self) -> list[str]:
        """The beginning of a command that runs this side's Python."""
        return [*(["env", *self.variables] if self.variables else []), str(self.python)]

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.home)}))

    @property
    def wheel(self) -> Path:
        return next((self.home / "wheel").glob("*.whl"))

    @cached_property
    def package(self) -> str:
        """The import name of the built package."""
        with ZipFile(self.wheel) as wheel:
            files = [PurePath(name) for name in wheel.namelist()]
        found = {file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"}
        found |= {
            file.name.partition(".")[0] for file in files if len(file.parts) == 1 and file.suffix in (".py", ".so")
        }
        called = self.wheel.name.partition("-")[0].lower()
        public = sorted(name for name in found if not name.startswith("_"))
        if not public:
            raise HarnessError(f"{self.wheel.name} contains no module that can be imported by name")
        return called if called in public else public[0]

    @property
    def libraries(self) -> list[Path]:
        """The compiled modules of the package."""
        return list((self.site_packages / self.package).rglob("*.so"))

    def build(self, interrupt: Interrupt) -> None:
        """Make a fresh venv with the package built from its source, and make an existing venv's packages importable in
        it.

        Python searches the paths in the .pth file after the venv's own packages. It does not read .pth files in
        those folders, so an editable install of the package in our venv has no effect.
        """
        print(f"building {self.name} ({self.version})", flush=True)
        shutil.rmtree(self.home, ignore_errors=True)
        venv.create(self.home, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
        settings = [f"--config-settings=cmake.define.{option}" for option in self.options]
        if self.source.is_ours:
            settings.append(f"--config-settings=build-dir={self._objects}")
        pack = [*pip, "wheel", "--no-deps", f"--wheel-dir={self.home / 'wheel'}", *settings]
        with self.source.pip_arguments() as given:
            self._run(interrupt, [*pack, *given])
        install = ["install", "--no-deps", "--no-index", f"--target={self.site_packages}"]
        self._run(interrupt, [*pip, *install, str(self.wheel)])
        behind = [*venvs.site_packages(self.venv), str(processes.CHECKOUT)]
        (self.site_packages / "behind.pth").write_text("\n".join(dict.fromkeys(behind)) + "\n")

    @property
    def _objects(self) -> Path:
        return self.home / "build"

    def _run(self, interrupt: Interrupt, command: list[str]) -> None:
        if trouble := processes.run(command, LIMIT_SECONDS, tick=interrupt.check).trouble:
            raise HarnessError(f"{self.name} ({self.version}) does not build: {trouble}")

    def renew(self) -> None:
        """Relink each library so that it occupies other memory pages; if `order` is None, its object files are in a
        random order.

        A function's address determines how it shares the caches with other code: identical builds differed by 10% in
        every launch. So can two builds whose code was only moved by an unrelated change. A new address in each launch
        turns this bias into noise, which the verdict takes into account. A library that was not linked here is only
        copied.
        """
        seed = random.getrandbits(32) if self.order is None else self.order
        for library in self.libraries:
            new = library.with_suffix(".new")
            command = self._link_command(library.name)
            if command is None:
                shutil.copyfile(library, new)
            else:
                done = subprocess.run(
                    [*_shuffled(command, seed, new), "-s"], cwd=self._objects, capture_output=True, text=True
                )
                if done.returncode:
                    raise HarnessError(f"{self.name} does not link: {done.stderr.strip()[-400:]}")
            new.replace(library)

    def _link_command(self, library: str) -> list[str] | None:
        """Return the command with which Ninja links this library, or None if Ninja does not link it."""
        listed = subprocess.run(
            [str(NINJA), "-C", str(self._objects), "-t", "commands", library], capture_output=True, text=True
        )
        lines = listed.stdout.splitlines()
        if listed.returncode or not lines:
            return None
        words = shlex.split(lines[-1])  # : && c++ ... -o library a.o b.o ... && :
        return words[2:-2] if words[:2] == [":", "&&"] and words[-2:] == ["&&", ":"] else None


def identical(sides: Sequence[Side]) -> bool:
    """Return whether the wheels of all sides contain the same files, apart from the wheels' own metadata."""
    return len({_installed(side.wheel) for side in sides}) == 1


def _installed(wheel: Path) -> frozenset[tuple[str, int]]:
    with ZipFile(wheel) as archive:
        files = [each for each in archive.infolist() if ".dist-info/" not in each.filename]
    return frozenset((each.filename, each.CRC) for each in files)


def _shuffled(command: list[str], seed: int, output: Path) -> list[str]:
    """Return a link command with its object files shuffled and its output replaced."""
    objects = [word for word in command if word.endswith(".o")]
    random.Random(seed).shuffle(objects)
    order = iter(objects)
    words = [next(order) if word.endswith(".o") else word for word in command]
    words[words.index("-o") + 1] = str(output)
    return words
